"""Use the embedded broker through Kafka's own clients for Java, of three releases."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.broker.server.connection import Connection
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
    "not-served",
    "consumer-protocol",
    "consumer-transactions",
    "consumer-listeners",
    "consumer-pause",
    "migration",
)
_TIMEOUT_MS = 150_000


@pytest.fixture(scope="module", params=RELEASES)
def clients(
    request: pytest.FixtureRequest, kafka_installed: None, broker: EmbeddedBroker
) -> Iterator[JavaProgram]:
    """One Java process that goes through one scenario after the other."""
    jars = [f"org.apache.kafka:kafka-clients:{request.param}"]
    with JavaProgram(SOURCE, jars, arguments=[broker.bootstrap_servers]) as program:
        yield program


@pytest.mark.timeout(200)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_java_client_scenario_passes(clients: JavaProgram, group_id: str, scenario: str) -> None:
    said = clients.ask(f"{scenario} {group_id}", _TIMEOUT_MS)
    assert said == "ok", said.replace(" | ", "\n")


@pytest.mark.timeout(200)
def test_the_newest_client_names_topics_by_id(
    kafka_installed: None, group_id: str, mocker: MockerFixture
) -> None:
    calls = mocker.spy(Connection, "run")
    jars = [f"org.apache.kafka:kafka-clients:{RELEASES[-1]}"]
    with (
        EmbeddedBroker({"group.consumer.release": "4.4"}) as newest,
        JavaProgram(SOURCE, jars, arguments=[newest.bootstrap_servers]) as program,
    ):
        for scenario in ("consumer-protocol", "consumer-transactions"):
            said = program.ask(f"{scenario} {group_id}-{scenario}", _TIMEOUT_MS)
            assert said == "ok", said.replace(" | ", "\n")
    used = {(each.args[1].route.api_key, each.args[1].version) for each in calls.call_args_list}
    assert {(8, 10), (9, 10), (28, 6)} <= used
