"""Errors, as one small tree.

Every message names the mistake, its place, the value found, and the remedy.

* BidualError
    * ProblemError      the declared problem: not convex, not finite, over another embedding
    * ModelError        the transition model or the signals: shapes, rows, indices
    * EnvError          an environment that breaks its contract, or does something declared impossible
    * PolicyError       a policy queried for actions it does not have
    * TaskError         an unknown task, a bad `--set`, a problem file that does not work
    * ArchiveError      a saved file that cannot be read back
    * OutputError       a file or a folder that the command line is to write and cannot
    * RunError          a stored run that cannot be written, resumed or found
    * CertificateError  a bound that did not survive its independent check
"""

# What code of the user raises when it fails: also what ends a program, which is not for an environment to decide.
FAILURES = (Exception, SystemExit)


class BidualError(Exception):
    """The base of every error that bidual raises on purpose."""

    exit_code = 2


class ProblemError(BidualError, ValueError):
    """The declared problem cannot be solved as written."""


class ModelError(BidualError, ValueError):
    """The transition model or a signal over it is malformed."""


class EnvError(BidualError, RuntimeError):
    """An environment broke its contract, or did something declared impossible.

    Raised from `learn` it has a `state`, the run up to there, for ``learn(..., state=error.state)``.
    """

    state: object = None


class PolicyError(BidualError, ValueError):
    """A policy was asked for an action it cannot give."""


class TaskError(BidualError, ValueError):
    """A task or a problem file could not be turned into a problem."""


class ArchiveError(BidualError):
    """A saved file is missing, damaged or from another format version."""

    exit_code = 5


class OutputError(BidualError):
    """A file or a folder that the command line is to write cannot be written."""

    exit_code = 5


class RunError(BidualError):
    """A stored run cannot be written, resumed or found.

    Raised from `learn` while it stores, it has what was learned: a `state`, for ``learn(..., state=error.state)``, and
    the `solution`, where that was computed.
    """

    exit_code = 5
    state: object = None
    solution: object = None


class BusyError(RunError):
    """Another process writes to the run: it may be waited for."""


class CertificateError(BidualError):
    """A bound failed its independent check, so it is not reported."""

    exit_code = 1
