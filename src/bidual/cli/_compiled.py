"""Compiled code of commands, kept in the user's cache folder for the next ones."""

import os
import sys
import warnings
from pathlib import Path

_FOLDER = "JAX_COMPILATION_CACHE_DIR"
# JAX keeps only what took a second to compile, unless it is asked to keep all.
_LEAST = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}


def keep_compiled_code() -> None:
    """Have JAX keep what this command compiles, unless the user has said where, or has switched that off.

    Only for processes that are our own, before JAX is imported: in a program of the user these are the user's settings.
    JAX ignores entries that it cannot read, such as those another process has not finished.
    """
    if _FOLDER in os.environ or "JAX_ENABLE_COMPILATION_CACHE" in os.environ:
        return
    folder = find_cache_folder() / "bidual" / "compiled"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return
    warnings.filterwarnings("ignore", message="Error .* persistent compilation cache entry")
    os.environ[_FOLDER] = str(folder)
    for name, value in _LEAST.items():
        os.environ.setdefault(name, value)


def find_cache_folder() -> Path:
    """Return the folder of this system for what programs can make again."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
