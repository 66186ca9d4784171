"""The folders that `--out` names: made before the work, because an impossible one should fail then, and not after."""

import os
from pathlib import Path

from bidual._base.errors import OutputError


def make_folder(folder: Path) -> None:
    """Make the folder of results, and those above it; an existing one is taken as it is."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        file = next(one for one in (folder, *folder.parents) if os.path.lexists(one) and not one.is_dir())
        raise OutputError(
            f"--out {folder}: {file} is a file, and results go into a folder: name another one, or move the file away"
        ) from None
    except OSError as error:
        raise OutputError(f"--out {folder}: the folder cannot be made ({error.strerror}): name another one") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"--out {folder}: nothing may be written in that folder: name another one")
