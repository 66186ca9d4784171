"""Outputs of learning: policies from the learned model, bounds in the final confidence set, estimates from episodes."""

from bidual.certificate import Estimates
from bidual.learning.outputs._bound import DualBound, FinalBound
from bidual.learning.outputs._certainty import CertaintyEquivalent, PolicySolver, ReturnedPolicy
from bidual.learning.outputs._control_regret import compute_exact_regret, drop_random_controls, estimate_paired_regret
from bidual.learning.outputs._functionals import (
    Collector,
    Corners,
    Functionals,
    collect_functionals,
    construct_corners,
    estimate_executed,
    estimate_in_model,
    estimate_policy,
    list_spans,
    run_episodes_until,
    run_fresh_episodes,
)
from bidual.learning.outputs._over_laws import PolicyBounds, bound_policy, find_cautious_policy
from bidual.learning.outputs._plans import estimate_plans
from bidual.learning.outputs._regret import Regret, compute_regret
from bidual.learning.outputs._regulated import Regulated
from bidual.learning.outputs._samples import Payments, Sums, average_embedding

# Classes of stored states, by their names in files, which never change.
STORED = {
    "Shown": DualBound,
    "Sums": Sums,
}
