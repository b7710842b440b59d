import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def quiet() -> Iterator[None]:
    """Members under faults log a lot, and nobody reads it."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
