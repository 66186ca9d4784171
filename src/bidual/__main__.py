"""``python -m bidual``."""

import sys

from bidual.cli import main

sys.exit(main())
