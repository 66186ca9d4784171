"""A lower bound over all policies for linear dynamics known up to a set, with quadratic costs.

Riccati's recursion with a further control that selects a law of the set (Algorithm 2's optimism, exactly).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual.models import LinearLaws
from bidual.planners import AbstractPlanner, Plan
from bidual.planners.control._riccati import LinearQuadratic, RiccatiLaws, expected, solve_riccati
from bidual.problem.features import Quadratic
from bidual.world.policies import AffineFeedback, ControlPolicy

_UNUSED = 0.2
_GOLDEN = (5**0.5 - 1) / 2


class Relaxation(NamedTuple):
    """The relaxed problem at the best price, its control law for (u, w), and the bound that it proves."""

    problem: LinearQuadratic
    laws: RiccatiLaws
    value: float


@final
@dataclass(frozen=True)
class RiccatiOptimist(AbstractPlanner[LinearLaws]):
    """The planner over laws and policies together, for quadratic costs: its value is a bound, up to rounding."""

    def __call__(self, model: LinearLaws, psi: object, theta: Float[np.ndarray, "H p"]) -> Plan:
        """Compute the bound at the best price; where there is none, evaluate controls of 0 under the estimate."""
        del psi  # the model has the signals already, as quadratic forms
        n, m, _ = model.sizes
        problem = _make_problem(model, theta)
        found = find_best_relaxation(problem, model.radius, np.linalg.inv(model.precision), model.first)
        if found is None:
            found = Relaxation(problem, _build_idle(problem), -np.inf)
        means, covariances = found.problem.moments(found.laws, model.first)
        kept = np.r_[0 : n + m, means.shape[1] - n : means.shape[1]]  # positions of (s, u, s') in (s, u, w, s')
        seen = expected(means[:, kept], covariances[:, kept[:, None], kept], *_stack_forms(model.forms))
        law = AffineFeedback(found.laws.offsets[:, :m], np.zeros((len(theta), n)), found.laws.gains[:, :m])
        return Plan(ControlPolicy(law, *model.limits), seen, float(np.vdot(theta, seen)), lower=found.value)


def find_dither(model: LinearLaws, theta: Float[np.ndarray, "H p"]) -> Float[np.ndarray, "m"]:
    """Return the deviations of random controls that the optimistic law averages out; 0 where it does not.

    Displacements w of an optimum have E|w|^2 = radius^2 E phi' Lambda^-1 phi in sum over the steps (complementary
    slackness). Where they exceed that by a fifth, the relaxation stands at the edge of convexity, where +u and -u have
    the same value as their mean: what is missing of the right-hand side is the variance of u.
    """
    (n, m, constant), beta, H = model.sizes, model.radius, len(theta)
    covariance = np.linalg.inv(model.precision)
    found = None if beta == 0 else find_best_relaxation(_make_problem(model, theta), beta, covariance, model.first)
    if found is None:
        return np.zeros(m)
    means, covariances = found.problem.moments(found.laws, model.first)
    phi = np.concatenate([means[:, : n + m], np.ones((H, int(constant)))], axis=1)
    second = np.einsum("hi,hj->ij", phi, phi)
    second[: n + m, : n + m] += covariances[:, : n + m, : n + m].sum(axis=0)
    w = slice(n + m, n + m + n)
    used = float(np.sum(means[:, w] ** 2) + np.trace(covariances[:, w, w].sum(axis=0)))
    allowed = beta**2 * float(np.vdot(covariance, second))
    if used < (1 + _UNUSED) * allowed:  # less is what the search for the price leaves
        return np.zeros(m)
    own = np.diag(covariance)[n : n + m]
    return np.sqrt((used - allowed) / (H * m * beta**2 * own))


def _make_problem(model: LinearLaws, theta: Float[np.ndarray, "H p"]) -> LinearQuadratic:
    """Return the estimate as a linear-quadratic problem with the costs of theta."""
    (n, m, constant), H, W = model.sizes, len(theta), model.W
    A, B = np.eye(n) + W[:, :n], W[:, n : n + m]
    c = W[:, n + m] if constant else np.zeros(n)
    matrices, slopes, constants = _stack_forms(model.forms)
    every = [np.repeat(part[None], H, axis=0) for part in (A, B, np.diag(model.deviation**2), c)]
    costs = np.tensordot(theta, matrices, axes=1), theta @ slopes, theta @ constants
    return LinearQuadratic(every[0], every[1], costs[0], every[2], every[3], costs[1], costs[2])


def _stack_forms(
    forms: tuple[Quadratic, ...],
) -> tuple[Float[np.ndarray, "p x x"], Float[np.ndarray, "p x"], Float[np.ndarray, "p"]]:
    return (
        np.stack([form.form for form in forms]),
        np.stack([form.slope for form in forms]),
        np.array([form.constant for form in forms]),
    )


def _build_idle(problem: LinearQuadratic) -> RiccatiLaws:
    """Return the law of controls 0, whatever they cost."""
    H, n, m = problem.B.shape
    return RiccatiLaws(np.zeros((H, m, n)), np.zeros((H, m)), np.zeros((n, n)), np.zeros(n), 0.0)


def lower_bound(
    problem: LinearQuadratic,
    beta: float,
    covariance: Float[np.ndarray, "d d"],
    mean: Float[np.ndarray, "n"],
    spread: Float[np.ndarray, "n n"] | None = None,
) -> float:
    """Compute a lower bound on the cost of every policy under any law near (A, B); -inf where the method fails.

    Near means: (A*, B*) = (A, B) + D_h with |D_h Lambda^{1/2}| <= beta in the spectral norm at every step, Lambda^-1
    being `covariance`. Then w = D_h (s, u) has |w|^2 <= beta^2 (s, u)' Lambda^-1 (s, u).

    Claim. For every mu > 0 let V_H = 0 and

        V_h(s) = min over u, w of  E[cost_h(s, u, s') + V_{h+1}(s')] + mu (|w|^2 - beta^2 (s, u)' Lambda^-1 (s, u)),
                 s' = A_h s + B_h u + w + c_h + noise,

    and let every one of these minima be of a strictly convex quadratic function of (u, w). Then no policy under which
    controls have second moments (all that are bounded have), however it depends on the past, costs less than E V_0(s_0)
    in expectation, for any such D_h, even if D_h depends on the past.

    Proof. Under a law near (A, B) the step from (s, u) is that with w = D_h (s, u), whose term with mu is at most 0. So
    E[cost_h + V_{h+1}(s')] >= E[cost_h + V_{h+1}(s')] + mu (|w|^2 - ...) >= V_h(s) at every s and u. States have second
    moments as controls and noise have them and |w| <= beta |Lambda^{-1/2}| |(s, u)|, so V_h, which is quadratic, has an
    expectation at every step; taking it at h = H - 1, ..., 0 and adding up, the sum of the expected costs is at least
    E V_0(s_0). It is not used that V_h is convex, nor that mu is the best one.

    The same holds with any mu_h >= 0 per step; one mu for all is enough for the bound to tend to the optimum with beta.
    As a minimum over policies and w of functions that are linear in mu the bound is concave where it is finite, so it
    is found by golden section around the best point of a grid. Rounding is not accounted for: steps whose curvature is
    within rounding of 0 are refused, and at the others it is some 1e-12 of the numbers that are added up.

    Args:
        problem: the estimated law (A, B), costs, noise.
        beta: radius of the set of laws.
        covariance: Lambda^-1, for (s, u); or for (s, u, 1), where c may be off as well.
        mean: mean of the start state.
        spread: covariance of the start state; none if it is known.
    """
    found = find_best_relaxation(problem, beta, covariance, mean, spread)
    return -np.inf if found is None else found.value


def find_best_relaxation(
    problem: LinearQuadratic,
    beta: float,
    covariance: Float[np.ndarray, "d d"],
    mean: Float[np.ndarray, "n"],
    spread: Float[np.ndarray, "n n"] | None = None,
) -> Relaxation | None:
    """Find the relaxation of the highest bound, for `lower_bound`; None where no price gives one."""
    if beta == 0:
        laws = solve_riccati(problem)
        return None if laws is None else Relaxation(problem, laws, laws.value(mean, spread))
    found: list[Relaxation] = []

    def value(exponent: float) -> float:
        relaxed = _relax(problem, beta, covariance, scale * 10.0**exponent)
        laws = solve_riccati(relaxed)
        if laws is None:
            return -np.inf
        found.append(Relaxation(relaxed, laws, laws.value(mean, spread)))
        return found[-1].value

    # With mu = scale both terms of the penalty are of the size of the cost: |w| about beta, and its price mu beta^2.
    scale = max(float(np.abs(problem.M).max()), np.finfo(float).tiny) / beta
    grid = np.arange(-8.0, 8.5, 0.5)
    best = int(np.argmax([value(exponent) for exponent in grid]))
    _search_golden_section(value, grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    return max(found, key=lambda one: one.value) if found else None


def _relax(problem: LinearQuadratic, beta: float, covariance: Float[np.ndarray, "d d"], mu: float) -> LinearQuadratic:
    """Return the problem with w as a further control, and a price for leaving the set of laws."""
    H, n, m = problem.B.shape
    z = n + m
    kept = np.r_[0:z, z + n : z + 2 * n]  # positions of (s, u, s') in (s, u, w, s')
    M, b = np.zeros((H, z + 2 * n, z + 2 * n)), np.zeros((H, z + 2 * n))
    M[:, kept[:, None], kept] = problem.M
    price = mu * beta**2 * covariance
    M[:, :z, :z] -= price[:z, :z]
    M[:, z : z + n, z : z + n] += mu * np.eye(n)
    b[:, kept] = problem.b
    b[:, :z] -= price[:z, z:].sum(axis=1)
    B = np.concatenate([problem.B, np.broadcast_to(np.eye(n), (H, n, n))], axis=2)
    return LinearQuadratic(problem.A, B, M, problem.noise, problem.c, b, problem.r - price[z:, z:].sum())


def _search_golden_section(function: Callable[[float], float], low: float, high: float) -> None:
    """Maximise a function between two ends by golden section; the function records its values."""
    inner = [high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)]
    values = [function(point) for point in inner]
    for _ in range(30):
        if values[0] >= values[1]:
            high, inner[1], values[1] = inner[1], inner[0], values[0]
            inner[0] = high - _GOLDEN * (high - low)
            values[0] = function(inner[0])
        else:
            low, inner[0], values[0] = inner[0], inner[1], values[1]
            inner[1] = low + _GOLDEN * (high - low)
            values[1] = function(inner[1])
