"""Solutions and results of learning on disk."""

from bidual.saved._check import Check as Check
from bidual.saved._controlled import Claim as Claim
from bidual.saved._controlled import save_controlled as save_controlled
from bidual.saved._files import check as check
from bidual.saved._files import load as load
from bidual.saved._learned import save_learned as save_learned
from bidual.saved._programs import stored_program as stored_program
from bidual.saved._rows import linear_rows as linear_rows
from bidual.saved._saved import save as save
