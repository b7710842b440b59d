"""Run what is done in steps to its end."""

from collections.abc import Generator
from typing import TypeVar


T = TypeVar("T")


def finished(steps: Generator[None, None, T]) -> T:
    """Run steps without pauses, and return what they return."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
