"""Runs the example workers on a real Kafka: shards are shared, handed over on a crash, given back on SIGTERM."""

import signal

import pytest

from groupsdk.testing import LocalKafka
from tests.examples.conftest import StartExample
from tests.examples.process import ROOT, ExampleProcess


WORKERS = ["examples/worker.py", "examples/async_worker.py"]
ALL = {f"shard-{number}" for number in range(8)}


def shards_of(line: str) -> set[str]:
    """Reads the shards out of what a worker prints."""
    return set(line.partition(": ")[2].split()) - {"nothing"}


def wait_for_shards(worker: ExampleProcess, count: int) -> set[str]:
    """Waits until a worker has so many shards and returns them."""
    while True:
        shards = shards_of(worker.wait_for(r"^generation \d+: ").string)
        if len(shards) == count:
            return shards


def options(kafka: LocalKafka, group_id: str, *, session_timeout_ms: int) -> list[str]:
    """Makes the command line of a worker."""
    return [
        *("--bootstrap-servers", kafka.bootstrap_servers, "--group-id", group_id),
        *("--session-timeout-ms", str(session_timeout_ms)),
    ]


@pytest.mark.parametrize("path", [*WORKERS, "examples/leader_election.py"])
def test_an_example_is_short(path: str) -> None:
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    assert len(lines) < 110


@pytest.mark.kafka
@pytest.mark.parametrize("path", WORKERS)
def test_shards_move_when_a_worker_is_killed(
    path: str, kafka: LocalKafka, group_id: str, start_example: StartExample
) -> None:
    # no stall ends a session of this length: only the killed worker is missed
    arguments = options(kafka, group_id, session_timeout_ms=10_000)
    first = start_example(path, *arguments)
    assert wait_for_shards(first, 8) == ALL

    second = start_example(path, *arguments)
    # one of the two may see a generation on the way there
    halves = wait_for_shards(first, 4), wait_for_shards(second, 4)
    assert halves[0] | halves[1] == ALL
    assert not halves[0] & halves[1]

    second.send(signal.SIGKILL)
    assert wait_for_shards(first, 8) == ALL
    assert first.end(signal.SIGTERM) == 0
    assert first.lines[-1] == "left the group"


@pytest.mark.kafka
@pytest.mark.parametrize("path", WORKERS)
def test_shards_move_at_once_on_sigterm(
    path: str, kafka: LocalKafka, group_id: str, start_example: StartExample
) -> None:
    # With a session of a minute, only a member that leaves hands over before the test's time is up.
    arguments = options(kafka, group_id, session_timeout_ms=60_000)
    first = start_example(path, *arguments)
    wait_for_shards(first, 8)
    second = start_example(path, *arguments)
    wait_for_shards(second, 4)
    wait_for_shards(first, 4)

    assert first.end(signal.SIGTERM) == 0
    assert wait_for_shards(second, 8) == ALL
    assert second.end(signal.SIGINT) == 0


@pytest.mark.parametrize("path", [*WORKERS, "examples/leader_election.py"])
def test_an_example_starts_a_broker_that_others_may_join(
    path: str, start_example: StartExample
) -> None:
    first = start_example(path)
    servers = first.wait_for(r"^brokers: (127\.0\.0\.1:\d+)$")[1]
    first.wait_for(r"^generation 1: ")
    second = start_example(path, "--bootstrap-servers", servers)
    second.wait_for(r"^generation 2: ")
    first.wait_for(r"^generation 2: ")
    assert second.end(signal.SIGTERM) == 0
    assert first.end(signal.SIGTERM) == 0


def gained(worker: ExampleProcess, count: int) -> set[str]:
    """Waits until a shard worker has gained so many shards, and returns them."""
    found: set[str] = set()
    while len(found) < count:
        found |= shards_of(worker.wait_for("^gained: ").string)
    return found


@pytest.mark.kafka
def test_shard_workers_hand_over_and_drain_before_they_stop(
    kafka: LocalKafka, group_id: str, start_example: StartExample
) -> None:
    path = "examples/shard_worker.py"
    arguments = options(kafka, group_id, session_timeout_ms=10_000)
    first = start_example(path, *arguments)
    assert gained(first, 8) == ALL
    second = start_example(path, *arguments)
    moved = gained(second, 4)
    assert shards_of(first.wait_for("^released: ").string) == moved
    second.send(signal.SIGTERM)
    assert gained(first, 4) == moved
    second.wait_for("left the group")
    assert second.end() == 0
    third = start_example(path, *arguments)
    moved = gained(third, 4)
    third.send(signal.SIGKILL)
    assert gained(first, 4) == moved
    assert first.end(signal.SIGINT) == 0
