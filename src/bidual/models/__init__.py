"""Models: sets of transition laws that may be true, and their estimates from episodes."""

from bidual.models._base import AbstractModel as AbstractModel
from bidual.models._base import Layout as Layout
from bidual.models._declaration import AbstractDeclaration as Declaration
from bidual.models._declaration import EnvironmentFacts as EnvironmentFacts
from bidual.models._declaration import Needs as Needs
from bidual.models._knowledge import AbstractKnowledge as AbstractKnowledge
from bidual.models._known import Known as Known
from bidual.models._known import known as known
from bidual.models.classes._collection import COLLECTIONS as COLLECTIONS
from bidual.models.classes._factors import Factors as Factors
from bidual.models.classes._factors import check_laws as check_laws
from bidual.models.classes._likelihood import CLASS_SETS as CLASS_SETS
from bidual.models.classes._likelihood import compute_likelihoods as compute_likelihoods
from bidual.models.classes._low_rank import ClassKnowledge as ClassKnowledge
from bidual.models.classes._low_rank import LowRank as LowRank
from bidual.models.classes._low_rank import class_support as class_support
from bidual.models.classes._plausible import Candidates as Candidates
from bidual.models.classes._plausible import Expected as Expected
from bidual.models.classes._plausible import Members as Members
from bidual.models.classes._plausible import Plausible as Plausible
from bidual.models.counts._arrivals import ArrivalRewards as ArrivalRewards
from bidual.models.counts._arrivals import Arrivals as Arrivals
from bidual.models.counts._arrivals import compute_arrival_rewards as compute_arrival_rewards
from bidual.models.counts._counted import AbstractCounted as AbstractCounted
from bidual.models.counts._counts import Counts as Counts
from bidual.models.counts._optimistic import SETS as SETS
from bidual.models.counts._optimistic import BallRows as BallRows
from bidual.models.counts._optimistic import BoxRows as BoxRows
from bidual.models.counts._optimistic import ConfidenceSet as ConfidenceSet
from bidual.models.counts._optimistic import LawRows as LawRows
from bidual.models.counts._optimistic import NearRows as NearRows
from bidual.models.counts._support import NOBODY as NOBODY
from bidual.models.counts._support import Support as Support
from bidual.models.counts._tabular import Knowledge as Knowledge
from bidual.models.counts._tabular import Tabular as Tabular
from bidual.models.latent._decoded_counts import Tally as Tally
from bidual.models.latent._latent import EMISSIONS as EMISSIONS
from bidual.models.latent._latent import Latent as Latent
from bidual.models.latent._latent import LatentKnowledge as LatentKnowledge
from bidual.models.latent._latents import Latents as Latents
from bidual.models.latent._mixtures import Categorical as Categorical
from bidual.models.latent._mixtures import Gaussian as Gaussian
from bidual.models.latent._reading import GrowingRows as GrowingRows
from bidual.models.latent._reading import Reader as Reader
from bidual.models.linear._elliptical import Elliptical as Elliptical
from bidual.models.linear._elliptical import Rectangular as Rectangular
from bidual.models.linear._linear import LINEAR_SETS as LINEAR_SETS
from bidual.models.linear._linear import LinearKnowledge as LinearKnowledge
from bidual.models.linear._linear import LinearMDP as LinearMDP
from bidual.models.linear._linear import check_phi as check_phi
from bidual.models.linear._ridge import learnable_rows as learnable_rows
from bidual.models.regression._describe import describe_signals as describe_signals
from bidual.models.regression._dynamics import AbstractDynamics as AbstractDynamics
from bidual.models.regression._dynamics import Simulated as Simulated
from bidual.models.regression._dynamics import Stage as Stage
from bidual.models.regression._ellipsoid import Ellipsoid as Ellipsoid
from bidual.models.regression._ellipsoid import outer_ellipsoid as outer_ellipsoid
from bidual.models.regression._knr import KNR as KNR
from bidual.models.regression._knr import ControlKnowledge as ControlKnowledge
from bidual.models.regression._linear_laws import LinearLaws as LinearLaws
from bidual.models.regression._linear_laws import build_linear_laws as build_linear_laws
from bidual.models.regression._regressed import LearnedDynamics as LearnedDynamics
from bidual.models.regression._regressed import Regressed as Regressed
from bidual.models.regression._regression import Moments as Moments
from bidual.models.regression._regression import Posterior as Posterior
from bidual.models.regression._regression import no_moments as no_moments
from bidual.models.regression._regression import posterior as posterior

__all__ = [
    "KNR",
    "AbstractDynamics",
    "AbstractKnowledge",
    "AbstractModel",
    "Candidates",
    "Declaration",
    "Known",
    "Latent",
    "Layout",
    "LinearMDP",
    "LowRank",
    "Moments",
    "Posterior",
    "Regressed",
    "Simulated",
    "Stage",
    "Tabular",
    "known",
]

# Classes of stored states, by their names in files, which never change.
STORED = {
    "Candidates": Candidates,
    "Knowledge": Knowledge,
    "ClassKnowledge": ClassKnowledge,
    "LinearKnowledge": LinearKnowledge,
    "LatentKnowledge": LatentKnowledge,
    "ControlKnowledge": ControlKnowledge,
    "Counts": Counts,
    "Support": Support,
    "Latent": Latent,
    "Reader": Reader,
    "Archive": GrowingRows,
    "Tally": Tally,
    "Gaussian": Gaussian,
    "Categorical": Categorical,
    "Moments": Moments,
}
