"""``bidual sweep``: many runs of ``bidual learn``, on many processes or machines."""

from bidual.cli.sweep._command import add_to
