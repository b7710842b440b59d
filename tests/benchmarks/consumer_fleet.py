"""Run many consumers of one client in one process: `python -m tests.benchmarks.consumer_fleet CLIENT SERVERS GROUP TOPIC`.

It reads "start N", "stop N" and "busy N SECONDS", and tells "ready", "assigned NANOS N PARTITIONS", "revoked ..." and
"stopped N": nanoseconds of the machine's monotonic clock, partitions with commas. `Fleet` is the other side, for clients in
Java and Go too.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, Self

from typing_extensions import override

from tests.benchmarks.members import python_loop
from tests.benchmarks.processes import compiled_environment, go_program
from tests.support.processes import LineProgram


CLIENTS: Final = ("groupsdk", "librdkafka", "Java", "franz-go")
"""Members of the consumer protocol (KIP-848)."""
CLASSIC: Final = "groupsdk classic"
_JAVA: Final = Path(__file__).parent / "java" / "ConsumerFleet.java"
_JAVA_CLIENT: Final = "org.apache.kafka:kafka-clients:4.4.0"
_END_S: Final = 30.0

# The program.


class _Member(threading.Thread):
    """One consumer, which polls until it is stopped."""

    def __init__(self, client: str, settings: dict[str, Any], topic: str, number: str) -> None:
        super().__init__(daemon=True)
        self.running = True
        self.busy_s = 0.0
        self._number = number
        self._topic = topic
        self._client = client
        self._settings = settings

    @override
    def run(self) -> None:
        consumer = (_confluent if self._client == "librdkafka" else _groupsdk)(
            self._settings, self._topic, self._tell
        )
        while self.running:
            consumer.consume(500, 0.1)
            busy_s, self.busy_s = self.busy_s, 0.0
            if busy_s:
                python_loop(busy_s)
        consumer.close()
        _say(f"stopped {self._number}")

    def _tell(self, what: str, given: Iterable[Any]) -> None:
        now = time.perf_counter_ns()
        _say(f"{what} {now} {self._number} {','.join(str(each.partition) for each in given)}")


def _groupsdk(settings: dict[str, Any], topic: str, tell: Callable[[str, Any], None]) -> Any:
    from groupsdk.consumer import GroupConsumer

    consumer = GroupConsumer(settings)
    consumer.subscribe(
        topic,
        on_assign=lambda given: tell("assigned", given),
        on_revoke=lambda given: tell("revoked", given),
    )
    return consumer


def _confluent(settings: dict[str, Any], topic: str, tell: Callable[[str, Any], None]) -> Any:
    from confluent_kafka import Consumer

    def on_assign(consumer: Any, given: list[Any]) -> None:
        consumer.incremental_assign(given)
        tell("assigned", given)

    def on_revoke(consumer: Any, given: list[Any]) -> None:
        tell("revoked", given)
        consumer.incremental_unassign(given)

    consumer = Consumer(settings)
    consumer.subscribe([topic], on_assign=on_assign, on_revoke=on_revoke)
    return consumer


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> None:
    """Do as is told, until the input ends."""
    client, servers, group, topic = arguments
    settings: dict[str, Any] = {
        "bootstrap.servers": servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "group.protocol": "consumer",
    }
    if client == CLASSIC:
        settings |= {
            "group.protocol": "classic",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": 45_000,
            "heartbeat.interval.ms": 5_000,
        }
    if client == "librdkafka":
        import confluent_kafka  # noqa: F401  # before the clock runs
    else:
        import groupsdk.consumer
        import groupsdk.drivers.engine.engine  # noqa: F401  # before the clock runs
    members: dict[str, _Member] = {}
    _say("ready")
    for line in sys.stdin:
        match line.split():
            case ["start", number]:
                members[number] = _Member(client, settings, topic, number)
                members[number].start()
            case ["busy", number, seconds]:
                members[number].busy_s = float(seconds)
            case ["stop", number]:
                members.pop(number).running = False
            case _:
                raise ValueError(line)


# The other side.


class Owners:
    """Who owns what since when, by what the members of some fleets tell."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.owner: dict[int, str] = {}
        self.free_since: dict[int, float] = {}
        self.gaps: list[float] = []
        """Seconds without an owner, one for each partition that moved."""

    def told(self, what: str, at_s: float, member: str, partitions: list[int]) -> None:
        """Take note of what a member told."""
        with self.changed:
            for each in partitions:
                if what == "assigned":
                    if each in self.free_since:
                        self.gaps.append(max(0.0, at_s - self.free_since.pop(each)))
                    self.owner[each] = member
                elif self.owner.get(each) == member:
                    del self.owner[each]
                    self.free_since[each] = at_s
            self.changed.notify_all()

    def gone(self, member: str) -> None:
        """Take note that a member was killed: what it owned has no owner from now on."""
        now = time.perf_counter()
        self.told("revoked", now, member, [p for p, one in self.owner.items() if one == member])

    def take_gaps(self) -> list[float]:
        """Return the gaps so far, and forget them."""
        with self.changed:
            gaps, self.gaps = self.gaps, []
            return gaps

    def wait_shared(self, partitions: int, members: set[str], timeout_s: float) -> None:
        """Wait until these members share all partitions as evenly as can be; raises TimeoutError."""
        share, rest = divmod(partitions, len(members))

        def shared() -> bool:
            owners = list(self.owner.values())
            return (len(owners), set(owners)) == (partitions, members) and all(
                share <= owners.count(each) <= share + bool(rest) for each in members
            )

        with self.changed:
            if not self.changed.wait_for(shared, timeout_s):
                raise TimeoutError(f"not shared within {timeout_s} s: {self.owner}")


def command_of(client: str, *where: str) -> list[str]:
    """Return the command line of a fleet; builds what has to be built."""
    if client == "franz-go":
        program = go_program("fleet")
        if program is None:
            raise FileNotFoundError("no members on franz-go")
        return [str(program), *where]
    if client == "Java":
        from tests.support.java import QUICK, java_command

        return java_command(_JAVA, [_JAVA_CLIENT], *where, options=[*QUICK, "-Xmx512m"])
    module = "tests.benchmarks.consumer_fleet"
    return [sys.executable, "-W", "ignore", "-m", module, client, *where]


class Fleet(LineProgram):
    """A process with the members of one client, and what they tell `owners`; a context manager, which kills it."""

    def __init__(self, client: str, servers: str, group: str, topic: str, owners: Owners) -> None:
        self._owners = owners
        # franz-go has no way to the monotonic clock
        self._offset_s = time.perf_counter() - time.time() if client == "franz-go" else 0.0
        self._ready = threading.Event()
        self._stopped: set[str] = set()
        command = command_of(client, servers, group, topic)
        super().__init__(command, environment=compiled_environment(), quiet=True)
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def start(self, *members: str) -> None:
        self.send(*(f"start {each}" for each in members))

    def busy(self, member: str, seconds: float) -> None:
        """Have the thread of a member compute in Python for a while."""
        self.send(f"busy {member} {seconds}")

    def stop(self, member: str, *, wait: bool = False) -> None:
        self.send(f"stop {member}")
        until = time.monotonic() + _END_S
        while wait and member not in self._stopped and time.monotonic() < until:
            time.sleep(0.005)

    def _listen(self) -> None:
        for line in self.lines():
            match line.split(" "):
                case ["ready"]:
                    self._ready.set()
                case ["stopped", number]:
                    self._stopped.add(number)
                case [("assigned" | "revoked") as what, nanos, number, partitions]:
                    told = [int(each) for each in partitions.split(",") if each]
                    self._owners.told(what, int(nanos) / 1e9 + self._offset_s, number, told)
                case _:
                    pass  # what a library prints
        self._ready.set()

    @override
    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(_END_S):
            raise TimeoutError("the members' process does not begin")
        return self

    @override
    def kill(self) -> None:
        super().kill()
        self._thread.join(_END_S)


if __name__ == "__main__":
    main(sys.argv[1:])
    os._exit(0)
