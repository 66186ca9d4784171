"""The maximum likelihood oracle for hidden states: mixtures fitted by EM. A local search, and so a heuristic."""

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual.models._maximum_likelihood import AbstractMaximumLikelihood
from bidual.models.latent._mixtures import AbstractEmissionFamily, Emission, fit_mixture


class MixtureClass(NamedTuple):
    """All mixtures of at most so many laws of observations of one family."""

    family: AbstractEmissionFamily
    most: int


MixtureOracle = AbstractMaximumLikelihood[MixtureClass, Float[np.ndarray, "n D"], Emission]


@final
@dataclass(frozen=True)
class ExpectationMaximisation(AbstractMaximumLikelihood[MixtureClass, Float[np.ndarray, "n D"], Emission]):
    """EM from one latent to as many as are clearly separated, starting from the last mixture."""

    def __call__(self, hypotheses: MixtureClass, data: Float[np.ndarray, "n D"], warm: Emission | None) -> Emission:
        """Return the mixture of the observations of one step."""
        return fit_mixture(hypotheses.family, data, hypotheses.most, warm)
