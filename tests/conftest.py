"""Real Kafka brokers for the tests that ask for one."""

import contextlib
import os
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from groupsdk.testing import LocalKafka, LocalKafkaError, MissingToolError, prepare
from tests.support.proxy import FaultProxy


_KAFKA_TESTS = Path(__file__).parent / "kafka"
_ASKS_FOR_KAFKA = "kafka_installed"  # every fixture below that starts a broker asks for it
_MISSING = pytest.StashKey[LocalKafkaError]()
REQUIRE = "GROUPSDK_REQUIRE_KAFKA"

# A broker that was killed is refused until the session of its old process ends.
_QUICK_RESTART = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "200"}

StartKafka = Callable[..., LocalKafka]
"""Start a broker of the test's own; takes the arguments of LocalKafka."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need a broker."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if _KAFKA_TESTS in item.path.parents or _ASKS_FOR_KAFKA in fixtures:
            item.add_marker(pytest.mark.kafka)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fetch Kafka before the first test, because a test's time limit may be shorter than that takes."""
    needed = any("kafka" in item.keywords for item in session.items)
    if session.config.option.collectonly or not needed:
        return
    try:
        prepare()
    except LocalKafkaError as error:
        session.config.stash[_MISSING] = error


@pytest.fixture(scope="session")
def kafka_installed(pytestconfig: pytest.Config) -> None:
    """Skip without Java and Maven, or fail when the environment says that they have to be there."""
    error = pytestconfig.stash.get(_MISSING, None)
    if error is None:
        return
    if os.environ.get(REQUIRE) == "1" or not isinstance(error, MissingToolError):
        pytest.fail(f"no Kafka to test against: {error}", pytrace=False)
    pytest.skip(str(error))


@pytest.fixture(scope="session")
def kafka_proxy() -> Iterator[FaultProxy]:
    """The proxy before the shared broker's listener PROXIED; tests use `proxy`."""
    with FaultProxy() as proxy:
        yield proxy


@pytest.fixture(scope="session")
def kafka(kafka_installed: None, kafka_proxy: FaultProxy) -> Iterator[LocalKafka]:
    """The broker that all tests share, with listeners PLAINTEXT and PROXIED; leave it as it is."""
    listeners = {"PLAINTEXT": "PLAINTEXT", "PROXIED": "PLAINTEXT"}
    with LocalKafka(listeners=listeners, advertised={"PROXIED": [kafka_proxy.address]}) as kafka:
        kafka_proxy.connect_to(kafka.nodes[0].address("PROXIED"))
        yield kafka


@pytest.fixture
def proxy(kafka: LocalKafka, kafka_proxy: FaultProxy) -> Iterator[FaultProxy]:
    """The way to the shared broker that can fail; `proxy.bootstrap_servers` leads through it."""
    kafka_proxy.reset()
    yield kafka_proxy
    kafka_proxy.reset()


@pytest.fixture(scope="session")
def secure_kafka(kafka_installed: None) -> Iterator[LocalKafka]:
    """A shared broker with all four listeners and an authorizer.

    `admin` and `alice` may do everything, `mallory` nothing.
    """
    with LocalKafka(
        listeners=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        users={"admin": "admin-secret", "alice": "alice-secret", "mallory": "mallory-secret"},
        authorizer=True,
        super_users=("admin", "alice"),
    ) as kafka:
        yield kafka


@pytest.fixture
def own_kafka(kafka_installed: None) -> Iterator[StartKafka]:
    """Start brokers that the test may kill, pause and restart."""
    with contextlib.ExitStack() as stack:

        def start(**options: Any) -> LocalKafka:
            properties = _QUICK_RESTART | options.pop("properties", {})
            return stack.enter_context(LocalKafka(properties=properties, **options))

        yield start


@pytest.fixture(scope="module")
def _cluster(kafka_installed: None) -> Iterator[LocalKafka]:
    with LocalKafka(nodes=3) as kafka:
        yield kafka


@pytest.fixture
def kafka_cluster(_cluster: LocalKafka) -> Iterator[LocalKafka]:
    """Three brokers, which the test may kill, pause and restart; all run again after it."""
    yield _cluster
    for node in _cluster.nodes:
        if node.paused:
            node.resume()
    _cluster.start()


@pytest.fixture
def steady_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members heartbeat at their interval from the start, as they otherwise do some seconds after a join."""
    monkeypatch.setattr("groupsdk.membership.heartbeat.EARLY_HEARTBEATS", 0)


@pytest.fixture
def group_id(request: pytest.FixtureRequest) -> str:
    """A group that no other test uses."""
    name = re.sub(r"[^\w.-]+", "-", request.node.name)[:80]
    return f"{name}-{uuid.uuid4().hex[:8]}"
