"""Real processes with shards on Apache Kafka and on the embedded broker: killed, stopped, restarted, cut off and slow.

A ledger of what each process believes judges: never two holders, and epochs that rise.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from tests.shards.ledger import ShardProcess, all_held, check_ledgers
from tests.support.proxy import FaultProxy
from tests.support.workers import eventually


pytestmark = pytest.mark.timeout(300)

Start = Callable[..., ShardProcess]


@pytest.fixture
def embedded() -> Iterator[str]:
    with EmbeddedBroker(group_min_session_timeout_ms=1_000) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(
    params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)],
)
def servers(request: pytest.FixtureRequest) -> str:
    broker: Any = request.getfixturevalue(request.param)
    return broker if isinstance(broker, str) else str(broker.bootstrap_servers)


@pytest.fixture
def start(servers: str, group_id: str, tmp_path: Path) -> Iterator[Start]:
    """Start processes, and judge all that they wrote at the end."""
    started: list[ShardProcess] = []
    with contextlib.ExitStack() as stack:

        def begin(**options: Any) -> ShardProcess:
            process = ShardProcess(
                tmp_path / f"ledger-{len(started)}",
                **{
                    "bootstrap_servers": servers,
                    "group_id": group_id,
                    "heartbeat_interval_ms": 200,
                    "session_timeout_ms": 6_000,
                    "rebalance_timeout_ms": 20_000,
                    **options,
                },
            )
            started.append(stack.enter_context(process))
            return process

        yield begin
        check_ledgers(*started)


def test_two_processes_share_and_one_that_is_killed_is_followed_after_its_session(
    start: Start,
) -> None:
    one, two = start(), start()
    eventually(lambda: all_held((one, two)) and one.held and two.held)
    before = dict(one.held)
    two.kill()
    eventually(lambda: all_held((one,)))
    assert {name: one.held[name] for name in before} == before, "what it had kept its epochs"


def test_a_static_one_that_returns_has_its_shards_and_epochs_without_a_rebalance(
    start: Start,
) -> None:
    one = start(group_instance_id="one", session_timeout_ms=30_000)
    two = start(group_instance_id="two", session_timeout_ms=30_000)
    eventually(lambda: all_held((one, two)) and one.held and two.held)
    processes = {"one": one, "two": two}
    for goes, stays in (("one", "two"), ("two", "one")):
        held = processes[goes].held
        before = [len(processes[stays].entries(kind)) for kind in ("gained", "releasing")]
        processes[goes].kill()
        again = processes[goes] = start(group_instance_id=goes, session_timeout_ms=30_000)
        eventually(lambda: again.held == held)  # noqa: B023
        after = [len(processes[stays].entries(kind)) for kind in ("gained", "releasing")]
        assert after == before
    assert all_held(processes.values())


def test_one_that_is_stopped_past_its_session_knows_at_once_and_is_told(start: Start) -> None:
    one, two = start(), start()
    eventually(lambda: all_held((one, two)) and one.held and two.held)
    held = set(two.held)
    two.pause()
    eventually(lambda: all_held((one,)))
    two.resume()
    eventually(lambda: two.entries("lost"))
    assert set(two.entries("lost")[0].epochs) == held
    eventually(lambda: all_held((one, two)) and two.held)


def test_slow_release_in_a_process_stops_no_other_shard(start: Start) -> None:
    one = start(release_s=3.0)
    eventually(lambda: all_held((one,)))
    two, three = start(), start()
    eventually(lambda: all_held((one, two, three)) and two.held and three.held)
    kept = set(one.held)
    beliefs = one.entries("believes")
    first = next(i for i, entry in enumerate(beliefs) if len(entry.epochs) == 12)
    assert all(kept <= entry.epochs.keys() for entry in beliefs[first:]), "kept without a pause"


def test_a_hung_release_costs_all_and_others_follow(start: Start) -> None:
    one = start(release_timeout_ms=2_000)
    eventually(lambda: all_held((one,)))
    one.hang()
    two = start()
    eventually(lambda: all_held((two,)))
    assert set(one.entries("lost")[0].epochs) == set(two.held)
    one.hang(on=False)
    eventually(lambda: all_held((one, two)) and one.held)


def test_a_leader_that_dies_between_the_two_phases_is_followed(start: Start) -> None:
    """The first one leads; the second has been told to release to the third, and is at it."""
    one = start()
    eventually(lambda: all_held((one,)))
    two = start(release_s=1.0)
    eventually(lambda: all_held((one, two)) and two.held)
    three = start()
    eventually(lambda: two.entries("releasing"))
    one.kill()
    eventually(lambda: all_held((two, three)) and three.held)


def test_a_drained_one_hands_over_all_and_ends(start: Start) -> None:
    one, two = start(release_s=0.05), start(release_s=0.05)
    eventually(lambda: all_held((one, two)) and one.held and two.held)
    assert two.drain() == 0
    eventually(lambda: all_held((one,)))
    assert two.entries("lost") == []
    assert two.entries("error") == []


def test_a_newer_version_rolls_over(start: Start) -> None:
    """What a newer version adds to what it says, an older leader leaves alone."""
    old = [start(), start()]
    eventually(lambda: all_held(old) and all(each.held for each in old))
    new: list[ShardProcess] = []
    for each in old:
        new.append(start(newer_by=7))
        assert each.drain() == 0
    eventually(lambda: all_held(new) and all(each.held for each in new))
    assert [entry for each in (*old, *new) for entry in each.entries("lost")] == []


def test_epochs_rise_through_a_group_that_was_deleted(
    start: Start, servers: str, group_id: str
) -> None:
    from confluent_kafka.admin import AdminClient

    one = start()
    eventually(lambda: all_held((one,)))
    before = dict(one.held)
    assert one.drain() == 0
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.delete_consumer_groups([group_id]).values():
        future.result(30)
    two = start()
    eventually(lambda: all_held((two,)))
    assert all(two.held[name] > epoch for name, epoch in before.items())


@pytest.mark.parametrize("servers", ["kafka"], indirect=True)
def test_lost_connections_lose_nothing_and_a_cut_beyond_the_session_loses_all(
    start: Start, proxy: FaultProxy
) -> None:
    one = start()
    two = start(bootstrap_servers=proxy.bootstrap_servers)
    eventually(lambda: all_held((one, two)) and one.held and two.held)
    for _ in range(3):
        proxy.disconnect()
        eventually(lambda: proxy.connections > 0)
    assert two.entries("lost") == []
    assert all_held((one, two))
    proxy.black_hole()
    eventually(lambda: all_held((one,)))
    proxy.reset()
    eventually(lambda: all_held((one, two)) and two.held)
    assert two.entries("lost")


@pytest.mark.parametrize("servers", ["secure_kafka"], indirect=True)
@pytest.mark.kafka
def test_over_tls_and_sasl_the_topic_of_epochs_is_reached_like_the_group(
    start: Start, secure_kafka: LocalKafka, group_id: str
) -> None:
    topic = f"epochs-{group_id}"
    secure = {
        "bootstrap_servers": secure_kafka.bootstrap_servers_of("SASL_SSL"),
        "security_protocol": "SASL_SSL",
        "ssl_ca_location": str(secure_kafka.ca_file),
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "alice",
        "sasl_password": "alice-secret",
        "epoch_topic": topic,
    }
    one, two = start(**secure), start(**secure)
    eventually(lambda: all_held((one, two)) and one.held and two.held)
    assert one.drain() == 0
    eventually(lambda: all_held((two,)))
    assert one.entries("error") == two.entries("error") == []
    # the incarnation is there, so that it was written with the same credentials
    reader = {"bootstrap.servers": secure_kafka.bootstrap_servers_of("PLAINTEXT")}
    consumer = Consumer({**reader, "group.id": f"r-{group_id}", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        record = eventually(lambda: consumer.poll(1.0))
        assert record.key() == group_id.encode()
    finally:
        consumer.close()
