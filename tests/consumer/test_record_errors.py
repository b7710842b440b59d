"""Test what becomes of records that a handler cannot process: retries, skips, dead letters."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from groupsdk.consumer.record_errors import (
    DeadLetterError,
    DeadLetterProducer,
    RecordErrorPolicy,
    RecordErrors,
    dead_letter,
)
from groupsdk.dead_letters import ErrantRecord
from groupsdk.errors import ConfigError
from groupsdk.settings.backoff import ExponentialBackoff
from tests.support.topics import create_topic


def record(offset: int = 7, partition: int = 0) -> Any:
    """A record that a handler cannot process."""
    return ErrantRecord(b"key", b"value", (("h", b"1"),), "orders", partition, offset)


def errors(action: Any, retries: int = 0, **others: Any) -> RecordErrors:
    policy = RecordErrorPolicy(action, retries, ExponentialBackoff(100, 1_000))
    return RecordErrors(policy, group_id="g", handler="m:handle", random=Random(1), **others)


def test_retries_are_counted_for_each_record_and_their_delays_grow() -> None:
    found = errors("stop", retries=3)
    delays = [found(record(), ValueError("no")) for _ in range(3)]
    assert all(isinstance(each, float) and 0 < each <= 1.3 for each in delays)
    assert delays[2] > delays[0]
    other = found(record(partition=1), ValueError("no"))
    assert isinstance(other, float)
    assert found(record(), ValueError("no")) is False
    assert isinstance(found(record(8), ValueError("no")), float), "the next one has its own"


def test_a_record_that_is_skipped_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    assert errors("skip")(record(), ValueError("no")) is True
    assert (
        "handling topic=orders partition=0 offset=7 key=b'key' failed at attempt 1, " in caplog.text
    )


def test_a_dead_letter_that_cannot_be_written_ends_the_run() -> None:
    def refuse(letter: ErrantRecord) -> None:
        raise TimeoutError("too late")

    with pytest.raises(DeadLetterError, match=r"offset=7 could not be processed, nor .* too late"):
        errors("dead-letter", write=refuse)(record(), ValueError("no"))


def test_wrong_policies_are_refused() -> None:
    with pytest.raises(ConfigError, match="retries must not be negative, but is -1"):
        RecordErrorPolicy(retries=-1)
    wrong: Any = "ignore"
    with pytest.raises(ConfigError, match="must be stop, skip or dead-letter, not 'ignore'"):
        RecordErrorPolicy(wrong)
    with pytest.raises(ConfigError, match="--dead-letter-topic"):
        errors("dead-letter")


@pytest.fixture
def letters(servers: str, group_id: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
        }
    )
    yield consumer
    consumer.close()


def test_a_dead_letter_has_the_record_and_kafka_connects_headers(
    servers: str, group_id: str, letters: Consumer
) -> None:
    topic = f"{group_id}-dead"
    write = DeadLetterProducer({"bootstrap.servers": servers}, topic)
    DeadLetterProducer({"bootstrap.servers": servers}, topic)  # it is there
    assert errors("dead-letter", write=write)(record(), ValueError("cannot")) is True
    letters.subscribe([topic])
    (message,) = letters.consume(1, 60)
    assert (message.key(), message.value()) == (b"key", b"value")
    headers = dict(message.headers() or [])
    trace = headers.pop("__connect.errors.exception.stacktrace")
    assert trace is not None
    assert b"ValueError: cannot" in trace
    assert headers == {
        "h": b"1",
        "__connect.errors.topic": b"orders",
        "__connect.errors.partition": b"0",
        "__connect.errors.offset": b"7",
        "__connect.errors.connector.name": b"g",
        "__connect.errors.task.id": b"0",
        "__connect.errors.stage": b"TASK_PUT",
        "__connect.errors.class.name": b"m:handle",
        "__connect.errors.exception.class.name": b"builtins.ValueError",
        "__connect.errors.exception.message": b"cannot",
    }


def test_a_dead_letter_can_be_part_of_a_transaction(
    servers: str, group_id: str, letters: Consumer
) -> None:
    topic = f"{group_id}-dead"
    create_topic(servers, topic)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": group_id})
    producer.init_transactions(60)
    for commit in (False, True):
        letter = dead_letter(record(), ValueError("no"), group_id=group_id, handler="m:handle")
        producer.begin_transaction()
        producer.produce(topic, letter.value, letter.key, headers=list(letter.headers))
        if commit:
            producer.commit_transaction(60)
        else:
            producer.flush(60)
            producer.abort_transaction(60)
    letters.subscribe([topic])
    found = letters.consume(1, 60)
    assert [each.value() for each in found] == [b"value"]
    assert letters.consume(1, 1) == [], "the aborted one is there, too"
