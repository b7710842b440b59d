"""A real Kafka for the examples, and a way to run them as a user does."""

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from groupsdk.testing import LocalKafka, LocalKafkaError, MissingToolError, prepare
from tests.examples.process import ExampleProcess


StartExample = Callable[..., ExampleProcess]
"""Start an example: the path below examples/, then its arguments."""


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fetch Kafka before the first test, because a test's time limit may be shorter than that takes."""
    here = Path(__file__).parent
    needed = any(here in item.path.parents and "kafka" in item.keywords for item in session.items)
    if needed and not session.config.option.collectonly:
        with suppress(LocalKafkaError):  # the fixture says what is wrong
            prepare()


@pytest.fixture(scope="session")
def kafka() -> Iterator[LocalKafka]:
    """A broker for all examples; without Java, skipped, or failed where Kafka is required."""
    kafka = LocalKafka()
    try:
        kafka.start()
    except MissingToolError as error:
        if os.environ.get("GROUPSDK_REQUIRE_KAFKA") == "1":
            raise
        pytest.skip(str(error))
    try:
        yield kafka
    finally:
        kafka.close()


@pytest.fixture
def group_id() -> str:
    """A group that no other test uses."""
    return f"example-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def start_example() -> Iterator[StartExample]:
    """Starts examples, which end with the test."""
    with ExitStack() as stack:

        def start(*command: str) -> ExampleProcess:
            return stack.enter_context(ExampleProcess(*command))

        yield start
