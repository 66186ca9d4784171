"""``python -m bidual``."""

import sys

from bidual.cli import entry

sys.exit(entry())
