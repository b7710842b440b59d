"""A member of the consumer protocol, in its group."""

import pytest

from tests.member.consumer.driving import Member, in_group


@pytest.fixture
def member() -> Member:
    """A member that has t-0, in epoch 2."""
    return in_group()
