"""The way from the last episode to a result is short: few files take part in it, and few others are called by them."""

import sys

import bidual as bd
from bidual.learning.learner import Learner


class _Calls:
    """The modules of bidual that run between the last episode and the result, and those that called them."""

    def __init__(self):
        self.pairs = set()

    def __call__(self, frame, event, _):
        module = _module(frame)
        if event == "call" and module.startswith("bidual.") and frame.f_code.co_name != "<module>":
            caller = frame.f_back
            while caller is not None and not _module(caller).startswith("bidual."):
                caller = caller.f_back  # checks of shapes stand between
            self.pairs.add(("" if caller is None else _module(caller), module))


def _module(frame):
    return frame.f_globals.get("__name__", "")


def test_few_files_turn_what_is_known_into_a_result(monkeypatch):
    """Those of learning, and those that they call directly (docs/architecture.md)."""
    calls, conclude = _Calls(), Learner.conclude

    def watched(*args):
        sys.setprofile(calls)
        try:
            return conclude(*args)
        finally:
            sys.setprofile(None)

    monkeypatch.setattr(Learner, "conclude", watched)
    task = bd.tasks.find("riverswim").build()
    solution = bd.learn(task.problem, task.mdp, episodes=20, evaluation=20)
    assert solution.evaluation_episodes == 20
    room = "bidual.learning."
    called = {name for caller, name in calls.pairs if caller.startswith(room)}
    own = {name for _, name in calls.pairs if name.startswith(room)}
    assert room + "learned" in own
    assert len(own | called) <= 41, sorted(own | called)
