"""Dual players: the choice of the next linear cost."""

from bidual.dual._averages import Averages
from bidual.dual._base import AbstractDual, Bound, Duals, Program, Reply, read_image
from bidual.dual._bracketing import Bracketing, PlanPool
from bidual.dual._conic_corrective import ConicCorrective
from bidual.dual._follow_the_leader import FollowTheLeader, Leader, Place
from bidual.dual._fully_corrective import FullyCorrective, list_origins, read_weight
from bidual.dual._gradient_ascent import Ascent, GradientAscent, Variables
from bidual.dual._interpolating import Interpolating
from bidual.dual._newton_master import NewtonMaster
from bidual.dual._proximal import Proximal
from bidual.dual.projections import Pair

__all__ = [
    "AbstractDual",
    "Bracketing",
    "ConicCorrective",
    "Duals",
    "FollowTheLeader",
    "FullyCorrective",
    "GradientAscent",
    "Interpolating",
    "NewtonMaster",
    "Proximal",
    "Reply",
]

# Classes of stored states, by their names in files, which never change.
STORED = {
    "Duals": Duals,
    "Bound": Bound,
    "Averages": Averages,
    "Ascent": Ascent,
    "Variables": Variables,
    "Pair": Pair,
    "Leader": Leader,
    "Place": Place,
}
