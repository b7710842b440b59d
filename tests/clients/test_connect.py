"""Run Kafka Connect's distributed worker on the embedded broker, with connectors from file to file."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from groupsdk.testing.jars import fetch
from groupsdk.testing.ports import ReservedPorts
from tests.support.connect import RELEASE, ask_worker, end_worker, start_worker
from tests.support.workers import eventually


COORDINATES = [f"org.apache.kafka:connect-{name}:{RELEASE}" for name in ("runtime", "file")]
_START_S = 90.0


class Worker:
    """A distributed worker, and its REST interface."""

    def __init__(self, port: int, output: Path) -> None:
        self.port = port
        self.output = output

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Sends a request to the worker: a POST where it has a body; returns what it answers, or None."""
        return ask_worker(self.port, path, body)

    def until(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Asks until there is an answer: it refuses while it starts, or rebalances."""
        return eventually(lambda: self.ask(path, body), self.said, _START_S)

    def runs(self, connector: str) -> bool:
        """Says whether a connector and its task run."""
        status = self.ask(f"/connectors/{connector}/status")
        states = (
            [each["state"] for each in (status["connector"], *status["tasks"])] if status else []
        )
        return states == ["RUNNING", "RUNNING"]

    def consumed(self, connector: str) -> int:
        """Returns how many records a sink has committed."""
        found = self.ask(f"/connectors/{connector}/offsets")
        return sum(each["offset"]["kafka_offset"] for each in found["offsets"]) if found else 0

    def said(self) -> str:
        """Returns the end of what the worker wrote."""
        return self.output.read_text(errors="replace")[-4000:]


@contextmanager
def worker(
    broker: EmbeddedBroker | LocalKafka,
    directory: Path,
    besides: Sequence[str] = (),
    **more: str,
) -> Iterator[Worker]:
    """Starts a worker, and ends it by force.

    Args:
        besides: further libraries, as Maven names them.
        more: settings, with underscores for dots.
    """
    jars = fetch([*COORDINATES, *besides])
    with ReservedPorts(1) as reserved:
        port = reserved.ports[0]
        settings = directory / "worker.properties"
        given = {
            "offset_storage_partitions": 5,
            "offset_flush_interval_ms": 200,
            "exactly_once_source_support": "enabled",
            "session_timeout_ms": 10_000,
            "heartbeat_interval_ms": 300,
            "scheduled_rebalance_max_delay_ms": 0,
        } | more
        process = start_worker(
            settings, jars, broker.bootstrap_servers, "connect-cluster", port, **given
        )
        try:
            yield Worker(port, settings.with_suffix(".log"))
        finally:
            end_worker(process)


@pytest.mark.timeout(240)
@pytest.mark.usefixtures("kafka_installed")
def test_a_worker_moves_lines_and_the_next_one_goes_on(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    source.write_text("one\ntwo\n")

    def lines() -> list[str]:
        return sink.read_text().splitlines() if sink.exists() else []

    connectors = {
        "source": {
            "connector.class": "FileStreamSource",
            "file": str(source),
            "topic": "lines",
            "topic.creation.default.partitions": "2",
            "topic.creation.default.replication.factor": "1",
        },
        "sink": {
            "connector.class": "FileStreamSink",
            "file": str(sink),
            "topics": "lines",
            "consumer.override.auto.offset.reset": "earliest",
            "consumer.override.metadata.max.age.ms": "500",
            "consumer.override.session.timeout.ms": "10000",
            "consumer.override.heartbeat.interval.ms": "300",
        },
    }
    with worker(broker, tmp_path) as first:
        for name, config in connectors.items():
            first.until("/connectors", {"name": name, "config": config | {"tasks.max": "1"}})
        eventually(lambda: first.runs("source") and first.runs("sink"), first.said, _START_S)
        eventually(lambda: sorted(lines()) == ["one", "two"], first.said, _START_S)
        # the sink has said how far it is: otherwise the next worker would rightly repeat it
        eventually(lambda: first.consumed("sink") == 2, first.said, _START_S)
        (member,) = broker.groups["connect-cluster"].members.values()
        assert broker.groups["connect-cluster"].protocol_type == "connect"
        assert member.client_id
        assert "connect-sink" in broker.groups
    # all that the next one knows stands in the three topics
    with source.open("a") as more:
        more.write("three\n")
    with worker(broker, tmp_path) as second:
        assert sorted(second.until("/connectors")) == ["sink", "source"]
        eventually(lambda: len(lines()) >= 3, second.said, _START_S)
        assert sorted(lines()) == ["one", "three", "two"]
        eventually(lambda: second.runs("source") and second.runs("sink"), second.said, _START_S)
        offsets = second.until("/connectors/source/offsets")["offsets"]
        assert offsets[0]["partition"] == {"filename": str(source)}
        assert offsets[0]["offset"] == {"position": source.stat().st_size}
