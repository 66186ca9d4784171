"""The identity of a run: what its counts and bounds are about, so that no other problem takes them for its own.

Arrays and expressions are identified by checksums. Environments show little of themselves: of a simulated model the law
is compared, of a registered Gymnasium environment its name and arguments, of others nothing but their sizes.
"""

import json
from typing import Any

from bidual._base.checksum import compute_checksum
from bidual._base.errors import ProblemError
from bidual.learning.setup import LearnSetup
from bidual.storage import pack_program
from bidual.world.envs import AbstractEnvironment, Parallel, Simulator

_SHORT = 40  # characters of two values that a message may print; checksums tell people nothing


def identify_settings(setup: LearnSetup) -> dict[str, Any]:
    """Return what a run is about by name: values as they are, arrays by their checksums."""
    pieces = setup.knowledge.pieces
    header, arrays = pack_program(setup.problem.program())
    observed = [[position, one.low, one.high, one.noisy, one.at_end] for position, one in pieces.observed]
    return {
        "model that is simulated": _identify_law(setup.env),
        "steps, states and actions": list(setup.env.shape),
        "problem": compute_checksum(header, setup.problem.maximises, *arrays.values()),
        "features": compute_checksum(observed, pieces.stage, *(values for _, values in pieces.arrivals)),
        **_describe_numbering(setup.env),
        **setup.knowledge.settings(),
    }


def _describe_numbering(env: AbstractEnvironment) -> dict[str, Any]:
    """Describe how observations are numbered, where they are not numbers themselves."""
    numbering = env.numbering
    return (
        {} if numbering is None or numbering.is_identity else {"observations": compute_checksum(numbering.describe())}
    )


def write_identity(setup: LearnSetup) -> str:
    """Return the identity of a run as text, with the environment's own where it has one."""
    return json.dumps({**identify_settings(setup), "environment": _find_registration(setup.env)}, sort_keys=True)


def check_identity(written: str | None, setup: LearnSetup) -> None:
    """Raise `ProblemError` where a state to resume from is about something else than this set-up."""
    if written is None:
        raise ProblemError(
            "the state to go on from does not tell which problem, environment and model it is about: bounds of another "
            "problem would be false here. Learn without a state"
        )
    then, now = json.loads(written), json.loads(write_identity(setup))
    for name in {**then, **now}:
        old, new = then.get(name), now.get(name)
        unknown = name == "environment" and (old is None or new is None)
        if old != new and not unknown:
            values = f": {old} then, {new} now" if len(f"{old}{new}") < _SHORT else ""
            raise ProblemError(
                f"the state to go on from is about another {name}{values}. Its counts and bounds would be false here: "
                "go on with the problem, environment and model that it came from, or learn without a state"
            )


def _identify_law(env: AbstractEnvironment) -> str | None:
    """Identify the law that an environment draws from, where it is accessible."""
    if not isinstance(env, Simulator):
        return None
    lists = env.mdp.successors
    return compute_checksum([], lists.states, lists.probabilities, lists.allowed, env.mdp.initial)


def _find_registration(env: AbstractEnvironment) -> list[Any] | None:
    """Return name and arguments under which Gymnasium has registered an environment; None for all others."""
    spec = getattr(getattr(env.local if isinstance(env, Parallel) else env, "env", None), "spec", None)
    if spec is None:
        return None
    # Functions among the arguments are named by their class alone: their addresses differ from process to process.
    return [spec.id, json.loads(json.dumps(spec.kwargs, sort_keys=True, default=lambda thing: type(thing).__name__))]
