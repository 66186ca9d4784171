"""Whether open files are where they were opened: if not, they were deleted, renamed or replaced."""

import os
from pathlib import Path


def leads_to(path: Path, opened: os.stat_result) -> bool:
    """Return whether a path leads to an open file, from what the system says of that."""
    try:
        return os.path.samestat(path.stat(), opened)
    except (FileNotFoundError, NotADirectoryError):
        return False
