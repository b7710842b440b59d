"""Use the embedded broker through Kafka's own clients for Java, of three releases."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from tests.support.java import JavaProgram


SOURCE = Path(__file__).parent / "java" / "Scenarios.java"
RELEASES = ("4.1.0", "4.3.1", "4.4.0")
SCENARIOS = (
    "range",
    "roundrobin",
    "sticky",
    "cooperative-sticky",
    "static",
    "compression",
    "transactions",
    "fencing",
    "transactional-ids",
    "topics",
    "records",
    "groups",
    "cluster",
    "nothing-to-tell",
    "not-served",
    "consumer-protocol",
    "consumer-transactions",
    "consumer-listeners",
    "migration",
)
_TIMEOUT_MS = 50_000


@pytest.fixture(scope="module", params=RELEASES)
def clients(
    request: pytest.FixtureRequest, kafka_installed: None, broker: EmbeddedBroker
) -> Iterator[JavaProgram]:
    """One Java process that goes through one scenario after the other."""
    jars = [f"org.apache.kafka:kafka-clients:{request.param}"]
    with JavaProgram(SOURCE, jars, arguments=[broker.bootstrap_servers]) as program:
        yield program


@pytest.mark.timeout(120)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_java(clients: JavaProgram, group_id: str, scenario: str) -> None:
    said = clients.ask(f"{scenario} {group_id}", _TIMEOUT_MS)
    assert said == "ok", said.replace(" | ", "\n")
