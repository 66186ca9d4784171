"""Policies: the results of a solve, and the behaviour of an agent."""

from bidual.world.policies._base import AbstractPolicy, Actor, PredictionState
from bidual.world.policies._choices import Choices
from bidual.world.policies._collapse import collapse, embedding, from_occupancy, visits
from bidual.world.policies._control import (
    AbstractController,
    AffineFeedback,
    ControlPolicy,
    RandomControls,
    StoredController,
)
from bidual.world.policies._decoded import DECODED, DecodedPolicy, Decoder, read_decoded
from bidual.world.policies._emissions import CategoricalEmission, GaussianEmission
from bidual.world.policies._markov import DeterministicPolicy, MarkovPolicy
from bidual.world.policies._mixture import DistinctPolicies, Mixture, Played, find_distinct, write_functions
from bidual.world.policies._sequence import PolicySequence
from bidual.world.policies._stored_controls import CONTROLS, ArrayPool, encode_control, encode_controls
from bidual.world.policies._tables import write_table

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
    "PredictionState",
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
