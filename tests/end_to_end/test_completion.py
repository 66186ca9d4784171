"""Completion, asked for as a shell does: the line in the environment, the answer in a file."""

import pytest


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("bidual sw", {"sweep"}),
        ("bidual learn rover --epi", {"--episodes"}),
        ("bidual tasks --family c", {"class", "control"}),
    ],
)
def test_a_shell_completes_commands_options_and_values(bidual, tmp_path, line, answer):
    question = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    process = bidual(env=question | {"_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "answer")})
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")
    assert {word.strip() for word in (tmp_path / "answer").read_text().split("\n")} == answer
