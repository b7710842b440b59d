"""One storm: its members, what happens to them, and the records that they read."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from confluent_kafka import Consumer, Producer, TopicPartition

from groupsdk.testing.watchdog import WATCHDOG
from tests.support.java import java_command
from tests.support.topics import create_topic
from tests.support.workers import eventually


PARTITIONS: Final = 12
PROPERTIES: Final = {
    # the log of one partition tells of all commits in their order
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
}
_ROOT: Final = Path(__file__).parents[3]
_JAVA: Final = Path(__file__).parent / "java" / "StormMember.java"
_BOTH: Final = ("classic", "consumer")
_LIBRARIES: Final = {
    "ours": _BOTH,
    "librdkafka": _BOTH,
    "java": _BOTH,
    "franz-go": _BOTH,
    "aiokafka": ("classic",),
    "kafka-python": ("classic",),
}
_SETTLE_S: Final = 120.0
_LEAVE_S: Final = 30.0


class _Member:
    """A member in a process of its own, through all of its lives; they write into one ledger."""

    def __init__(self, name: str, command: Sequence[str], folder: Path) -> None:
        self.name = name
        self._command = list(command)
        self._ledger = folder / f"{name}.jsonl"
        self._errors = folder / f"{name}.stderr"
        self._process: subprocess.Popen[bytes] | None = None
        self.stopped = False

    def start(self) -> None:
        with self._ledger.open("ab") as out, self._errors.open("ab") as err:
            self._process = subprocess.Popen(
                self._command,
                cwd=_ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        WATCHDOG.watch(self._process.pid)

    def signal(self, number: int) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def come_back(self) -> None:
        """Let a stopped process run on, and start one that has ended again."""
        if self.stopped:
            self.stopped = False
            self.signal(signal.SIGCONT)
        else:
            self.start()

    def end(self, number: int) -> None:
        """End the process by a signal; one that does not heed it in time is killed."""
        if self._process is None:
            return
        self.signal(signal.SIGCONT)
        self.stopped = False
        self.signal(number)
        try:
            self._process.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            self._process.wait()
        WATCHDOG.forget(self._process.pid)
        self._process = None


class Storm:
    """A group of one member of each library, some with two, under faults drawn from a seed."""

    def __init__(self, servers: str, folder: Path, go_member: Path, seed: int) -> None:
        self.group = f"storm-{seed}-{uuid.uuid4().hex[:6]}"
        self._topic = self.group
        self._servers = servers
        self._chance = random.Random(seed)
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
        drawn = [(library, self._chance.choice(_LIBRARIES[library])) for library in _LIBRARIES]
        drawn += [("ours", "classic"), ("ours", "consumer")]
        self._members = [
            _Member(
                f"{library}-{protocol}-{index}",
                self._command(library, protocol, index, go_member),
                folder,
            )
            for index, (library, protocol) in enumerate(drawn)
        ]

    def _command(self, library: str, protocol: str, index: int, go_member: Path) -> list[str]:
        name = f"{library}-{protocol}-{index}"
        arguments = [protocol, self._servers, self.group, self._topic, name]
        if library == "franz-go":
            return [str(go_member), *arguments]
        if library == "java":
            return java_command(_JAVA, ["org.apache.kafka:kafka-clients:4.3.1"], *arguments)
        module = "tests.survival.storm.python_member"
        return [sys.executable, "-m", module, library, *arguments]

    def __enter__(self) -> Self:
        create_topic(self._servers, self._topic, PARTITIONS)
        for each in self._members:
            each.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for each in self._members:
            each.end(signal.SIGKILL if kind else signal.SIGTERM)

    def rage(self, seconds: float) -> None:
        """Stop, kill and start members at random for so long, while records come."""
        ends = time.monotonic() + seconds  # noqa: TID251
        due: list[tuple[float, _Member]] = []
        while (now := time.monotonic()) < ends:  # noqa: TID251
            for at, member in [each for each in due if each[0] <= now]:
                due.remove((at, member))
                member.come_back()
            busy = {member.name for _, member in due}
            free = [each for each in self._members if each.name not in busy]
            if len(busy) < 3 and self._chance.random() < 0.2:
                member = self._chance.choice(free)
                what = self._chance.random()
                if what < 0.6:
                    member.stopped = True
                    member.signal(signal.SIGSTOP)
                else:
                    member.end(signal.SIGKILL if what < 0.8 else signal.SIGTERM)
                due.append((now + self._chance.choice((0.3, 1.0, 3.0, 7.0, 9.0)), member))
            self._produce()
        for _, member in due:
            member.come_back()

    def blow(self, seconds: float) -> None:
        """Let records come for so long, without a fault."""
        ends = time.monotonic() + seconds  # noqa: TID251
        while time.monotonic() < ends:  # noqa: TID251
            self._produce()

    def _produce(self) -> None:
        for _ in range(20):
            self._producer.produce(self._topic, b"x", partition=self._chance.randrange(PARTITIONS))
        self._producer.flush()
        time.sleep(0.1)

    def settle(self) -> None:
        """Wait until all records are committed."""
        consumer = Consumer({"bootstrap.servers": self._servers, "group.id": self.group})
        partitions = [TopicPartition(self._topic, each) for each in range(PARTITIONS)]
        try:
            ends = {each.partition: consumer.get_watermark_offsets(each)[1] for each in partitions}

            def behind() -> dict[int, tuple[int, int]]:
                committed = consumer.committed(partitions, timeout=10)
                return {
                    each.partition: (each.offset, ends[each.partition])
                    for each in committed
                    if max(each.offset, 0) != ends[each.partition]
                }

            eventually(lambda: not behind(), behind, _SETTLE_S)
        finally:
            consumer.close()
