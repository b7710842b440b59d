"""Holds reading topics to their ends."""

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from re import search
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from pytest_mock import MockerFixture

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.connect.errors import StoreError
from groupsdk.connect.store.kafka_log import KafkaLog
from groupsdk.error_code import ErrorCode
from groupsdk.settings import librdkafka
from tests.conftest import StartKafka
from tests.connect.workers import eventually
from tests.support.brokers import STEADY


Seen = list[tuple[str, bytes, bytes | None]]


def log_of(servers: str, seen: Seen, **topics: int) -> KafkaLog:
    """A log that keeps what it reads."""
    return KafkaLog(
        {"bootstrap.servers": servers},
        topics,
        {},
        lambda topic, _, key, value, __: seen.append((topic, key, value)),
        lambda: None,
    )


@contextmanager
def reading(**topics: int) -> Iterator[tuple[EmbeddedBroker, KafkaLog, Seen]]:
    """A log that reads from a broker of its own."""
    with EmbeddedBroker() as broker:
        seen: Seen = []
        log = log_of(broker.bootstrap_servers, seen, **topics)
        log.start()
        yield broker, log, seen
        log.close()


def write(servers: str, topic: str, *keys: str, abort: bool = False) -> None:
    """Write records, in a transaction that may be aborted, and return when that can be read.

    Kafka answers that a transaction has ended before its markers are written. Until then its records lie behind the
    end that consumers of committed records are told.
    """
    settings = {"bootstrap.servers": servers, "transactional.id": topic}
    producer = Producer(settings)
    producer.init_transactions(60)
    producer.begin_transaction()
    for key in keys:
        producer.produce(topic, key=key, value=b"v")
    producer.flush(60)
    if abort:
        producer.abort_transaction(60)
    else:
        producer.commit_transaction(60)
    # the next producer of the same name waits for the markers
    Producer(settings).init_transactions(60)


def test_topics_are_made_and_read_past_what_was_aborted(servers: str, group_id: str) -> None:
    seen: Seen = []
    log = log_of(servers, seen, **{group_id: 2, f"{group_id}-other": 1})
    log.start()
    try:
        assert log.partitions == {group_id: 2, f"{group_id}-other": 1}
        write(servers, group_id, "a", "b")
        write(servers, group_id, "never", abort=True)
        log.read_to_end([group_id], 60_000)
        assert sorted(key for _, key, _ in seen) == [b"a", b"b"]
    finally:
        log.close()
    again: Seen = []
    later = log_of(servers, again, **{group_id: 5})
    later.start()
    later.close()
    # it was there: with the partitions that it has
    assert later.partitions == {group_id: 2}
    assert sorted(again) == sorted(seen)


def test_brokers_without_a_default_number_of_copies_say_what_to_set() -> None:
    refused: Future[None] = Future()
    refused.set_exception(KafkaException(KafkaError(KafkaError._UNSUPPORTED_FEATURE)))
    admin = SimpleNamespace(
        list_topics=lambda **_: SimpleNamespace(topics={}, cluster_id="c"),
        create_topics=lambda *_, **__: {"t": refused},
    )
    log = KafkaLog({}, {"t": 1}, {}, lambda *_: None, lambda: None)
    with pytest.raises(StoreError, match=r"before Kafka 2\.4 .* set storage\.replication\.factor"):
        log._create(cast("Any", admin), cast("Any", None))


def test_a_topic_that_forgets_is_refused() -> None:
    with EmbeddedBroker(topics=["t"]) as broker:
        log = log_of(broker.bootstrap_servers, [], t=1)
        with pytest.raises(StoreError, match=r"topic t has cleanup\.policy=delete"):
            log.start()
        log.close()


def test_a_broker_that_is_gone_is_said_in_time() -> None:
    with EmbeddedBroker() as broker:
        log = log_of(broker.bootstrap_servers, [], t=1)
        log.start()
    with pytest.raises(StoreError, match="the ends of t"):
        log.read_to_end(["t"], 1)
    with suppress(StoreError):
        log.close()


class Broken:
    """A consumer of which librdkafka says that it is of no use any more."""

    def consume(self, *_: object) -> list[Message]:
        raise KafkaException(KafkaError(KafkaError._FATAL))

    def close(self) -> None:
        raise RuntimeError("it is closed already")


def test_reading_begins_anew_where_it_was_after_an_error() -> None:
    with reading(t=2) as (broker, log, seen):
        write(broker.bootstrap_servers, "t", *"abcd")
        log.read_to_end(["t"], 60_000)
        log._consumer = cast("Any", Broken())
        write(broker.bootstrap_servers, "t", "e")
        log.read_to_end(["t"], 60_000)
        # each once
        assert sorted(key for _, key, _ in seen) == [b"a", b"b", b"c", b"d", b"e"]
        eventually(lambda: not log.failed)


def test_clients_that_know_no_broker_any_more_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """As librdkafka leaves them where a node that shuts down has listed none: without an error, for ever."""
    monkeypatch.setattr(librdkafka, "_WATCH_MS", 50)
    with reading(t=2) as (broker, log, seen):
        given, log._settings = log._settings, {}
        lost = log._consumer, log._admin = log._opened(), log._connected()
        log._settings = given
        eventually(lambda: log._consumer not in lost and log._admin not in lost)
        write(broker.bootstrap_servers, "t", "a")
        log.read_to_end(["t"], 60_000)
        assert seen == [("t", b"a", b"v")]


def test_a_topic_that_may_not_be_read_is_said_and_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "groupsdk.connect.store.kafka_log")
    with reading(t=1, other=1) as (broker, log, seen):
        assert log.failing_ms("t") == 0
        refused = broker.faults.answer("Fetch", ErrorCode.TOPIC_AUTHORIZATION_FAILED, times=None)
        eventually(lambda: log.failing_ms("t"))
        # each line names what cannot be read by then: librdkafka may tell of the other topic first, or in the same batch
        eventually(
            lambda: any(
                search(r"cannot read (other, )?t \(attempt \d", each) for each in caplog.messages
            )
        )
        eventually(lambda: refused.hits > 3)
        write(broker.bootstrap_servers, "t", "a")
        with pytest.raises(StoreError, match=r"not read within 300 ms .* authorization failed"):
            log.read_to_end(["t"], 300)
        # not for ever, and not all the time
        assert refused.hits < 200
        broker.faults.clear()
        log.read_to_end(["t"], 60_000)
        eventually(lambda: not log.failed)
        assert (log.failing_ms("t"), seen) == (0, [("t", b"a", b"v")])
    assert "reading t again" in caplog.messages


def test_waiter_for_a_record_is_told_when_it_is_read_or_cannot_be(
    mocker: MockerFixture,
) -> None:
    with reading(t=1) as (broker, log, _):
        told: list[tuple[int, str | None]] = []
        # transactions end with a record of their own, which is not handed on
        for offset in (2, 0, 4):
            log.when_read("t", 0, offset, lambda why, offset=offset: told.append((offset, why)))  # type: ignore[misc]
        write(broker.bootstrap_servers, "t", "a", "b", "c")
        eventually(lambda: told == [(0, None), (2, None)], lambda: told)
        # at once
        log.when_read("t", 0, 1, lambda why: told.append((1, why)))
        assert told[2:] == [(1, None)]
        mocker.patch("groupsdk.connect.store.kafka_log._GIVE_UP_MS", 100)
        mocker.patch.object(
            log, "_read_on", side_effect=KafkaException(KafkaError(KafkaError._FATAL))
        )
        eventually(lambda: told[3:] == [(4, "Local: Fatal error")], lambda: told)


class Unsure:
    """An admin client whose first answers name no offset, as librdkafka's do where a broker went away."""

    def __init__(self, *ends: int) -> None:
        self._ends = list(ends)

    def list_offsets(self, asked: dict[Any, Any], **_: object) -> dict[Any, Future[Any]]:
        future: Future[Any] = Future()
        future.set_result(SimpleNamespace(offset=self._ends.pop(0)))
        return dict.fromkeys(asked, future)

    def list_topics(self, *_: object, **__: object) -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))


def test_an_end_that_is_not_known_is_asked_for_again() -> None:
    with reading(t=1) as (_, log, _):
        log._admin = cast("Any", Unsure(-1, 0))
        log.read_to_end(["t"], 60_000)
        log._admin = cast("Any", Unsure(-1))
        with pytest.raises(StoreError, match="the ends of t: no answer for t-0"):
            log.read_to_end(["t"], 0)


def test_ends_are_known_again_after_each_restart_of_the_broker(
    own_kafka: StartKafka, group_id: str
) -> None:
    """A restart raises the leader epochs, of which librdkafka's `list_offsets` keeps the old one."""
    kafka = own_kafka(properties=STEADY)
    seen: Seen = []
    log = log_of(kafka.bootstrap_servers, seen, **{group_id: 2})
    log.start()
    for key in ("a", "b", "c"):
        write(kafka.bootstrap_servers, group_id, key)
        log.read_to_end([group_id], 60_000)
        if key != "c":
            kafka.restart()
    assert sorted(key for _, key, _ in seen) == [b"a", b"b", b"c"]
    log.close()
