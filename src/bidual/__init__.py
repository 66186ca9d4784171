"""bidual: constrained convex Markov decision processes, solved with certificates.

Names are imported at first use, so that ``import bidual`` and ``bidual --help`` cost next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from bidual._version import __version__

if TYPE_CHECKING:
    from bidual import (
        bounds,
        control,
        convex,
        dual,
        envs,
        explorers,
        features,
        models,
        planners,
        policies,
        problems,
        report,
        runs,
        tasks,
        theory,
    )
    from bidual._curve import Curve
    from bidual._errors import (
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
    from bidual._evaluate import Evaluation, evaluate
    from bidual._learn import learn, stop_when
    from bidual._price import price
    from bidual._slater import Slater, slater
    from bidual._solve import solve
    from bidual._status import Status
    from bidual.convex import check_convex
    from bidual.learned import Learned
    from bidual.mdp import TabularMDP
    from bidual.problem import Problem
    from bidual.saved import check, load
    from bidual.solution import Solution

_HOME = {
    "ArchiveError": "bidual._errors",
    "BidualError": "bidual._errors",
    "CertificateError": "bidual._errors",
    "Curve": "bidual._curve",
    "EnvError": "bidual._errors",
    "Evaluation": "bidual._evaluate",
    "Learned": "bidual.learned",
    "ModelError": "bidual._errors",
    "PolicyError": "bidual._errors",
    "Problem": "bidual.problem",
    "ProblemError": "bidual._errors",
    "RunError": "bidual._errors",
    "Slater": "bidual._slater",
    "Solution": "bidual.solution",
    "Status": "bidual._status",
    "TabularMDP": "bidual.mdp",
    "TaskError": "bidual._errors",
    "check": "bidual.saved",
    "check_convex": "bidual.convex",
    "evaluate": "bidual._evaluate",
    "learn": "bidual._learn",
    "load": "bidual.saved",
    "price": "bidual._price",
    "slater": "bidual._slater",
    "solve": "bidual._solve",
    "stop_when": "bidual._learn",
}
_MODULES = (
    "bounds",
    "control",
    "convex",
    "dual",
    "envs",
    "explorers",
    "features",
    "models",
    "planners",
    "policies",
    "problems",
    "report",
    "runs",
    "tasks",
    "theory",
)

__all__ = [
    "ArchiveError",
    "BidualError",
    "CertificateError",
    "Curve",
    "EnvError",
    "Evaluation",
    "Learned",
    "ModelError",
    "PolicyError",
    "Problem",
    "ProblemError",
    "RunError",
    "Slater",
    "Solution",
    "Status",
    "TabularMDP",
    "TaskError",
    "__version__",
    "bounds",
    "check",
    "check_convex",
    "control",
    "convex",
    "dual",
    "envs",
    "evaluate",
    "explorers",
    "features",
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
        return import_module(f"bidual.{name}")
    raise AttributeError(f"module 'bidual' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
