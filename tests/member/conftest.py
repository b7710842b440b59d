"""A member of the classic protocol, in its group."""

import pytest

from tests.member.driving import Driver


@pytest.fixture
def member() -> Driver:
    driver = Driver()
    driver.join()
    return driver
