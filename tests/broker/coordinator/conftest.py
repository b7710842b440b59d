import pytest

from tests.broker.coordinator.group.driving import QUICK, Driver


@pytest.fixture
def driver() -> Driver:
    """A coordinator whose groups begin without an initial delay."""
    return Driver(QUICK)
