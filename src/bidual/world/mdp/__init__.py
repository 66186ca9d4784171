"""Known finite models: `TabularMDP`, checked once and stored as successor lists."""

from bidual.world.mdp._criterion import Discounted, read_criterion
from bidual.world.mdp._embeddings import Signal
from bidual.world.mdp._graphs import find_successors, reach
from bidual.world.mdp._grid import Grid
from bidual.world.mdp._mdp import TabularMDP
from bidual.world.mdp._reachable import find_reachable, list_reachable, restrict_model
from bidual.world.mdp._successors import check_initial
