"""Fail every test of the engine in which asyncio had something to complain about."""

import gc
import logging
import ssl
from collections.abc import Iterator

import pytest
import trustme

from tests.support.scripted_broker import ScriptedBroker


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no lookup tell of a broker that is slow because the machine is."""
    monkeypatch.setattr("groupsdk.drivers.engine.lookup._SLOW_S", 60.0)


@pytest.fixture(autouse=True)
def _asyncio_is_silent(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    # An exception that nobody retrieved is told when its task or future goes. Young objects only: with all of
    # them this takes longer than the tests, and what is missed is told in one that comes after.
    gc.collect(1)
    complaints = [
        record.getMessage()
        for record in caplog.get_records("call")
        if record.name == "asyncio" and record.levelno >= logging.ERROR
    ]
    assert not complaints


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lookups ask the next server only once one has failed: on a loaded machine each of them is slow."""
    monkeypatch.setattr("groupsdk.drivers.engine.lookup._NEXT_AFTER_S", 600.0)


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        yield broker


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    """What a broker for 127.0.0.1 and localhost presents."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    return context


@pytest.fixture(scope="session")
def ca_pem(authority: trustme.CA) -> str:
    return authority.cert_pem.bytes().decode()
