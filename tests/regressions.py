"""Worlds that were learned from, and a linear system whose truth is known."""

import numpy as np

from bidual.models import LearnedDynamics, compute_posterior, start_moments
from bidual.problem.features import compute_features

DT, SIGMA = 0.2, 0.1
DOUBLE_INTEGRATOR = np.array([[1.0, DT, 0.0], [0.0, 1.0, DT]])  # s' = A s + B u of position and speed


def world(features, n, limits, *, discrete=False, count=60, ridge=0.1, noise=0.05):
    """What is known after `count` transitions of some system, with states held to [-5, 5]."""
    rng, m = np.random.default_rng(7), len(limits[0])
    phi = features.build_map(n, m)
    s = rng.normal(size=(count, n))
    u = np.eye(m)[rng.integers(0, m, count)] if discrete else rng.uniform(limits[0], limits[1], (count, m))
    differences = 0.1 * np.sin(s) + 0.2 * u.sum(axis=1, keepdims=True) + noise * rng.normal(size=(count, n))
    moments = start_moments(n, phi.sizes[2]).add(compute_features(phi, s, u), differences)
    box = np.full(n, -5.0), np.full(n, 5.0)
    return LearnedDynamics(compute_posterior(moments, ridge, noise), phi, box, limits, discrete)


def printed_radius(known, c, t, delta):
    """R^t as the paper prints it: c (lambda sigma^2 + sigma^2 (d + log(t det Lambda^t / (delta det Lambda^0)))).

    d is the dimension of the features, which is the larger of the two readings; the root of it bounds the norm.
    """
    d, sigma = len(known.factor), float(known.noise.max())
    return np.sqrt(c * sigma**2 * (known.ridge + d + np.log(t / delta) + known.logdet))
