"""Known finite models: `TabularMDP`, checked once and stored as successor lists."""

from bidual.world.mdp._mdp import Signal as Signal
from bidual.world.mdp._mdp import TabularMDP as TabularMDP
from bidual.world.mdp._mdp import reachable as reachable
from bidual.world.mdp._successors import check_initial as check_initial
