"""Holds what workers of one process share, until the last one ends, and that late writes of former owners count nowhere."""

import logging
import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from random import Random

import pytest
from confluent_kafka import Producer
from hypothesis import given, strategies as st

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.clock import SystemClock
from groupsdk.connect.config import ConnectConfig
from groupsdk.connect.errors import StoreError
from groupsdk.connect.store.config_backing_store import (
    ClusterRequest,
    RestartRequest,
    connector_records,
    restart_record,
)
from groupsdk.connect.store.kafka_state import FORGET, KafkaState, StateLog, state_key, state_value
from groupsdk.connect.store.kafka_store import KafkaStore
from groupsdk.connect.tasks.task import TaskState
from groupsdk.settings import librdkafka
from tests.connect.workers import eventually
from tests.support.cases import each_case


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as started:
        yield started


def config(broker: EmbeddedBroker, **more: object) -> ConnectConfig:
    given = {"group_id": "g", "offset_storage_partitions": 1, "status_storage_partitions": 1}
    return ConnectConfig.of(bootstrap_servers=broker.bootstrap_servers, **{**given, **more})


def readers() -> set[threading.Thread]:
    """The threads that read topics; those of other tests may end a little later than these."""
    return {each for each in threading.enumerate() if each.name == "groupsdk-store"}


def test_many_workers_have_one_reader_and_the_last_one_ends_it(broker: EmbeddedBroker) -> None:
    before = readers()
    stores = [KafkaStore(config(broker)) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(KafkaStore.start, stores))
    assert len(readers() - before) == 1
    assert len({id(store._state) for store in stores}) == 1
    stores[0].claim()
    stores[0].write_configs(connector_records("a", {"k": "v"}))
    assert all(store.configs().connectors == {"a": {"k": "v"}} for store in stores)
    for store in stores[:-1]:
        store.close()
        store.close()
    # the last one goes on, and writes
    stores[-1].fence([("a", "t")], 1, 60_000)
    stores[-1].commit(("a", "t"), 1, {"n": 1})
    assert len(readers() - before) == 1
    stores[-1].close()
    eventually(lambda: not readers() - before)


def test_each_is_told_of_changes_until_it_ends(broker: EmbeddedBroker) -> None:
    stores = [KafkaStore(config(broker)) for _ in range(2)]
    told: list[tuple[int, ClusterRequest | None]] = []
    with ExitStack() as stack:
        for number, store in enumerate(stores):
            store.on_change = lambda number=number: told.append((number, None))  # type: ignore[misc]  # bound now
            store.on_request = lambda request, number=number: told.append((number, request))  # type: ignore[misc]  # bound now
            stack.callback(store.close)
            store.start()
        stores[0].claim()
        stores[0].write_configs([*connector_records("a", {}), restart_record(RestartRequest("a"))])
        eventually(lambda: {each for each, request in told if request} == {0, 1}, lambda: told)
        assert {each for each, request in told if not request} == {0, 1}
        stores[1].close()
        told.clear()
        stores[0].write_configs(connector_records("b", {}))
        eventually(lambda: told)
        assert {each for each, _ in told} == {0}


def test_a_producer_that_knows_no_broker_any_more_is_replaced(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(librdkafka, "_WATCH_MS", 50)
    store = KafkaStore(config(broker))
    store.start()
    state = store._state
    state.producer = lost = Producer(
        {"logger": logging.getLogger(), **state._producer_watch.settings()}
    )
    # what it was given meanwhile is not waited for
    failed = store.begin_commit(("a", "t"), 1, {"n": 1}).exception(60)
    assert isinstance(failed, StoreError)
    eventually(lambda: state.producer is not lost)
    store.commit(("a", "t"), 1, {"n": 2})
    assert store.state(("a", "t")) == {"n": 2}
    store.close()


def test_stores_with_different_settings_are_not_shared(broker: EmbeddedBroker) -> None:
    one = KafkaState(config(broker), SystemClock())
    assert one.identity == KafkaState(config(broker), SystemClock()).identity
    for other in (
        {"group_id": "h"},
        {"client_id": "c"},
        {"offset_storage_partitions": 2},
        {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "u"}
        | {"sasl_password": "p"},
    ):
        assert one.identity != KafkaState(config(broker, **other), SystemClock()).identity


def test_one_that_could_not_be_read_is_of_no_use_to_others(broker: EmbeddedBroker) -> None:
    broker.create_topic("g-connect-configs", 2, config={"cleanup.policy": "compact"})
    stores = [KafkaStore(config(broker)) for _ in range(2)]
    for store in stores:
        with pytest.raises(StoreError, match="must have one partition"):
            store.start()
        store.close()
    assert stores[0]._state is not stores[1]._state


def test_a_process_that_was_forked_reads_for_itself(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        stores = [KafkaStore(config(broker))]
        stores[0].start()
        stack.callback(stores[0].close)
        monkeypatch.setattr(os, "getpid", lambda: -1)
        stores.append(KafkaStore(config(broker)))
        stores[1].start()
        stack.callback(stores[1].close)
        assert stores[0]._state is not stores[1]._state


def test_no_record_ends_the_reading() -> None:
    settings = ConnectConfig.of(bootstrap_servers="127.0.0.1:1", group_id="g")
    state = KafkaState(settings, SystemClock())
    # as deep as can be read, and deeper
    for depth in range(sys.getrecursionlimit() - 200, sys.getrecursionlimit()):
        nested = b"[" * depth + b"]" * depth
        for topic, key, value in (
            ("configs", b"connector-c", b'{"properties": {"a": %s}}'),
            ("configs", b"target-state-c", b'{"state": %s}'),
            ("status", b"status-connector-c", b'{"state": "FAILED", "generation": 1, "trace": %s}'),
            ("status", b"groupsdk-standbys", b'{"generation": 1, "members": [%s], "tasks": {}}'),
            ("offsets", b'["c", {"task": "t", "generation": 1}]', b'{"state": %s}'),
        ):
            state._take(f"g-connect-{topic}", 0, key, value % nested, depth)
    state._take("g-connect-configs", 0, b"connector-d", b'{"properties": {}}', 9_999)
    assert "d" in state.configs.snapshot().connectors


def test_a_worker_that_cannot_be_told_keeps_nothing_from_others() -> None:
    settings = ConnectConfig.of(bootstrap_servers="127.0.0.1:1", group_id="g")
    state = KafkaState(settings, SystemClock())
    told: list[ClusterRequest | None] = []

    def fail(*_: object) -> None:
        raise RuntimeError("the worker has ended")

    state.listen("one", fail, fail)
    state.listen("two", lambda: told.append(None), told.append)
    for key, value in ((b"connector-c", b'{"properties": {}}'), (b"restart-connector-c", b"{}")):
        state._take("g-connect-configs", 0, key, value, 1)
    state._tell()
    assert told == [None, RestartRequest("c")]


KEY = ("crawler", "site-1")
LogRecord = tuple[int, TaskState | None, bool]
"""A token, a state or None for a fence, and whether the record is a deletion."""


def read(records: list[LogRecord]) -> StateLog:
    log = StateLog()
    for token, state, deleted in records:
        log.apply(state_key(KEY, token), None if deleted else state_value(state))
    return log


def compacted(records: list[LogRecord]) -> list[LogRecord]:
    """Keep the last record of each token."""
    last = {token: place for place, (token, _, _) in enumerate(records)}
    return [each for place, each in enumerate(records) if last[each[0]] == place]


def test_the_last_state_counts() -> None:
    assert read([(3, None, False), (3, {"n": 1}, False), (3, {"n": 2}, False)]).get(KEY) == (
        3,
        {"n": 2},
    )
    assert StateLog().get(KEY) == (-1, None)


def test_forgotten_state_is_gone_and_a_late_write_is_void() -> None:
    log = read([(3, {"n": 1}, False), (4, None, False)])
    assert log.of("crawler") == {"site-1": {"n": 1}}
    log.apply(state_key(KEY, 4), FORGET)
    log.apply(state_key(KEY, 3), state_value({"late": True}))
    assert log.get(KEY) == (4, None)
    assert log.of("crawler") == {}
    log.apply(state_key(KEY, 5), state_value(None))
    assert log.get(KEY) == (5, None)


def test_a_new_owner_takes_the_state_over_and_what_comes_late_is_void() -> None:
    log = read([(3, {"n": 1}, False), (5, None, False), (3, {"n": 99}, False)])
    assert log.get(KEY) == (5, {"n": 1})
    assert log.outdated(KEY) == [3]
    assert log.last_token == 5


def test_deleted_records_take_nothing_away() -> None:
    log = read([(3, {"n": 1}, False), (5, None, False), (5, {"n": 1}, False), (3, None, True)])
    assert log.get(KEY) == (5, {"n": 1})
    assert log.outdated(KEY) == []


@each_case("seed", range(200))
def test_owners_that_overlap_lose_nothing_that_was_acknowledged_in_time(seed: int) -> None:
    chance = Random(seed)
    records: list[LogRecord] = []
    expected: TaskState | None = None
    token = 0
    for _ in range(6):
        token += chance.randint(1, 3)
        records.append((token, None, False))
        # the new owner writes the state under its own token, then deletes the former owners' records
        log = read(compacted(records) if chance.random() < 0.5 else records)
        assert log.get(KEY) == (token, expected)
        if expected is not None:
            records.append((token, expected, False))
            records += [(old, None, True) for old in log.outdated(KEY)]
        for _ in range(chance.randint(0, 3)):
            expected = {"n": chance.random()}
            records.append((token, expected, False))
            if chance.random() < 0.5 and token > 1:
                # a former owner that was paused
                records.append((chance.randint(0, token - 1), {"late": True}, False))
    assert read(records).get(KEY) == (token, expected)
    if expected is not None:
        assert read(compacted(records)).get(KEY) == (token, expected)


@given(st.binary(max_size=40), st.none() | st.binary(max_size=40))
def test_state_records_of_other_programs_are_ignored(key: bytes, value: bytes | None) -> None:
    log = StateLog()
    log.apply(key, value)
    assert log.last_token == -1


@pytest.mark.parametrize(
    "key",
    [b'["a",{"task":"t","generation":-1}]', b'["a",{"task":"t","generation":true}]', b"[1,2]"],
)
def test_tokens_out_of_bounds_are_passed_over(key: bytes) -> None:
    log = StateLog()
    log.apply(key, state_value({"n": 1}))
    assert log.last_token == -1


def test_state_that_json_cannot_carry_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        state_value({"n": float("nan")})
