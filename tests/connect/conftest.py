"""What the tests of Connect are held against: Connect's own classes."""

from collections.abc import Iterator

import pytest

from tests.connect.kafka_assignor import KafkaAssignors, kafka_assignors


@pytest.fixture(scope="module")
def kafka_class(_java: None) -> Iterator[KafkaAssignors]:
    """Connect's own assignors."""
    with kafka_assignors() as assignors:
        yield assignors
