"""`Book`: the numbering of an environment while it runs, to which observations are added as they are met."""

from dataclasses import replace
from typing import Any, NamedTuple, final

from bidual._base.errors import EnvError
from bidual.world.observations._numbering import NotNumbered, Numbering
from bidual.world.observations._numbers import Met


class StatePlace(NamedTuple):
    """The number of a state, and what signals see as the state: the number, or what it is given for."""

    number: int
    visible: Any


@final
class Book:
    """The present numbering: it grows while episodes run, and every environment has one of its own."""

    def __init__(self, numbering: Numbering) -> None:
        self.numbering = numbering

    def place(self, observation: Any, where: object) -> StatePlace:  # noqa: ANN401 - whatever an environment shows
        """Return the place of an observation, which is added if it was not met; `where` is for messages."""
        numbering = self.numbering
        try:
            value = numbering.evaluate(observation)
            found = numbering.number(observation, value)
        except NotNumbered as error:
            source = error.source.replace("the observation", "the environment gave the observation", 1)
            raise EnvError(NotNumbered(source, error.reason).describe(f" at {where}")) from error
        if isinstance(found, str):
            found = self.add(found, where)
        return StatePlace(found, value if numbering.grows else found)

    def add(self, key: str, where: object) -> int:
        """Add the text of an observation, and return its number; raise where more are met than were declared."""
        numbers = self.numbering.numbers
        assert isinstance(numbers, Met)  # others have a number for everything
        known = numbers.find(key)
        if known is not None:
            return known
        if len(numbers.keys) == numbers.limit:
            what = "values of the function states" if self.numbering.functional else "observations"
            raise EnvError(
                f"the environment has shown more than {numbers.limit} different {what}, the last of them {key:.80} at "
                f"{where}: bounds rest on that number. Learn anew with a larger states_limit=, or with states=, a "
                "function that gives observations which behave alike one value"
            )
        extended = numbers.extend(key)
        self.numbering = replace(self.numbering, numbers=extended)
        return len(numbers.keys)
