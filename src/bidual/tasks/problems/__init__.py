"""Ready problems: the classics of constrained and convex Markov decision processes, one line each.

Every function returns a `Problem`; its embedding is ``problem.embedding``. They share the argument ``limits``: a
dictionary from name to one of

* ``(signal, bound)``: the expected total of the signal is at most the bound;
* ``(signal, sense, bound)`` with sense ``"<="``, ``">="`` or ``"=="``;
* a function from the embedding to a CVXPY constraint: ``lambda x: x.visits[-1, goal] >= 0.5``.

A signal is whatever ``mdp.embedding`` takes; a bound is a number or a ``cp.Parameter``.
"""

from bidual.tasks.problems._distances import apprenticeship as apprenticeship
from bidual.tasks.problems._distances import feasibility as feasibility
from bidual.tasks.problems._distances import max_entropy as max_entropy
from bidual.tasks.problems._sets import ball as ball
from bidual.tasks.problems._sets import box as box
from bidual.tasks.problems._sets import hull as hull
from bidual.tasks.problems._sets import polyhedron as polyhedron
from bidual.tasks.problems._totals import constrained as constrained
from bidual.tasks.problems._totals import fair as fair
from bidual.tasks.problems._totals import multi_objective as multi_objective

__all__ = [
    "apprenticeship",
    "ball",
    "box",
    "constrained",
    "fair",
    "feasibility",
    "hull",
    "max_entropy",
    "multi_objective",
    "polyhedron",
]
