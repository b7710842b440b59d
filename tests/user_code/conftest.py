"""What each kind of the user's code does wrong."""

from collections.abc import Iterator

import pytest

from tests.user_code.misdeeds import Misdeeds


@pytest.fixture
def misdeeds() -> Iterator[Misdeeds]:
    made = Misdeeds()
    yield made
    made.over.set()
