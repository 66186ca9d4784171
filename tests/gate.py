"""CPU time of the tests: the total, and the tests of the gate that take more than their share without a reason.

Times are printed and never asserted, for they belong to the machine and to what else runs on it. A process that a test
started counts when it has been waited for.
"""

import os
from pathlib import Path

import pytest

# Dear where the code is compiled for the first time: (file, function) and the reason why it belongs to the gate.
EXPENSIVE = {
    (
        "contracts/test_kills.py",
        "test_a_killed_run_ends_as_if_it_had_never_stopped",
    ): "processes killed again and again",
    ("end_to_end/test_cli.py", "test_demo_tells_its_story"): "the first command of a new user",
    (
        "end_to_end/test_cli_control.py",
        "test_a_controller_is_learned_and_drawn",
    ): "the only command that learns controls",
    ("end_to_end/test_docs.py", "test_the_python_blocks_run_and_print_what_is_shown"): "a page is one program",
    ("end_to_end/test_sweep.py", "test_a_sweep_of_six_cells"): "learns what seven other tests look at",
    ("end_to_end/test_sweep.py", "test_killed_workers_change_nothing"): "the only sweep whose workers are killed",
    (
        "statistical/test_learning.py",
        "test_the_small_lake_is_learned_through_gymnasium_alone",
    ): "quality without a model",
    ("statistical/test_learning.py", "test_three_seeds_are_good"): "quality on the task that every reader meets first",
    ("statistical/test_lock.py", "test_it_is_opened"): "the only latents learned to the end",
    ("units/test_controls.py", "test_a_double_integrator_is_learned_with_its_limit"): "controls learned to the end",
    ("units/test_one_core.py", "test_a_task_of_controls_is_learned_on_one_core"): "the only program on one core",
}
SECONDS = 5.0  # of CPU; more needs a line above, or the marker `slow`
PROPERTY = "cpu seconds"
TESTS = Path(__file__).parent


def read_cpu():
    """Return the CPU seconds of this process and of all that it started and waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def find_offenders(seconds):
    """Return the (seconds, test) above the limit without a reason, dearest first, from seconds by node."""
    dear = [(taken, node) for node, taken in seconds.items() if taken > SECONDS and _name(node) not in EXPENSIVE]
    return sorted(dear, reverse=True)


def _name(node):
    """Return file and function of a node's identifier."""
    path, _, test = node.partition("::")
    return path.removeprefix("tests/"), test.partition("[")[0].rpartition("::")[2]


class CpuTimes:
    """Plugin that measures every test where it runs, and prints a summary where all reports arrive."""

    def __init__(self):
        self.start, self.seconds = 0.0, {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        del item, nextitem
        self.start = read_cpu()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if call.when == "teardown":  # the last of a test, with the fixtures that end with it
            report.user_properties = [*report.user_properties, (PROPERTY, read_cpu() - self.start)]
        return report

    def pytest_runtest_logreport(self, report):
        self.seconds.update((report.nodeid, value) for name, value in report.user_properties if name == PROPERTY)

    def pytest_terminal_summary(self, terminalreporter, config):
        if not self.seconds:
            return
        terminalreporter.section("CPU time")
        if "not slow" in config.option.markexpr:
            for taken, node in find_offenders(self.seconds):
                terminalreporter.line(f"{taken:6.1f} s  {node}: above {SECONDS:g} s; make it cheaper or slow")
        tests, everything = sum(self.seconds.values()) / 60, read_cpu() / 60
        terminalreporter.line(f"{tests:.1f} minutes in {len(self.seconds)} tests, {everything:.1f} in all processes")
