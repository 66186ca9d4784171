"""The most that an affine law pays under any linear law of a set, without a single episode of it.

With u = K_h s + k_h and s' = s + C phi + w + noise, any functions V_h(s) = (1, s) G_h (1, s)' with V_H = 0 and

    V_h(s) >= E[cost_h(s, u, s') + V_{h+1}(s')] + mu (radius^2 phi' Q^-1 phi - |w|^2)         for all s and w

prove that the law pays at most V_0(first) under every W of the set: there w = (W - C) phi has
|w|^2 <= radius^2 phi' Q^-1 phi, so that the last term is at least 0. It is the proof of `_quadratic` with all signs
turned, where the controls are no longer free; and so it is checked by the same matrices.

Controls are held to limits, and a clipped law is not affine. What is bounded is the law without limits; an episode in
which it stays within them is the same with and without. Under one W and normal noise its control of step h is normal.
With its mean m in [a, b] and its second moment at most B, all three bounded over the set,

    P(u > L) <= max over m in [a, b] of P(m + sqrt(B - m^2) z > L),

by which `bound_touched` bounds the probability that any control of an episode goes beyond a limit.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from bidual._base.errors import CertificateError
from bidual.certificate._quadratic import _prepare_setting, _Setting, check_radius, search_price
from bidual.certificate.rounding import EPS
from bidual.models import LinearLaws


class AffineControls(NamedTuple):
    """u = gains_h s + offsets_h."""

    gains: Float[np.ndarray, "H m n"]
    offsets: Float[np.ndarray, "H m"]


def bound_cost(
    laws: LinearLaws,
    law: AffineControls,
    theta: Float[np.ndarray, "H p"],
    magnitude: Float[np.ndarray, "H p"],
    terms: int,
) -> tuple[float, float]:
    """Bound theta . Psi of an affine law without limits from both sides, over all laws of the set; roundings included.

    Infinite where nothing is proved, or where a signal is held to an end that it could reach.
    """
    laws = check_radius(laws)
    ends = []
    for sign in (1.0, -1.0):
        setting = _prepare_setting(laws, sign * theta, magnitude, terms) if laws.underestimates(sign * theta) else None
        found = None if setting is None else search_price(_follow(setting, laws, law), laws)
        ends.append(-np.inf if found is None else found.value - found.error)
    return ends[0], -ends[1]


def bound_touched(laws: LinearLaws, law: AffineControls) -> float:
    """Bound the probability that a control of an episode goes beyond its limits, under every law of the set."""
    laws = check_radius(laws)
    (H, m, _), total = law.gains.shape, 0.0
    if not all(np.isfinite(part).all() for part in law):
        raise CertificateError("an affine law has numbers that are not finite")
    for h in range(H):
        for i in range(m):
            low, high = (float(end[i]) for end in laws.limits)
            if not math.isfinite(high - low):
                continue
            total += _bound_tail(_bound_moments(laws, law, h, i, (low + high) / 2), (high - low) / 2)
    return min(total, 1.0)


def _follow(setting: _Setting, laws: LinearLaws, law: AffineControls) -> _Setting:
    """Return the setting in which controls are those of the law: over (1, s, w) instead of (1, s, u, w)."""
    n, m, _ = laws.sizes
    H = len(law.gains)
    chosen = np.zeros((H, 1 + 2 * n + m, 1 + 2 * n))
    chosen[:, 0, 0] = 1.0
    chosen[:, 1 : 1 + n, 1 : 1 + n] = np.eye(n)
    chosen[:, 1 + n : 1 + n + m, 0] = law.offsets
    chosen[:, 1 + n : 1 + n + m, 1 : 1 + n] = law.gains
    chosen[:, 1 + n + m :, 1 + n :] = np.eye(n)
    reach = np.abs(setting.lift) @ np.abs(chosen)
    lost = 4.0 * (m + n + 4) * EPS  # of products of the lift, relative to their terms
    return setting._replace(lift=setting.lift @ chosen, reach=reach, roundings=setting.roundings + lost)


def _bound_moments(laws: LinearLaws, law: AffineControls, h: int, i: int, centre: float) -> tuple[float, float, float]:
    """Bound mean (from both sides) and second moment of u - centre at a step, over the set."""
    n, _, _ = laws.sizes
    if h == 0:
        known = float(law.gains[0, i] @ laws.first + law.offsets[0, i]) - centre
        room = 8 * EPS * (float(np.abs(law.gains[0, i]) @ np.abs(laws.first)) + abs(law.offsets[0, i]) + abs(centre))
        return known - room, known + room, (abs(known) + room) ** 2
    empty = np.zeros((h + 1, sum(signal.size or 1 for signal in laws.signals)))
    setting = _prepare_setting(laws, empty, empty, 1)
    if setting is None:
        return -np.inf, np.inf, np.inf
    cut = AffineControls(law.gains[: h + 1], law.offsets[: h + 1])
    u = np.zeros(setting.costs.shape[1])
    u[1 + n + i], u[0] = 1.0, -centre
    one = np.eye(len(u))[0]
    mean, ends = (np.outer(one, u) + np.outer(u, one)) / 2, []
    for form in (mean, -mean, -np.outer(u, u)):
        costs = np.zeros_like(setting.costs)
        costs[h] = form
        sizes = np.abs(costs)
        sizes[:, 0, 0] += sizes.max()  # margins are relative to sizes, and a mean has no constant
        found = search_price(_follow(setting._replace(costs=costs, sizes=sizes), laws, cut), laws)
        ends.append(found.value - found.error)
    length = math.sqrt(max(-ends[2], 0.0)) if np.isfinite(ends[2]) else np.inf
    return max(ends[0], -length), min(-ends[1], length), -ends[2]


def _bound_tail(moments: tuple[float, float, float], limit: float) -> float:
    """Bound P(|x| > limit) of a normal x with mean in [a, b] and a second moment of at most B."""
    a, b, B = moments
    if not np.isfinite(moments).all():
        return 1.0
    total = 0.0
    for low, high in ((a, b), (-b, -a)):  # beyond the upper limit, and beyond the lower one
        # (limit - m) / sqrt(B - m^2) falls until m = B / limit and rises after that.
        m = min(max(B / limit, low), high) if limit > 0 else high
        if m >= limit:  # the mean itself may be there
            return 1.0
        variance = max(B - m * m, 0.0) + 64 * EPS * B
        total += float(ndtr(-(limit - m) / math.sqrt(variance))) if variance > 0 else 0.0
    return total
