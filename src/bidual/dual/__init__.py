"""Which linear cost next?"""

from bidual.dual._base import AbstractDual as AbstractDual
from bidual.dual._base import Bound as Bound
from bidual.dual._base import Duals as Duals
from bidual.dual._base import Program as Program
from bidual.dual._base import Reply as Reply
from bidual.dual._bracketing import Bracketing as Bracketing
from bidual.dual._bracketing import Pool as Pool
from bidual.dual._conic_corrective import ConicCorrective as ConicCorrective
from bidual.dual._follow_the_leader import FollowTheLeader as FollowTheLeader
from bidual.dual._fully_corrective import FullyCorrective as FullyCorrective
from bidual.dual._gradient_ascent import GradientAscent as GradientAscent
from bidual.dual._newton_master import NewtonMaster as NewtonMaster
from bidual.dual._proximal import Proximal as Proximal
