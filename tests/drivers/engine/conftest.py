"""Fail every test of the engine in which asyncio had something to complain about."""

import gc
import logging
from collections.abc import Iterator

import pytest

from tests.support.scripted_broker import ScriptedBroker


@pytest.fixture(autouse=True)
def _asyncio_is_silent(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    gc.collect()  # an exception that nobody retrieved is told when its task or future goes
    complaints = [
        record.getMessage()
        for record in caplog.get_records("call")
        if record.name == "asyncio" and record.levelno >= logging.ERROR
    ]
    assert not complaints


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        yield broker
