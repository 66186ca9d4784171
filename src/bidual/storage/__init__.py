"""Solutions and results of learning on disk."""

from bidual.storage._belonging import digest_policy
from bidual.storage._check import Check
from bidual.storage._controlled import Claim, save_controlled
from bidual.storage._files import check, find_saved, load
from bidual.storage._knowledge import check_knowledge
from bidual.storage._learned import save_learned
from bidual.storage._programs import pack_program
from bidual.storage._rows import collect_linear_rows
from bidual.storage._saved import save
