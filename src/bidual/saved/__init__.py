"""Solutions on disk."""

from bidual.saved._saved import Check as Check
from bidual.saved._saved import check as check
from bidual.saved._saved import load as load
from bidual.saved._saved import save as save
