"""Members of the classic protocol."""

import pytest

from tests.drivers.virtual import Bench
from tests.member.driving import Driver


@pytest.fixture
def driver() -> Driver:
    """A member that nobody has driven yet."""
    return Driver()


@pytest.fixture
def member(driver: Driver) -> Driver:
    """A member in its group."""
    driver.join()
    return driver


@pytest.fixture
def bench() -> Bench:
    """A member for threads, with its caller."""
    return Bench()
