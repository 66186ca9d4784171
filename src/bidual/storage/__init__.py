"""Solutions and results of learning on disk."""

from bidual.storage._belonging import digest_policy as digest_policy
from bidual.storage._check import Check as Check
from bidual.storage._controlled import Claim as Claim
from bidual.storage._controlled import save_controlled as save_controlled
from bidual.storage._files import check as check
from bidual.storage._files import find_saved as find_saved
from bidual.storage._files import load as load
from bidual.storage._knowledge import check_knowledge as check_knowledge
from bidual.storage._learned import save_learned as save_learned
from bidual.storage._programs import pack_program as pack_program
from bidual.storage._rows import linear_rows as linear_rows
from bidual.storage._saved import save as save
