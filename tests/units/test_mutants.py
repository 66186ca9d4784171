"""The list of equivalent mutants is of code that there is."""

import tomllib

import pytest

from tests.mutants import SUITES, TESTS, mutants

LISTED = tomllib.loads((TESTS / "mutants.toml").read_text())["equivalent"]


@pytest.mark.parametrize("module", sorted({one["module"] for one in LISTED}))
def test_listed_mutants_exist_and_have_reasons(module):
    names = {mutant.name for mutant in mutants(module)}
    for one in LISTED:
        if one["module"] == module:
            assert (module, one["code"], one["change"]) in names
            assert one["reason"]


def test_suites_are_files_of_tests():
    for name in {name for suite in SUITES.values() for name in suite}:
        assert (TESTS / "units" / f"test_{name}.py").exists()
