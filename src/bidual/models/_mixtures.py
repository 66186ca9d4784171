"""How many latents there are and what they show: EM, from one latent to as many as are clearly apart.

A latent is split where it is most likely to be two: the observation that fits worst is set apart, which finds a latent
that was seen once, or the observations are divided across their longest axis, which finds two of one size. EM follows
each of these starts, and the likeliest end whose latents are all separated is kept. The most latents that are allowed
need not all be used: K larger than the truth does no harm.
"""

import numpy as np
from jaxtyping import Float, Int
from scipy.special import softmax

from bidual.models._families import AbstractFamily
from bidual.models._separation import separated
from bidual.policies import CategoricalEmission, GaussianEmission

Emission = GaussianEmission | CategoricalEmission

_SWEEPS = 20  # of EM, which ends far earlier where latents are well apart
_HARD = 5  # sweeps with each observation in one latent only: shares of a bad start are too even to get away from it
_POWER = 8  # multiplications towards the longest axis


def fitted(
    family: AbstractFamily, observations: Float[np.ndarray, "n D"], most: int, warm: Emission | None
) -> Emission:
    """The best mixture of at most `most` latents: grown from what there was before, or else from one."""
    if warm is not None and 1 < warm.size < len(observations):
        emission = _settled(family, observations, warm.decode(observations))
        if emission.size == warm.size and _valid(family, observations, emission):
            return _grown(family, observations, most, emission)
    return _grown(family, observations, most, family.fit(observations, np.ones((len(observations), 1))))


def _grown(family: AbstractFamily, observations: Float[np.ndarray, "n D"], most: int, emission: Emission) -> Emission:
    """One latent more for as long as they are apart; one observation must be left to tell the noise.

    Of three latents two in one are often not apart from the third: where one more is not separated, two more may be.
    """
    best = emission
    while emission.size < min(most, len(observations) - 1) and emission.size <= best.size + 1:
        ends = [_settled(family, observations, start) for start in _splits(family, observations, emission)]
        ends = [end for end in ends if end.size > emission.size]
        if not ends:
            break
        valid = [end for end in ends if _valid(family, observations, end)]
        emission = max(valid or ends, key=lambda end: _likelihood(end, observations))
        best = emission if valid else best
    return best


def _likelihood(emission: Emission, observations: Float[np.ndarray, "n D"]) -> float:
    return float(np.logaddexp.reduce(emission.scores(observations), axis=1).sum())


def _valid(family: AbstractFamily, observations: Float[np.ndarray, "n D"], emission: Emission) -> bool:
    labels = emission.decode(observations)
    return len(np.unique(labels)) == emission.size and separated(
        family.coordinates(observations), labels, emission.freedom
    )


def _settled(family: AbstractFamily, observations: Float[np.ndarray, "n D"], labels: Int[np.ndarray, "n"]) -> Emission:
    """EM from a division of the observations; at first with each of them in one latent only."""
    emission = family.fit(observations, _hot(labels))
    for sweep in range(_SWEEPS):
        scores = emission.scores(observations)
        again = scores.argmax(axis=1)
        if sweep and np.array_equal(again, labels):
            break
        labels = again
        shares = _hot(labels) if sweep < _HARD else softmax(scores, axis=1)
        emission = family.fit(observations, shares[:, shares.sum(axis=0) > 1e-6])
    return emission


def _splits(
    family: AbstractFamily, observations: Float[np.ndarray, "n D"], emission: Emission
) -> list[Int[np.ndarray, "n"]]:
    """Divisions with one latent more."""
    scores = emission.scores(observations)
    labels, x = scores.argmax(axis=1), family.coordinates(observations)
    starts = [_with(labels, np.array([int(scores.max(axis=1).argmin())]), emission.size)]
    for latent in range(emission.size):
        members = np.flatnonzero(labels == latent)
        if members.size >= 4:
            starts.append(_with(labels, members[_side(x[members])], emission.size))
    return starts


def _with(labels: Int[np.ndarray, "n"], moved: Int[np.ndarray, "some"], latent: int) -> Int[np.ndarray, "n"]:
    again = labels.copy()
    again[moved] = latent
    return again


def _side(x: Float[np.ndarray, "n m"]) -> Int[np.ndarray, "far"]:
    """The observations on one side of the middle of their longest axis, which is found by powers of the covariance."""
    centred = x - x.mean(axis=0)
    axis = centred[np.argmax((centred**2).sum(axis=1))]
    for _ in range(_POWER):
        axis = centred.T @ (centred @ axis)
        size = np.linalg.norm(axis)
        if size == 0:  # all the same
            return np.zeros(0, dtype=np.int64)
        axis = axis / size
    return np.flatnonzero(centred @ axis > 0)


def _hot(labels: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n k"]:
    """Shares of a division, without latents that nobody is in."""
    _, numbers = np.unique(labels, return_inverse=True)
    return np.eye(int(numbers.max()) + 1)[numbers]
