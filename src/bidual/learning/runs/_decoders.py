"""Decoders of stored policies: every emission is written once, and a decoder names its emissions by number."""

import numpy as np
from jaxtyping import Int

from bidual.world.policies import CategoricalEmission, Decoder, GaussianEmission

Emission = GaussianEmission | CategoricalEmission


class Emissions:
    """All emissions, written or about to be, in the order of their first appearance."""

    def __init__(self) -> None:
        self.members: list[Emission] = []
        self._numbers: dict[bytes, int] = {}
        self._decoders: dict[bytes, Decoder] = {}

    def numbers(self, decoder: Decoder) -> Int[np.ndarray, "arrivals"]:
        """Return the numbers of a decoder's emissions, -1 where nothing was observed; new ones are added."""
        return np.array([-1 if one is None else self._number(one) for one in decoder.steps], dtype=np.int64)

    def decoder(self, numbers: Int[np.ndarray, "arrivals"], dimension: int) -> Decoder:
        """Return the decoder of such numbers (one object for the same ones), of observations of a dimension."""
        if numbers.min() < -1:
            raise ValueError("a decoder has an emission that is none")
        key = numbers.tobytes()
        if key not in self._decoders:
            steps = tuple(None if number < 0 else self.members[number] for number in numbers.tolist())
            if any(one is not None and one.dimension != dimension for one in steps):
                raise ValueError(f"a decoder reads observations of other lengths than {dimension}")
            self._decoders[key] = Decoder(steps, dimension)
        return self._decoders[key]

    def add(self, emission: Emission) -> None:
        """Add one more emission, in the order of the file."""
        self._number(emission)

    def _number(self, emission: Emission) -> int:
        number = self._numbers.setdefault(emission.fingerprint, len(self.members))
        if number == len(self.members):
            self.members.append(emission)
        return number


def pack_emissions(emissions: list[Emission]) -> dict[str, np.ndarray]:
    """Return emissions of one family as arrays, one behind the other."""
    arrays = {
        "sizes": np.array([one.size for one in emissions], dtype=np.int64),
        "weights": np.concatenate([one.weights for one in emissions]),
    }
    parameters = [one.means if isinstance(one, GaussianEmission) else one.laws for one in emissions]
    if isinstance(emissions[0], CategoricalEmission):
        return arrays | {"laws": np.concatenate(parameters)}
    variances = [one.variance for one in emissions if isinstance(one, GaussianEmission)]
    return arrays | {"means": np.concatenate(parameters), "variances": np.array(variances)}


def read(arrays: dict[str, np.ndarray]) -> list[Emission]:
    """Read the emissions of such arrays; raise `ValueError` where they are none."""
    sizes, weights = arrays["sizes"], arrays["weights"]
    parameters = arrays["laws"] if "laws" in arrays else arrays["means"]
    if sizes.min(initial=1) < 1 or not len(weights) == len(parameters) == sizes.sum() or not np.all(weights > 0):
        raise ValueError("the latents of its emissions are not those that they should be")
    if not np.isfinite(parameters).all():
        raise ValueError("its emissions contain NaN or infinity")
    cuts = np.cumsum(sizes)[:-1]
    parts = zip(np.split(parameters, cuts), np.split(weights, cuts), strict=True)
    if "laws" in arrays:
        return [CategoricalEmission(laws, own) for laws, own in parts]
    variances = [float(variance) for variance in arrays["variances"]]
    if not all(0 < variance < np.inf for variance in variances):
        raise ValueError("its emissions have noise of no size")
    emissions = [
        GaussianEmission(means, variance, own) for (means, own), variance in zip(parts, variances, strict=True)
    ]
    if not all(one.is_finite for one in emissions):
        raise ValueError("the means of its emissions are too large for their noise")
    return [*emissions]
