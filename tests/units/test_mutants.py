"""The list of equivalent mutants is of code that there is."""

import tomllib

import pytest

from tests.mutants import SUITES, TESTS, find_files, mutants

LISTED = tomllib.loads((TESTS / "mutants.toml").read_text())["equivalent"]


@pytest.mark.parametrize("module", sorted({one["module"] for one in LISTED}))
def test_listed_mutants_exist_and_have_reasons(module):
    names = {mutant.name for mutant in mutants(module)}
    for one in LISTED:
        if one["module"] == module:
            assert (module, one["code"], one["change"]) in names
            assert one["reason"]


@pytest.mark.parametrize("module", SUITES)
def test_suites_are_files_of_tests(module):
    assert all(file.exists() for file in find_files(module))
