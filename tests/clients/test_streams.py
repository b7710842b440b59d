"""Run Kafka Streams on the embedded broker: two instances of an exactly-once word count, one of which is killed."""

import os
import signal
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from groupsdk.broker.embedded import EmbeddedBroker
from tests.support.java import JavaProgram
from tests.support.workers import eventually


_SOURCE: Final = Path(__file__).parent / "java" / "WordCount.java"
_JARS: Final = ("org.apache.kafka:kafka-streams:4.3.1",)
_WORDS: Final = [f"word{number}" for number in range(10)]
_PARTITIONS: Final = 4
_TASKS: Final = 2 * _PARTITIONS  # what splits lines, and what counts words
_PATIENCE_S: Final = 60.0


class Lines:
    """Writes lines of words, and knows how often each word has been written."""

    def __init__(self, broker: EmbeddedBroker, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        self._topic = topic
        self.words: Counter[str] = Counter()

    def write(self, count: int) -> None:
        """Writes lines to all partitions."""
        for number in range(count):
            words = [_WORDS[number % 10], _WORDS[number % 7], _WORDS[number % 3]]
            self._producer.produce(self._topic, " ".join(words), partition=number % _PARTITIONS)
            self.words.update(words)
        assert self._producer.flush(60) == 0


def counts(broker: EmbeddedBroker, topic: str, expected: int) -> dict[str, list[int]]:
    """Reads what is committed until there are so many counts, and groups them by word."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": f"reads-{topic}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    found: defaultdict[str, list[int]] = defaultdict(list)
    seen = 0

    def enough() -> bool:
        nonlocal seen
        for message in consumer.consume(500, 0.2):
            key, value = message.key(), message.value()
            assert key is not None
            assert value is not None
            found[key.decode()].append(int(value))
            seen += 1
        return seen >= expected

    try:
        eventually(enough, lambda: f"{seen} of {expected} counts", _PATIENCE_S)
    finally:
        consumer.close()
    return found


@pytest.mark.timeout(150)
def test_words_are_counted_exactly_once_over_a_kill(
    kafka_installed: None, broker: EmbeddedBroker, group_id: str, tmp_path: Path
) -> None:
    source, target = f"{group_id}-lines", f"{group_id}-counts"
    broker.create_topic(source, _PARTITIONS)
    broker.create_topic(target, _PARTITIONS)
    lines = Lines(broker, source)
    lines.write(400)

    def instance(name: str) -> JavaProgram:
        arguments = [broker.bootstrap_servers, group_id, str(tmp_path / name), source, target]
        return JavaProgram(_SOURCE, _JARS, arguments=arguments)

    with instance("second") as second:
        with instance("first") as first:
            half = f"RUNNING {_TASKS // 2}"
            eventually(
                lambda: {each.ask("state") for each in (first, second)} == {half},
                lambda: [each.ask("state") for each in (first, second)],
                _PATIENCE_S,
            )
            lines.write(2_000)
            os.kill(first.pid, signal.SIGKILL)
        lines.write(400)
        found = counts(broker, target, lines.words.total())
        eventually(lambda: second.ask("state") == f"RUNNING {_TASKS}", lambda: second.ask("state"))
        assert second.ask("words") == str(len(_WORDS))
        assert second.ask("close") == "true"
    # a count that was made twice would be there twice, and one that was lost would be missing
    assert found == {word: list(range(1, count + 1)) for word, count in lines.words.items()}
    topics = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=60)
    assert {f"{group_id}-words-repartition", f"{group_id}-counts-changelog"} <= set(topics.topics)
