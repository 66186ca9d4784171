"""Dual players: the choice of the next linear cost."""

from bidual.dual._averages import Averages as Averages
from bidual.dual._base import AbstractDual as AbstractDual
from bidual.dual._base import Bound as Bound
from bidual.dual._base import Duals as Duals
from bidual.dual._base import Program as Program
from bidual.dual._base import Reply as Reply
from bidual.dual._bracketing import Bracketing as Bracketing
from bidual.dual._bracketing import PlanPool as PlanPool
from bidual.dual._conic_corrective import ConicCorrective as ConicCorrective
from bidual.dual._follow_the_leader import FollowTheLeader as FollowTheLeader
from bidual.dual._follow_the_leader import Leader as Leader
from bidual.dual._follow_the_leader import Place as Place
from bidual.dual._fully_corrective import FullyCorrective as FullyCorrective
from bidual.dual._gradient_ascent import Ascent as Ascent
from bidual.dual._gradient_ascent import GradientAscent as GradientAscent
from bidual.dual._gradient_ascent import Variables as Variables
from bidual.dual._newton_master import NewtonMaster as NewtonMaster
from bidual.dual._proximal import Proximal as Proximal
from bidual.dual.projections import Pair as Pair

__all__ = [
    "AbstractDual",
    "Bracketing",
    "ConicCorrective",
    "Duals",
    "FollowTheLeader",
    "FullyCorrective",
    "GradientAscent",
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
