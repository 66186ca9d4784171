"""Ready problems: the classics of constrained and convex Markov decision processes, one line each.

Every function returns a `Problem`; its embedding is ``problem.embedding``. They share the argument ``limits``: a
dictionary from name to one of

* ``(signal, bound)``: the expected total of the signal is at most the bound;
* ``(signal, sense, bound)`` with sense ``"<="``, ``">="`` or ``"=="``;
* a function from the embedding to a CVXPY constraint: ``lambda x: x.visits[-1, goal] >= 0.5``.

A signal is whatever ``mdp.embedding`` takes; a bound is a number or a ``cp.Parameter``.
"""

from bidual.problems._distances import apprenticeship as apprenticeship
from bidual.problems._distances import feasibility as feasibility
from bidual.problems._entropy import max_entropy as max_entropy
from bidual.problems._sets import ball as ball
from bidual.problems._sets import box as box
from bidual.problems._sets import hull as hull
from bidual.problems._sets import polyhedron as polyhedron
from bidual.problems._totals import constrained as constrained
from bidual.problems._totals import fair as fair
from bidual.problems._totals import multi_objective as multi_objective
