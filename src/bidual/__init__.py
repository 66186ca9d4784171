"""bidual: constrained convex Markov decision processes, solved with certificates.

Names are imported at first use, so that ``import bidual`` and ``bidual --help`` cost next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from bidual._base.version import __version__

if TYPE_CHECKING:
    from bidual import dual, models, planners, report, tasks
    from bidual._base.errors import (
        ArchiveError,
        BidualError,
        CertificateError,
        EnvError,
        ModelError,
        PolicyError,
        ProblemError,
        RunError,
        TaskError,
    )
    from bidual._base.status import Status
    from bidual.certificate import bounds, theory
    from bidual.cli import distributed
    from bidual.learning import callbacks, runs
    from bidual.learning.callbacks import StopWhen, stop_when
    from bidual.learning.curve import LearnedCurve
    from bidual.learning.evaluate import Evaluation, evaluate
    from bidual.learning.learn import finish, learn
    from bidual.learning.learned import Learned
    from bidual.learning.outputs import Regret
    from bidual.loop import explorers
    from bidual.planners import control
    from bidual.problem import convex, features
    from bidual.problem.convex import check_convex
    from bidual.problem.features.embedding import Embedding
    from bidual.problem.modelling import Problem
    from bidual.solving.pricing import Curve, price
    from bidual.solving.slater import Slater, slater
    from bidual.solving.solution import Solution
    from bidual.solving.solve import solve
    from bidual.storage import Check, check, load
    from bidual.tasks import problems
    from bidual.world import envs, policies
    from bidual.world.mdp import Grid, TabularMDP

# The room of each public name.
_HOME = {
    "ArchiveError": "bidual._base.errors",
    "BidualError": "bidual._base.errors",
    "CertificateError": "bidual._base.errors",
    "Check": "bidual.storage",
    "Curve": "bidual.solving.pricing",
    "Embedding": "bidual.problem.features.embedding",
    "EnvError": "bidual._base.errors",
    "Evaluation": "bidual.learning.evaluate",
    "Grid": "bidual.world.mdp",
    "Learned": "bidual.learning.learned",
    "LearnedCurve": "bidual.learning.curve",
    "ModelError": "bidual._base.errors",
    "PolicyError": "bidual._base.errors",
    "Problem": "bidual.problem.modelling",
    "ProblemError": "bidual._base.errors",
    "Regret": "bidual.learning.outputs",
    "RunError": "bidual._base.errors",
    "Slater": "bidual.solving.slater",
    "Solution": "bidual.solving.solution",
    "Status": "bidual._base.status",
    "StopWhen": "bidual.learning.callbacks",
    "TabularMDP": "bidual.world.mdp",
    "TaskError": "bidual._base.errors",
    "check": "bidual.storage",
    "check_convex": "bidual.problem.convex",
    "evaluate": "bidual.learning.evaluate",
    "finish": "bidual.learning.learn",
    "learn": "bidual.learning.learn",
    "load": "bidual.storage",
    "price": "bidual.solving.pricing",
    "slater": "bidual.solving.slater",
    "solve": "bidual.solving.solve",
    "stop_when": "bidual.learning.callbacks",
}
_MODULES = {
    "bounds": "bidual.certificate.bounds",
    "callbacks": "bidual.learning.callbacks",
    "control": "bidual.planners.control",
    "convex": "bidual.problem.convex",
    "distributed": "bidual.cli.distributed",
    "dual": "bidual.dual",
    "envs": "bidual.world.envs",
    "explorers": "bidual.loop.explorers",
    "features": "bidual.problem.features",
    "models": "bidual.models",
    "planners": "bidual.planners",
    "policies": "bidual.world.policies",
    "problems": "bidual.tasks.problems",
    "report": "bidual.report",
    "runs": "bidual.learning.runs",
    "tasks": "bidual.tasks",
    "theory": "bidual.certificate.theory",
}

__all__ = [
    "ArchiveError",
    "BidualError",
    "CertificateError",
    "Check",
    "Curve",
    "Embedding",
    "EnvError",
    "Evaluation",
    "Grid",
    "Learned",
    "LearnedCurve",
    "ModelError",
    "PolicyError",
    "Problem",
    "ProblemError",
    "Regret",
    "RunError",
    "Slater",
    "Solution",
    "Status",
    "StopWhen",
    "TabularMDP",
    "TaskError",
    "__version__",
    "bounds",
    "callbacks",
    "check",
    "check_convex",
    "control",
    "convex",
    "distributed",
    "dual",
    "envs",
    "evaluate",
    "explorers",
    "features",
    "finish",
    "learn",
    "load",
    "models",
    "planners",
    "policies",
    "price",
    "problems",
    "report",
    "runs",
    "slater",
    "solve",
    "stop_when",
    "tasks",
    "theory",
]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in _MODULES:
        return import_module(_MODULES[name])
    raise AttributeError(f"module 'bidual' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
