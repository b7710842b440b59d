"""Kills the exactly-once example again and again, and counts what it wrote."""

import random
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.clock import Deadline, SystemClock
from tests.examples.conftest import StartExample
from tests.examples.process import ExampleProcess


PATH = "examples/exactly_once.py"
PARTITIONS = 4
_PATIENCE_MS = 90_000


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedBroker]:
    """A broker of ours."""
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(params=["kafka", "embedded"])
def servers(request: pytest.FixtureRequest) -> str:
    """The address of a broker of each kind."""
    return str(request.getfixturevalue(request.param).bootstrap_servers)


def make_topics(servers: str, *names: str) -> None:
    """Creates topics with four partitions each."""
    admin = AdminClient({"bootstrap.servers": servers})
    topics = [NewTopic(name, PARTITIONS, 1) for name in names]
    for future in admin.create_topics(topics).values():
        future.result()


class Output:
    """The committed records of a topic, as far as they were read."""

    def __init__(self, servers: str, topic: str) -> None:
        self.values: defaultdict[int, list[bytes]] = defaultdict(list)
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "reads-output",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self._consumer.assign(
            [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)]
        )

    def __enter__(self) -> "Output":
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def read(self, timeout_s: float) -> int:
        """Reads on for so long at most; returns how many records there are by now."""
        for message in self._consumer.consume(10_000, timeout_s):
            partition, value = message.partition(), message.value()
            assert message.error() is None
            assert partition is not None
            assert value is not None
            self.values[partition].append(value)
        return sum(map(len, self.values.values()))


@pytest.mark.kafka
@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_any_point_the_output_is_exact(
    servers: str, group_id: str, start_example: StartExample, seed: int
) -> None:
    source, target = f"in-{group_id}", f"out-{group_id}"
    make_topics(servers, source, target)
    chance = random.Random(seed)
    producer = Producer({"bootstrap.servers": servers})
    written: defaultdict[int, list[bytes]] = defaultdict(list)

    def write(count: int) -> None:
        for _ in range(count):
            partition = chance.randrange(PARTITIONS)
            value = f"word {partition} {len(written[partition])}".encode()
            written[partition].append(value.upper())
            producer.produce(source, value, partition=partition)
        producer.flush()

    def start(name: str) -> ExampleProcess:
        process = start_example(
            *(PATH, "--bootstrap-servers", servers, "--name", f"{name}-{group_id}"),
            *("--source", source, "--target", target, "--session-timeout-ms", "2000"),
        )
        process.wait_for("^copies from")
        return process

    with ExitStack() as stack:
        output = stack.enter_context(Output(servers, target))
        workers = {name: start(name) for name in ("a", "b")}
        killed = 0
        while killed < 12:
            write(chance.randrange(1_000, 6_000))
            time.sleep(
                chance.random() * 1.2
            )  # a kill at any point, that of the first join included
            name = chance.choice(["a", "b"])
            workers[name].send(signal.SIGKILL)
            killed += 1
            workers[name] = start(name)
            output.read(0.05)
        # and one that comes back as a zombie, with a batch in its hands
        write(4_000)
        workers["a"].send(signal.SIGSTOP)
        time.sleep(3)
        write(1_000)
        workers["a"].send(signal.SIGCONT)
        total = sum(map(len, written.values()))
        deadline = Deadline(SystemClock(), _PATIENCE_MS)
        while output.read(0.5) < total and not deadline.expired:
            pass
        output.read(1.0)  # and nothing comes after that
    assert output.values == written
    for process in workers.values():
        assert process.end(signal.SIGTERM) == 0, process.printed
