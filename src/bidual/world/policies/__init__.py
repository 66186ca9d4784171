"""Policies: the results of a solve, and the behaviour of an agent."""

from bidual.world.policies._base import AbstractPolicy as AbstractPolicy
from bidual.world.policies._base import Actor as Actor
from bidual.world.policies._collapse import collapse as collapse
from bidual.world.policies._collapse import embedding as embedding
from bidual.world.policies._collapse import from_occupancy as from_occupancy
from bidual.world.policies._collapse import visits as visits
from bidual.world.policies._control import CONTROLS as CONTROLS
from bidual.world.policies._control import AbstractController as AbstractController
from bidual.world.policies._control import AffineFeedback as AffineFeedback
from bidual.world.policies._control import ArrayPool as ArrayPool
from bidual.world.policies._control import ControlPolicy as ControlPolicy
from bidual.world.policies._control import RandomControls as RandomControls
from bidual.world.policies._control import StoredController as StoredController
from bidual.world.policies._control import control_header as control_header
from bidual.world.policies._control import encode_controls as encode_controls
from bidual.world.policies._decoded import DECODED as DECODED
from bidual.world.policies._decoded import DecodedPolicy as DecodedPolicy
from bidual.world.policies._decoded import Decoder as Decoder
from bidual.world.policies._decoded import read_decoded as read_decoded
from bidual.world.policies._emissions import AbstractEmission as AbstractEmission
from bidual.world.policies._emissions import CategoricalEmission as CategoricalEmission
from bidual.world.policies._emissions import GaussianEmission as GaussianEmission
from bidual.world.policies._markov import DeterministicPolicy as DeterministicPolicy
from bidual.world.policies._markov import MarkovPolicy as MarkovPolicy
from bidual.world.policies._mixture import DistinctPolicies as DistinctPolicies
from bidual.world.policies._mixture import Mixture as Mixture
from bidual.world.policies._mixture import Played as Played
from bidual.world.policies._mixture import find_distinct as find_distinct
from bidual.world.policies._tables import write_table as write_table

__all__ = [
    "AbstractController",
    "AbstractPolicy",
    "Actor",
    "AffineFeedback",
    "ControlPolicy",
    "DecodedPolicy",
    "DeterministicPolicy",
    "MarkovPolicy",
    "Mixture",
    "RandomControls",
    "collapse",
    "embedding",
    "from_occupancy",
    "visits",
    "write_table",
]

# Classes of stored states, by their names in files, which never change.
STORED = {
    "DeterministicPolicy": DeterministicPolicy,
    "DecodedPolicy": DecodedPolicy,
    "Decoder": Decoder,
    "GaussianEmission": GaussianEmission,
    "CategoricalEmission": CategoricalEmission,
}
