"""A way to run examples as a user does."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.examples.process import ExampleProcess


StartExample = Callable[..., ExampleProcess]
"""Start an example: the path below examples/, then its arguments."""


@pytest.fixture
def start_example() -> Iterator[StartExample]:
    """Starts examples, which end with the test."""
    with ExitStack() as stack:

        def start(*command: str) -> ExampleProcess:
            return stack.enter_context(ExampleProcess(*command))

        yield start
