"""Models: sets of transition laws that may be true, and their estimates from episodes."""

from bidual.models._base import AbstractModel, Layout
from bidual.models._declaration import AbstractDeclaration as Declaration
from bidual.models._declaration import EnvironmentFacts, Needs
from bidual.models._knowledge import AbstractKnowledge
from bidual.models._known import Known, known, known_for_next_solve
from bidual.models._lists import Law
from bidual.models._maximum_likelihood import AbstractMaximumLikelihood
from bidual.models._stationary import Stationary, stationary
from bidual.models.classes._collection import COLLECTIONS
from bidual.models.classes._continuous import LowRankDensities
from bidual.models.classes._continuous_knowledge import DensityKnowledge
from bidual.models.classes._densities import AbstractDensities, NormalDensities
from bidual.models.classes._enumeration import Enumeration, Transitions, check_best
from bidual.models.classes._factors import Factors, check_laws, list_class_support
from bidual.models.classes._knowledge import ClassKnowledge
from bidual.models.classes._likelihood import CLASS_SETS, compute_likelihoods
from bidual.models.classes._low_rank import LowRank
from bidual.models.classes._plausible import Candidates, Expected, Plausible
from bidual.models.counts._arrivals import ArrivalRewards, Arrivals, compute_arrival_rewards
from bidual.models.counts._counted import AbstractCounted
from bidual.models.counts._counts import Counts
from bidual.models.counts._hypotheses import suggest_declarations
from bidual.models.counts._optimistic import SETS, BallRows, BoxRows, LawRows, NearRows
from bidual.models.counts._support import NOBODY, Support
from bidual.models.counts._tabular import Knowledge, Tabular
from bidual.models.latent._decoded_counts import Tally
from bidual.models.latent._expectation_maximisation import ExpectationMaximisation, MixtureClass
from bidual.models.latent._latent import Latent, LatentKnowledge
from bidual.models.latent._latents import Latents
from bidual.models.latent._mixtures import Categorical, Gaussian
from bidual.models.latent._reading import GrowingRows, Reader
from bidual.models.linear._elliptical import Elliptical, Rectangular
from bidual.models.linear._linear import LINEAR_SETS, LinearKnowledge, LinearMDP, check_phi
from bidual.models.linear._ridge import find_learnable_rows
from bidual.models.regression._confidence import Confidence
from bidual.models.regression._describe import describe_signals
from bidual.models.regression._dynamics import AbstractDynamics, Simulated, Stage
from bidual.models.regression._ellipsoid import Ellipsoid, find_outer_ellipsoid
from bidual.models.regression._knr import KNR, ControlKnowledge
from bidual.models.regression._linear_laws import LinearLaws, SetEvidence, build_linear_laws
from bidual.models.regression._moments import Moments, start_moments
from bidual.models.regression._regressed import LearnedDynamics, Regressed
from bidual.models.regression._regression import Posterior, compute_posterior
from bidual.problem.features import FourierMap

__all__ = [
    "KNR",
    "AbstractDensities",
    "AbstractDynamics",
    "AbstractKnowledge",
    "AbstractMaximumLikelihood",
    "AbstractModel",
    "Candidates",
    "Confidence",
    "Declaration",
    "Enumeration",
    "ExpectationMaximisation",
    "Known",
    "Latent",
    "Layout",
    "LinearMDP",
    "LowRank",
    "LowRankDensities",
    "MixtureClass",
    "Moments",
    "NormalDensities",
    "Posterior",
    "Regressed",
    "Simulated",
    "Stage",
    "Tabular",
    "Transitions",
    "known",
]

# Classes of stored states, by their names in files, which never change.
STORED = {
    "Candidates": Candidates,
    "Knowledge": Knowledge,
    "ClassKnowledge": ClassKnowledge,
    "DensityKnowledge": DensityKnowledge,
    "LinearKnowledge": LinearKnowledge,
    "LatentKnowledge": LatentKnowledge,
    "ControlKnowledge": ControlKnowledge,
    "FourierMap": FourierMap,
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
