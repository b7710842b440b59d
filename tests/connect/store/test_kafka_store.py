"""Holds what only the store in Kafka can do: several workers, of which one writes."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from pytest_mock import MockerFixture

from groupsdk.connect.config import ConnectConfig
from groupsdk.connect.errors import RecordTooLargeError, StoreFencedError, TaskFencedError
from groupsdk.connect.group.work import StandbyRecord
from groupsdk.connect.store.config_backing_store import connector_records
from groupsdk.connect.store.kafka_store import KafkaStore
from groupsdk.connect.store.status_backing_store import State, Status
from groupsdk.wire.connect_protocol import ConnectorTaskId
from tests.connect.workers import eventually


KEY = ("a", "t0")


@pytest.fixture
def two(servers: str, group_id: str) -> Iterator[tuple[KafkaStore, KafkaStore]]:
    """The stores of two workers of one group."""
    with ExitStack() as stack:
        stores = []
        for number in range(2):
            # under two names, as those of one name share what they read
            config = ConnectConfig.of(
                bootstrap_servers=servers,
                group_id=group_id,
                offset_storage_partitions=2,
                client_id=f"worker-{number}",
            )
            store = KafkaStore(config)
            stack.callback(store.close)
            store.start()
            stores.append(store)
        yield stores[0], stores[1]


def test_writes_of_the_leader_are_read_by_all(two: tuple[KafkaStore, KafkaStore]) -> None:
    leader, follower = two
    leader.claim()
    leader.write_configs(connector_records("a", {"k": "v"}))
    # Kafka shows what is committed some milliseconds later
    eventually(lambda: follower.configs().connectors == {"a": {"k": "v"}})
    follower.read_configs(60_000)
    assert follower.configs().offset == leader.configs().offset


def test_a_leader_that_was_followed_writes_no_more(two: tuple[KafkaStore, KafkaStore]) -> None:
    old, new = two
    old.claim()
    old.write_configs(connector_records("a", {}))
    new.claim()
    new.write_configs(connector_records("b", {}))
    with pytest.raises(StoreFencedError):
        old.write_configs(connector_records("zombie", {}))
    with pytest.raises(StoreFencedError):
        old.write_configs(connector_records("zombie", {}))
    new.read_configs(60_000)
    assert set(new.configs().connectors) == {"a", "b"}
    old.claim()
    old.write_configs(connector_records("c", {}))
    assert set(old.configs().connectors) == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("value", "raised"), [("x" * 2_000_000, RecordTooLargeError), (object(), TypeError)]
)
def test_a_record_that_cannot_be_written_leaves_no_transaction_open(
    two: tuple[KafkaStore, KafkaStore], value: Any, raised: type[Exception]
) -> None:
    leader, follower = two
    leader.claim()
    with pytest.raises(raised):
        leader.write_configs([*connector_records("a", {}), *connector_records("b", {"k": value})])
    leader.write_configs(connector_records("c", {}))
    eventually(lambda: "c" in follower.configs().connectors)
    assert set(follower.configs().connectors) == {"c"}


def test_write_without_a_claim_is_fenced(two: tuple[KafkaStore, KafkaStore]) -> None:
    with pytest.raises(StoreFencedError, match="not claimed"):
        two[0].write_configs(connector_records("a", {}))


def test_states_written_by_one_are_read_by_the_next_owner(
    two: tuple[KafkaStore, KafkaStore],
) -> None:
    old, new = two
    old.fence([KEY], 3, 60_000)
    old.commit(KEY, 3, {"n": 1})
    assert new.fence([KEY], 4, 60_000) == {KEY: {"n": 1}}
    new.commit(KEY, 4, {"n": 2})
    assert new.fence([KEY], 5, 60_000) == {KEY: {"n": 2}}


class Paused:
    """Has a store stop where it is about to write a state, as a process that is suspended does."""

    def __init__(self, mocker: MockerFixture, store: KafkaStore) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        write = store._produce

        def wait(*arguments: Any, **options: Any) -> None:
            self.reached.set()
            assert self.go_on.wait(60)
            write(*arguments, **options)

        mocker.patch.object(store, "_produce", wait)


@pytest.mark.parametrize("waits", [True, False])
def test_a_commit_that_a_new_owner_came_before_is_not_acknowledged(
    two: tuple[KafkaStore, KafkaStore], mocker: MockerFixture, waits: bool
) -> None:
    old, new = two
    old.fence([KEY], 24, 60_000)
    old.commit(KEY, 24, {"n": 1})
    paused = Paused(mocker, old)
    with ThreadPoolExecutor(1) as pool:
        commit = old.commit if waits else lambda *args: old.begin_commit(*args).result(60)
        late = pool.submit(commit, KEY, 24, {"n": 2})
        assert paused.reached.wait(60)
        assert new.fence([KEY], 26, 60_000) == {KEY: {"n": 1}}
        new.commit(KEY, 26, {"n": 10})
        paused.go_on.set()
        with pytest.raises(TaskFencedError, match="taken over under 26, after 24"):
            late.result(60)
    assert new.fence([KEY], 27, 60_000) == {KEY: {"n": 10}}


def test_fenced_leader_deletes_nothing_while_it_takes_over(
    two: tuple[KafkaStore, KafkaStore], mocker: MockerFixture
) -> None:
    """Otherwise the state would be lost with the later owner, if that one died before it had written it again."""
    old, new = two
    old.fence([KEY], 24, 60_000)
    old.commit(KEY, 24, {"n": 1})
    # two records of states at the end: the fence's is not held up
    write = old._produce
    writes: list[tuple[Any, ...]] = []

    def take_over(*arguments: Any, **options: Any) -> None:
        if writes:
            new.fence([KEY], 27, 60_000)
        writes.append(arguments)
        write(*arguments, **options)

    mocker.patch.object(old, "_produce", take_over)
    with pytest.raises(TaskFencedError, match="taken over under 27, after 26"):
        old.fence([KEY], 26, 60_000)
    # its fence and its state, but no deletion
    assert [value is None for _, _, _, value, *_ in writes] == [False, False]


def test_states_that_are_set_after_a_new_owner_came_are_refused(
    two: tuple[KafkaStore, KafkaStore], mocker: MockerFixture
) -> None:
    old, new = two
    fence = old.fence

    def fence_and_lose(*arguments: Any) -> Any:
        fence(*arguments)
        return new.fence([KEY], 27, 60_000)

    mocker.patch.object(old, "fence", fence_and_lose)
    with pytest.raises(TaskFencedError, match="taken over under 27, after 26"):
        old.put_states({KEY: {"n": 5}}, 26, 60_000)


def test_a_status_of_an_older_owner_does_not_replace_a_newer_one(
    two: tuple[KafkaStore, KafkaStore],
) -> None:
    old, new = two
    new.put_status("k", Status(State.RUNNING, "new", 5))
    eventually(lambda: old.statuses().get("k"))
    old.put_status("k", Status(State.UNASSIGNED, "old", 4))
    old.put_status("end", Status(State.RUNNING, "old", 1))
    eventually(lambda: new.statuses().get("end"))
    assert new.statuses()["k"].worker_id == "new"


def test_standbys_of_the_newest_leader_win(
    two: tuple[KafkaStore, KafkaStore],
) -> None:
    leader, follower = two
    task = ConnectorTaskId("c", 0)
    leader.put_standbys(StandbyRecord(7, {task: ("m1",)}))
    eventually(lambda: follower.standbys().standbys == {task: ("m1",)})
    leader.put_standbys(StandbyRecord(6, {task: ("m2",)}))
    leader.put_standbys(StandbyRecord(8, {}))
    eventually(lambda: follower.standbys().generation == 8)
    assert follower.standbys().standbys == {}
    # it is no status
    assert follower.statuses() == {}


def test_a_standby_reads_what_the_owner_committed(two: tuple[KafkaStore, KafkaStore]) -> None:
    owner, standby = two
    assert standby.state(("c", "t0")) is None
    owner.fence([("c", "t0")], 3, 60_000)
    owner.commit(("c", "t0"), 3, {"n": 1})
    eventually(lambda: standby.state(("c", "t0")) == {"n": 1})


def test_a_task_may_be_named_by_a_file_whose_name_is_no_unicode(
    two: tuple[KafkaStore, KafkaStore],
) -> None:
    key = "a", "caf\udce9.log"
    assert two[0].fence([key], 1, 60_000) == {}
    two[0].commit(key, 1, {"at": 7})
    assert two[1].fence([key], 2, 60_000) == {key: {"at": 7}}
