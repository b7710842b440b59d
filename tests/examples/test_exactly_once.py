"""Does to the exactly-once example what happens to processes and brokers, and holds what it wrote to what it read."""

import random
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from groupsdk.clock import Deadline, SystemClock
from groupsdk.testing import LocalKafka
from tests.examples.conftest import StartExample
from tests.examples.process import ExampleProcess
from tests.support.topics import create_topic
from tests.survival.processes import BrokerProcess


PATH = "examples/exactly_once.py"
PARTITIONS = 4
NAMES = ("a", "b")
_PATIENCE_MS = 120_000
_RESTART_ME = 75
_RETRY_S = 0.1

GROUPS = {
    "eager": ("--assignor", "range"),
    "cooperative": ("--assignor", "cooperative-sticky"),
    "static": ("--assignor", "range", "--static"),
}


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker to copy on.

    Attributes:
        servers: where it listens.
        crash: kills it and starts it again; None: other tests need it.
    """

    servers: str
    crash: Callable[[], None] | None


@contextmanager
def embedded(directory: Path) -> Iterator[Broker]:
    """Ours, in a process of its own."""
    with ExitStack() as stack:

        def start(*options: str) -> BrokerProcess:
            settings = {
                "group.min.session.timeout.ms": 1_000,
                "group.initial.rebalance.delay.ms": 0,
            }
            return stack.enter_context(
                BrokerProcess(
                    directory, settings=settings, options=["--log-level", "info", *options]
                )
            )

        running = [start()]
        servers = running[0].bootstrap_servers

        def crash() -> None:
            running.pop().kill()
            running.append(start("--listen", servers))

        yield Broker(servers, crash)


@contextmanager
def own_kafka() -> Iterator[Broker]:
    """Apache Kafka, for one test."""
    with LocalKafka() as kafka:

        def crash() -> None:
            kafka.kill()
            kafka.start()

        yield Broker(kafka.bootstrap_servers, crash)


@pytest.fixture
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """The broker that the test's parameter names."""
    if request.param == "kafka":
        yield Broker(request.getfixturevalue("kafka").bootstrap_servers, None)
    else:
        request.getfixturevalue("kafka_installed")
        with own_kafka() if request.param == "own-kafka" else embedded(tmp_path) as broker:
            yield broker


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
                "log_level": 0,
            }
        )
        self._consumer.assign(
            [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)]
        )

    def close(self) -> None:
        self._consumer.close()

    def read(self, timeout_s: float) -> int:
        """Read on for so long at most; return how many records there are by now."""
        for message in self._consumer.consume(10_000, timeout_s):
            partition, value = message.partition(), message.value()
            if message.error() is None and partition is not None and value is not None:
                self.values[partition].append(value)
        return sum(map(len, self.values.values()))


class Chaos:
    """Processes that copy, records for them, and all that can happen to both."""

    def __init__(
        self,
        broker: Broker,
        group_id: str,
        options: tuple[str, ...],
        start_example: StartExample,
        seed: int,
    ) -> None:
        self.chance = random.Random(seed)
        self.written: defaultdict[int, list[bytes]] = defaultdict(list)
        self._broker = broker
        self._group_id = group_id
        self._source, self._target = f"in-{group_id}", f"out-{group_id}"
        self._options = options
        self._start_example = start_example
        for name in (self._source, self._target):
            create_topic(broker.servers, name, PARTITIONS)
        self._producer = Producer(
            {"bootstrap.servers": broker.servers, "enable.idempotence": True, "log_level": 0}
        )
        self.output = Output(broker.servers, self._target)
        self.running = {name: self._start(name) for name in NAMES}

    def _start(self, name: str) -> ExampleProcess:
        process = self._start_example(
            *(PATH, "--bootstrap-servers", self._broker.servers, *self._options),
            *("--name", f"{name}-{self._group_id}", "--transaction-timeout-ms", "3000"),
            *("--source", self._source, "--target", self._target, "--session-timeout-ms", "2000"),
        )
        process.wait_for("^copies from")
        return process

    def _any(self) -> str:
        return self.chance.choice(NAMES)

    def supervise(self) -> None:
        """Start what has ended again, as what runs it would."""
        for name, process in self.running.items():
            status = process.status()
            if status is not None:
                assert status == _RESTART_ME, process.lines
                self.running[name] = self._start(name)

    def write(self, count: int) -> None:
        for _ in range(count):
            partition = self.chance.randrange(PARTITIONS)
            value = f"word {partition} {len(self.written[partition])}".encode()
            self.written[partition].append(value.upper())
            self._producer.produce(self._source, value, partition=partition)
            self._producer.poll(0)
        self._producer.flush()

    def work(self, count: int | None = None) -> None:
        """Wait until so many more records have come out; None: all."""
        total = sum(map(len, self.written.values()))
        wanted = total if count is None else min(total, self.output.read(0) + count)
        deadline = Deadline(SystemClock(), _PATIENCE_MS)
        while (came := self.output.read(_RETRY_S)) < wanted:
            assert not deadline.expired, (
                f"{came} of {wanted} came: {[process.lines[-9:] for process in self.running.values()]}"
            )
            self.supervise()

    def kill(self) -> None:
        """Kill a process in the middle of its work, and start it again."""
        self.write(self.chance.randrange(2_000, 6_000))
        self.work(self.chance.randrange(1, 1_500))
        name = self._any()
        self.running[name].send(signal.SIGKILL)
        self.running[name].end()
        self.running[name] = self._start(name)

    def kill_while_joining(self) -> None:
        """Kill a process that has just begun."""
        name = self._any()
        for _ in range(2):
            self.running[name].send(signal.SIGKILL)
            self.running[name].end()
            self.running[name] = self._start(name)

    def restart_all(self) -> None:
        """Restart each in turn, as a new release would."""
        for name in NAMES:
            self.write(2_000)
            self.work(500)
            self.supervise()
            _end(self.running[name])
            self.running[name] = self._start(name)

    def zombie(self) -> None:
        """Stop a process with records in its hands until the other one has done all the work; then let it go on."""
        self.write(4_000)
        self.work(200)
        name = self._any()
        self.running[name].send(signal.SIGSTOP)
        try:
            self.work()
        finally:
            self.running[name].send(signal.SIGCONT)
        self.write(1_000)

    def nap(self) -> None:
        """Stop a process for less than its session, more or less."""
        self.write(2_000)
        self.work(200)
        name = self._any()
        self.running[name].send(signal.SIGSTOP)
        time.sleep(self.chance.random() * 2.5)  # nothing shows how far the others are
        self.running[name].send(signal.SIGCONT)

    def crash(self) -> None:
        """Kill the broker in the middle of their work."""
        self.write(4_000)
        self.work(200)
        assert self._broker.crash is not None
        self._broker.crash()

    def check(self) -> None:
        """Let them finish, and hold what came out to what went in; then end them."""
        self.work()
        self.output.read(1.0)  # and nothing comes after that
        assert self.output.values == self.written
        for process in self.running.values():
            _end(process)
        self.output.close()


def _end(process: ExampleProcess) -> None:
    """End a process, which may be fenced at any moment, for example for its sleep or its restart."""
    status = process.end(signal.SIGTERM)
    was_fenced = any("start me again" in line for line in process.lines)
    # -15: the signal met it as its interpreter ended after that
    allowed = (_RESTART_ME, -signal.SIGTERM) if was_fenced else (0, _RESTART_ME)
    assert status in allowed, (status, process.lines)


@pytest.mark.kafka
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("broker", "group"), [("kafka", "eager")], indirect=["broker"])
def test_killed_and_stopped_processes_write_each_record_once(
    broker: Broker, group: str, group_id: str, start_example: StartExample
) -> None:
    chaos = Chaos(broker, group_id, GROUPS[group], start_example, seed=1)
    for _ in range(3):
        chaos.kill()
    chaos.kill_while_joining()
    chaos.zombie()
    chaos.restart_all()
    chaos.check()


@pytest.mark.kafka
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("broker", "group"), [("embedded", "cooperative"), ("embedded", "static")], indirect=["broker"]
)
def test_a_killed_broker_and_killed_processes_leave_each_record_once(
    broker: Broker, group: str, group_id: str, start_example: StartExample
) -> None:
    chaos = Chaos(broker, group_id, GROUPS[group], start_example, seed=2)
    chaos.kill()
    chaos.crash()
    chaos.zombie()
    chaos.check()


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("broker", ["own-kafka", "embedded"], indirect=True)
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_happens_each_record_is_written_once(
    broker: Broker, group: str, group_id: str, start_example: StartExample, seed: int
) -> None:
    chaos = Chaos(broker, group_id, GROUPS[group], start_example, seed)
    events = [chaos.kill] * 8 + [chaos.nap] * 3 + [chaos.crash] * 2 + [chaos.restart_all] * 2
    events += [chaos.zombie] * 2 + [chaos.kill_while_joining] * 2
    chaos.chance.shuffle(events)
    for event in events:
        chaos.supervise()
        event()
    chaos.check()
