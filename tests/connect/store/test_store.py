"""Holds every store to the contract of `ConnectStore`."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.connect.config import ConnectConfig
from groupsdk.connect.errors import StoreError, TaskFencedError
from groupsdk.connect.store.config_backing_store import (
    ClusterRequest,
    RestartRequest,
    connector_records,
    restart_record,
    task_records,
)
from groupsdk.connect.store.file_store import FileStore
from groupsdk.connect.store.kafka_store import KafkaStore
from groupsdk.connect.store.status_backing_store import State, Status, TopicUse
from groupsdk.connect.store.store import ConnectStore
from tests.connect.workers import eventually


OpenStore = Callable[[], ConnectStore]
KEY = ("a", "t0")


@pytest.fixture(params=["file", "embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def open_store(
    request: pytest.FixtureRequest, tmp_path: Path, group_id: str
) -> Iterator[OpenStore]:
    """Open the same store once more."""
    with ExitStack() as stack:
        servers = ""
        if request.param == "embedded":
            servers = stack.enter_context(EmbeddedBroker()).bootstrap_servers
        elif request.param == "kafka":
            servers = request.getfixturevalue("kafka").bootstrap_servers

        def opened() -> ConnectStore:
            store: ConnectStore
            if servers:
                config = ConnectConfig.of(
                    bootstrap_servers=servers,
                    group_id=group_id,
                    offset_storage_partitions=3,
                    status_storage_partitions=1,
                )
                store = KafkaStore(config)
            else:
                store = FileStore(tmp_path / "store.json")
            stack.callback(store.close)
            store.start()
            return store

        yield opened


def test_configurations_outlive_the_worker(open_store: OpenStore) -> None:
    store = open_store()
    assert store.configs().connectors == {}
    assert bool(store.cluster_id()) == (not isinstance(store, FileStore))
    store.claim()
    changes: list[int] = []
    store.on_change = lambda: changes.append(1)
    store.write_configs([*connector_records("a", {"k": "v"}), *task_records("a", [{}, {}])])
    written = store.configs()
    assert written.connectors == {"a": {"k": "v"}}
    eventually(lambda: changes)  # told by the thread that reads
    store.close()
    again = open_store()
    assert again.configs().connectors == written.connectors
    assert again.configs().task_ids("a") == written.task_ids("a")
    assert again.configs().offset == written.offset
    again.claim()
    again.write_configs(connector_records("a", None))
    assert again.configs().connectors == {}


def test_a_restart_is_asked_for_once_and_not_again_by_who_comes_later(
    open_store: OpenStore,
) -> None:
    store = open_store()
    store.claim()
    asked: list[ClusterRequest] = []
    store.on_request = asked.append
    store.write_configs([restart_record(RestartRequest("a", True))])
    eventually(lambda: asked == [RestartRequest("a", True)])
    store.close()
    later = open_store()
    later.on_request = asked.append
    later.read_configs(60_000)
    assert len(asked) == 1


def test_states_are_handed_from_owner_to_owner(open_store: OpenStore) -> None:
    store = open_store()
    assert store.fence([KEY], 3, 60_000) == {}
    store.commit(KEY, 3, {"n": 1})
    store.commit(KEY, 3, {"n": 2})
    assert store.fence([KEY, ("a", "t1")], 5, 60_000) == {KEY: {"n": 2}}
    assert store.last_token() == 5
    store.close()
    again = open_store()
    assert again.last_token() == 5
    assert again.fence([KEY], 6, 60_000) == {KEY: {"n": 2}}


def test_a_former_owner_commits_nothing_more(open_store: OpenStore) -> None:
    store = open_store()
    store.fence([KEY], 3, 60_000)
    store.commit(KEY, 3, {"n": 1})
    store.fence([KEY], 5, 60_000)
    with pytest.raises(TaskFencedError, match="taken over under 5, after 3"):
        store.commit(KEY, 3, {"n": 99})
    with pytest.raises(TaskFencedError, match="taken over under 5, after 4"):
        store.fence([KEY], 4, 60_000)
    assert store.fence([KEY], 5, 60_000) == {KEY: {"n": 1}}


def test_states_are_kept_without_waiting_in_the_order_of_the_calls(open_store: OpenStore) -> None:
    store = open_store()
    store.fence([KEY], 3, 60_000)
    futures = [store.begin_commit(KEY, 3, {"n": number}) for number in range(50)]
    for future in futures:
        future.result(60)
    assert store.state(KEY) == {"n": 49}
    with pytest.raises(StoreError, match="must be JSON-serializable"):
        store.begin_commit(KEY, 3, {"n": object()}).result(60)
    store.fence([KEY], 5, 60_000)
    with pytest.raises(TaskFencedError, match="taken over under 5, after 3"):
        store.begin_commit(KEY, 3, {"n": 99}).result(60)
    assert store.state(KEY) == {"n": 49}


def test_states_are_set_in_place_of_an_owner(open_store: OpenStore) -> None:
    store, other, new = open_store(), ("a", "t1"), ("a", "t2")
    store.fence([KEY, other, ("b", "t0")], 3, 60_000)
    store.commit(KEY, 3, {"n": 1})
    store.commit(other, 3, {"n": 1})
    store.commit(("b", "t0"), 3, {"n": 1})
    store.put_states({KEY: {"n": 7}, other: None, new: {"n": 8}}, 4, 60_000)
    assert store.states("a") == {"t0": {"n": 7}, "t2": {"n": 8}}
    with pytest.raises(TaskFencedError):
        store.commit(other, 3, {"n": 99})
    with pytest.raises(TaskFencedError):
        store.put_states({KEY: None}, 3, 60_000)
    store.close()
    again = open_store()
    assert again.states("a") == {"t0": {"n": 7}, "t2": {"n": 8}}
    assert again.fence([KEY, other, new], 5, 60_000) == {KEY: {"n": 7}, new: {"n": 8}}
    assert again.state(other) is None
    assert again.states("b") == {"t0": {"n": 1}}


def test_a_state_that_json_cannot_carry_is_refused(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    store.fence([KEY], 3, 60_000)
    with pytest.raises(StoreError, match="must be JSON-serializable"):
        store.commit(KEY, 3, {"n": object()})


def test_topics_that_connectors_use_are_kept_and_forgotten(open_store: OpenStore) -> None:
    store = open_store()
    for topic in ("b", "a"):
        store.put_topic(TopicUse(topic, "c", 0, 1))
    store.put_topic(TopicUse("a", "other", 0, 1))
    eventually(lambda: list(store.topics("c")) == ["a", "b"])
    eventually(lambda: store.topics("other"))
    store.forget_topics("c")
    eventually(lambda: not store.topics("c"))
    assert list(store.topics("other")) == ["a"]
    # they are no statuses
    assert store.statuses() == {}


def test_the_last_status_is_told(open_store: OpenStore) -> None:
    store = open_store()
    store.put_status("status-task-a-0", Status(State.RUNNING, "w1", 4))
    eventually(lambda: store.statuses().get("status-task-a-0"))
    store.put_status("status-task-a-0", Status(State.PAUSED, "w1", 4))
    eventually(lambda: store.statuses()["status-task-a-0"].state is State.PAUSED)
    store.put_status("status-task-a-0", None)
    eventually(lambda: not store.statuses())
