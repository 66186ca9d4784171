"""Errors that end a run, with the state to resume from and the place where it is stored."""

from bidual._base.errors import EnvError, RunError
from bidual.learning.learner import Learner
from bidual.learning.runs import RunWriter


def attach_state(error: EnvError, learner: Learner, writer: RunWriter | None) -> EnvError:
    """Return the error with the state to resume from, and with a message that names its place."""
    learn_state, exit_code = learner.learn_state(), error.exit_code if writer is None else RunError.exit_code
    remedy = "error.state holds what was learned, and learn(..., state=error.state) goes on from there"
    where = _keep_failed(learner, writer) or remedy
    extended = EnvError(f"{error}\n{learn_state.episodes} episodes before it are kept: {where}")
    extended.state, extended.exit_code = learn_state, exit_code
    return extended


def attach_state_to_any(error: BaseException, learner: Learner, writer: RunWriter | None) -> BaseException:
    """Return what a callback raised, with the state to resume from and a note that names its place."""
    where = _keep_failed(learner, writer) or "error.state holds what was learned"
    learn_state = learner.learn_state()
    vars(error)["state"] = learn_state
    error.add_note(f"raised by a callback of bd.learn after {learn_state.episodes} episodes: {where}")
    return error


def _keep_failed(learner: Learner, writer: RunWriter | None) -> str | None:
    """Write the checkpoint of a run that failed, where it is stored, and say where it is."""
    if writer is None:
        return None
    writer.write_checkpoint(learner, "failed")
    return f"the run in {writer.folder} is stored up to episode {writer.saved}, and can be resumed or finished"
