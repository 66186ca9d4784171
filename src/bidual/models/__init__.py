"""What may be true of the transitions."""

from bidual.models._arrivals import Arrivals as Arrivals
from bidual.models._arrivals import Paid as Paid
from bidual.models._arrivals import paid_on_lists as paid_on_lists
from bidual.models._base import AbstractModel as AbstractModel
from bidual.models._base import Layout as Layout
from bidual.models._candidates import Candidates as Candidates
from bidual.models._collection import COLLECTIONS as COLLECTIONS
from bidual.models._counted import AbstractCounted as AbstractCounted
from bidual.models._counts import Counts as Counts
from bidual.models._dynamics import AbstractDynamics as AbstractDynamics
from bidual.models._dynamics import Simulated as Simulated
from bidual.models._dynamics import Stage as Stage
from bidual.models._ellipsoid import Ellipsoid as Ellipsoid
from bidual.models._ellipsoid import outer_ellipsoid as outer_ellipsoid
from bidual.models._elliptical import Elliptical as Elliptical
from bidual.models._elliptical import Rectangular as Rectangular
from bidual.models._factors import Factors as Factors
from bidual.models._factors import check_laws as check_laws
from bidual.models._knowledge import AbstractKnowledge as AbstractKnowledge
from bidual.models._known import Known as Known
from bidual.models._known import known as known
from bidual.models._knr import KNR as KNR
from bidual.models._knr import ControlKnowledge as ControlKnowledge
from bidual.models._latent import EMISSIONS as EMISSIONS
from bidual.models._latent import Latent as Latent
from bidual.models._latent import LatentKnowledge as LatentKnowledge
from bidual.models._latents import Latents as Latents
from bidual.models._likelihood import CLASS_SETS as CLASS_SETS
from bidual.models._likelihood import likelihoods_of as likelihoods_of
from bidual.models._linear import LINEAR_SETS as LINEAR_SETS
from bidual.models._linear import LinearKnowledge as LinearKnowledge
from bidual.models._linear import LinearMDP as LinearMDP
from bidual.models._linear import check_phi as check_phi
from bidual.models._low_rank import ClassKnowledge as ClassKnowledge
from bidual.models._low_rank import LowRank as LowRank
from bidual.models._low_rank import class_support as class_support
from bidual.models._optimistic import SETS as SETS
from bidual.models._optimistic import Ball as Ball
from bidual.models._optimistic import Box as Box
from bidual.models._optimistic import Near as Near
from bidual.models._optimistic import Optimistic as Optimistic
from bidual.models._optimistic import Rows as Rows
from bidual.models._plausible import Expected as Expected
from bidual.models._plausible import Members as Members
from bidual.models._plausible import Plausible as Plausible
from bidual.models._regressed import Regressed as Regressed
from bidual.models._regressed import World as World
from bidual.models._regression import Moments as Moments
from bidual.models._regression import Posterior as Posterior
from bidual.models._regression import no_moments as no_moments
from bidual.models._regression import posterior as posterior
from bidual.models._tabular import Knowledge as Knowledge
from bidual.models._tabular import Tabular as Tabular

# What a user says of the transitions before the first episode.
Declaration = Tabular | LinearMDP | LowRank | Latent | KNR
