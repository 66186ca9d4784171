"""Policies: what a solve returns and what an agent runs."""

from bidual.policies._base import AbstractPolicy as AbstractPolicy
from bidual.policies._base import Actor as Actor
from bidual.policies._collapse import collapse as collapse
from bidual.policies._collapse import embedding as embedding
from bidual.policies._collapse import from_occupancy as from_occupancy
from bidual.policies._collapse import visits as visits
from bidual.policies._control import AbstractController as AbstractController
from bidual.policies._control import AffineFeedback as AffineFeedback
from bidual.policies._control import ControlPolicy as ControlPolicy
from bidual.policies._control import RandomControls as RandomControls
from bidual.policies._decoded import DecodedPolicy as DecodedPolicy
from bidual.policies._decoded import Decoder as Decoder
from bidual.policies._decoded_files import DECODED as DECODED
from bidual.policies._decoded_files import read_decoded as read_decoded
from bidual.policies._distinct import Found as Found
from bidual.policies._distinct import Played as Played
from bidual.policies._distinct import distinct as distinct
from bidual.policies._emissions import AbstractEmission as AbstractEmission
from bidual.policies._emissions import CategoricalEmission as CategoricalEmission
from bidual.policies._emissions import GaussianEmission as GaussianEmission
from bidual.policies._markov import DeterministicPolicy as DeterministicPolicy
from bidual.policies._markov import MarkovPolicy as MarkovPolicy
from bidual.policies._mixture import Mixture as Mixture
from bidual.policies._tables import write_table as write_table
