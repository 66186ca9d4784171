"""A parser of arguments whose errors name the word that was probably meant."""

import argparse
import re
from typing import NoReturn, final

from bidual._base.spelling import suggest

_CHOICE = re.compile(r"invalid choice: '(.*)' \(choose from (.*)\)$")
_UNKNOWN = re.compile(r"unrecognized arguments: (-\S*?)(?:=.*)?(?:\s|$)")


@final
class Parser(argparse.ArgumentParser):
    """The parser of a command, or of their names."""

    def error(self, message: str) -> NoReturn:
        """End the program with exit code 2, the usage and the message."""
        super().error(message + self._suggest_instead(message))

    def _suggest_instead(self, message: str) -> str:
        if choice := _CHOICE.search(message):
            return suggest(choice[1], re.findall(r"[\w-]+", choice[2]))
        if unknown := _UNKNOWN.match(message):
            return suggest(unknown[1], re.findall(r"--[a-z][a-z-]*", self.format_usage()))
        return ""
