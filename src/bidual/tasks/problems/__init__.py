"""Ready problems: the classics of constrained and convex Markov decision processes, one line each.

Every function returns a `Problem`; its embedding is ``problem.embedding``. They share the argument ``limits``: a
dictionary from name to one of

* ``(signal, bound)``: the expected total of the signal is at most the bound;
* ``(signal, sense, bound)`` with sense ``"<="``, ``">="`` or ``"=="``;
* a function from the embedding to a CVXPY constraint: ``lambda x: x.visits[-1, goal] >= 0.5``.

They are written over a known model, over an environment of `bd.envs`, to be learned there, or over an embedding that is
there already, whose parts are then the signals, by name.

A signal is whatever ``mdp.embedding`` takes; a bound is a number or a ``cp.Parameter``.
"""

from bidual.tasks.problems._distances import apprenticeship, feasibility, max_entropy
from bidual.tasks.problems._kernels import gaussian_kernel, mean_discrepancy
from bidual.tasks.problems._sets import AbstractSet, ball, box, hull, polyhedron
from bidual.tasks.problems._totals import constrained, fair, multi_objective

__all__ = [
    "AbstractSet",
    "apprenticeship",
    "ball",
    "box",
    "constrained",
    "fair",
    "feasibility",
    "gaussian_kernel",
    "hull",
    "max_entropy",
    "mean_discrepancy",
    "multi_objective",
    "polyhedron",
]
