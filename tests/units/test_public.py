"""The public surface, pinned: a name appears or disappears on purpose."""

import importlib
import inspect

import pytest

import bidual as bd

PUBLIC = [
    "ArchiveError",
    "BidualError",
    "CertificateError",
    "Curve",
    "EnvError",
    "Learned",
    "ModelError",
    "PolicyError",
    "Problem",
    "ProblemError",
    "Slater",
    "Solution",
    "Status",
    "TabularMDP",
    "TaskError",
    "__version__",
    "bounds",
    "check",
    "check_convex",
    "convex",
    "dual",
    "envs",
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
    "slater",
    "solve",
    "stop_when",
    "tasks",
    "theory",
]
MODULES = {
    "convex": [
        "APEX",
        "AbstractCompact",
        "AbstractFunction",
        "AbstractFunctions",
        "AbstractSmooth",
        "Affine",
        "AffineProgram",
        "Box",
        "ConeFunction",
        "Cones",
        "ConicForm",
        "ConvexProgram",
        "Cut",
        "Distance",
        "DistanceToBall",
        "DistanceToBox",
        "Function",
        "Image",
        "MaxAffine",
        "NegativeEntropy",
        "Product",
        "Scaled",
        "Simplex",
        "SlaterPoint",
        "SquaredDistance",
        "TOLERANCE",
        "Term",
        "VariationalProgram",
        "affine_program",
        "check_convex",
        "falling_direction",
        "interior",
        "movement",
        "multipliers_of_slope",
        "repaired",
        "run_clarabel",
    ],
    "dual": [
        "AbstractDual",
        "Bound",
        "Bracketing",
        "ConicCorrective",
        "Duals",
        "FollowTheLeader",
        "FullyCorrective",
        "GradientAscent",
        "NewtonMaster",
        "Pool",
        "Program",
        "Proximal",
        "Reply",
    ],
    "bounds": [
        "Executed",
        "Restarts",
        "Split",
        "entropy_change",
        "interval",
        "jensen",
        "lipschitz_change",
        "lower",
        "upper",
    ],
    "envs": ["AbstractEnvironment", "GymnasiumEnvironment", "Simulator", "Step", "gymnasium_environment"],
    "explorers": [
        "AbstractExplorer",
        "AbstractInner",
        "AbstractReplanning",
        "Alternating",
        "Always",
        "Choice",
        "Corrective",
        "EpsilonGreedy",
        "Greedy",
        "Growth",
        "Hoeffding",
        "Linearised",
        "Mixed",
        "Optimistic",
        "Planned",
        "PrimalDual",
        "Thompson",
    ],
    "features": [
        "AbstractFeatures",
        "Arrival",
        "Concat",
        "Observed",
        "Occupancy",
        "Part",
        "Pieces",
        "Psi",
        "Signals",
        "Visits",
        "concat",
        "observed",
        "occupancy",
        "on_arrival",
        "signals",
        "visits",
    ],
    "models": [
        "AbstractModel",
        "Arrivals",
        "Ball",
        "Box",
        "Counts",
        "Knowledge",
        "Known",
        "Layout",
        "Near",
        "Optimistic",
        "Paid",
        "Rows",
        "SETS",
        "Tabular",
        "known",
        "paid_on_lists",
    ],
    "planners": ["AbstractPlanner", "AbstractSoftPlanner", "BackwardInduction", "ExtendedValueIteration", "Plan"],
    "policies": [
        "AbstractPolicy",
        "Actor",
        "DeterministicPolicy",
        "MarkovPolicy",
        "Mixture",
        "collapse",
        "embedding",
        "from_occupancy",
        "visits",
    ],
    "problems": [
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
    ],
    "report": [
        "bounds_figure",
        "curve_figure",
        "learning_figure",
        "policy_figure",
        "policy_is_drawable",
        "regret_figure",
        "save_figure",
        "visits_figure",
    ],
}


def test_the_list_is_what_dir_and_all_say():
    assert bd.__all__ == PUBLIC
    assert dir(bd) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_every_name_is_there_and_documented(name):
    thing = getattr(bd, name)
    assert name == "__version__" or inspect.getdoc(thing)


@pytest.mark.parametrize("module", MODULES)
def test_modules_export_what_is_listed(module):
    names = [n for n in vars(importlib.import_module(f"bidual.{module}")) if not n.startswith("_")]
    # A submodule without underscore (features.embedding) is a place, not an export.
    exported = sorted(n for n in names if not inspect.ismodule(getattr(importlib.import_module(f"bidual.{module}"), n)))
    assert exported == MODULES[module]


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = bd.nothing
