"""Consumers for tests of both group protocols: on a thread, in a process that can be stopped, and a witness of owners."""

import contextlib
import json
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations
from pathlib import Path
from typing import Any, Final, Self

from confluent_kafka import Message
from typing_extensions import override

from groupsdk.assignment import TopicPartition
from groupsdk.clock import SystemClock
from groupsdk.consumer import GroupConsumer
from groupsdk.errors import GroupSdkError
from groupsdk.types import Generation, GroupMembershipOperation
from groupsdk.wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from tests.support.groups import request_once
from tests.support.processes import LedgerProcess
from tests.support.workers import OnThread, eventually


PROTOCOLS: Final = ("classic", "consumer")
PACED_BY_TESTS: Final = {
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.assignment.interval.ms": "50",
}
"""Properties of a broker whose groups may have the short sessions of `Group`."""

_GROUP_RESOURCE = 32


@dataclass(frozen=True, slots=True)
class Group:
    """A group whose sessions are as long in either protocol: by the members' settings, or by the group's.

    Attributes:
        servers: where its members look for it.
        address: the broker that its configuration is written to.
    """

    protocol: str
    group_id: str
    topic: str
    servers: str
    address: str
    session_ms: int = 30_000
    heartbeat_ms: int = 200
    more: dict[str, Any] = field(default_factory=dict)

    def configure(self) -> Self:
        """Write the group's configuration to the broker, which sets the pace of the consumer protocol."""
        values = {
            "consumer.heartbeat.interval.ms": self.heartbeat_ms,
            "consumer.session.timeout.ms": self.session_ms,
        }
        configs = tuple(
            IncrementalAlterableConfig(key, 0, str(value)) for key, value in values.items()
        )
        resource = IncrementalAlterConfigsResource(_GROUP_RESOURCE, self.group_id, configs)
        answer = request_once(self.address, IncrementalAlterConfigsRequest((resource,)), 1)
        assert [each.error_code for each in answer.responses] == [0], answer
        # Kafka's broker answers before it follows them
        asked = DescribeConfigsRequest(
            (DescribeConfigsResource(_GROUP_RESOURCE, self.group_id, tuple(values)),)
        )
        eventually(
            lambda: (
                {
                    each.name: each.value
                    for each in request_once(self.address, asked, 1).results[0].configs
                }
                == {key: str(value) for key, value in values.items()}
            )
        )
        return self

    def settings(self, **more: Any) -> dict[str, Any]:
        """Return the settings of a member, `more` of them in the spelling of keywords."""
        given: dict[str, Any] = {
            "bootstrap.servers": self.servers,
            "group.id": self.group_id,
            "group.protocol": self.protocol,
            "auto.offset.reset": "earliest",
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 200,
            "socket.connection.setup.timeout.ms": 500,
        }
        if self.protocol == "classic":
            given |= {
                "session.timeout.ms": self.session_ms,
                "heartbeat.interval.ms": self.heartbeat_ms,
                "partition.assignment.strategy": "cooperative-sticky",
            }
        return given | self.more | {key.replace("_", "."): value for key, value in more.items()}

    def consumer(self, **more: Any) -> "DrivenConsumer":
        """Return a consumer that joins once it is entered."""
        return DrivenConsumer(self.topic, self.settings(**more))


class DrivenConsumer(OnThread):
    """Polls one consumer on a thread of its own; a context manager that closes it.

    It is its consumer's listener. `told` has what it was told, `tenures` counts how often it was given a partition.
    `hooks` holds by callback name what is to be run in it, and may raise.
    """

    def __init__(self, topic: str, settings: dict[str, Any]) -> None:
        super().__init__()
        self.consumer = GroupConsumer(settings)
        self.told: list[tuple[str, frozenset[int]]] = []
        self.tenures: dict[int, int] = {}
        self.errors: list[BaseException] = []
        self.hooks: dict[str, Callable[[], None]] = {}
        self.away: Callable[[], None] | None = None
        """Called once in place of a poll, by the thread that polls."""
        self._remain = False
        self.consumer.subscribe(topic, listener=self)

    def on_partitions_assigned(self, given: Sequence[TopicPartition]) -> None:
        """Begin a tenure of each."""
        for each in given:
            self.tenures[each.partition] = self.tenures.get(each.partition, 0) + 1
        self._tell("assigned", given)

    def on_partitions_revoked(self, given: Sequence[TopicPartition]) -> None:
        self._tell("revoked", given)

    def on_partitions_lost(self, given: Sequence[TopicPartition]) -> None:
        self._tell("lost", given)

    def _tell(self, name: str, given: Sequence[TopicPartition]) -> None:
        self.told.append((name, frozenset(each.partition for each in given)))
        hook = self.hooks.get(name)
        if hook is not None:
            hook()

    def take(self, messages: list[Message]) -> None:
        """Be given what was read."""

    def heard(self, name: str) -> list[frozenset[int]]:
        """Return what it was told by one callback, without calls that had no partitions."""
        return [given for told, given in list(self.told) if told == name and given]

    @property
    def owned(self) -> frozenset[int]:
        """The partitions that it owns, whether or not it may act on them now."""
        return frozenset(each.partition for each in self.consumer.assignment())

    @property
    def acts_on(self) -> frozenset[int]:
        """The partitions that it may act on now."""
        return self.owned if self.consumer.snapshot().holds else frozenset()

    @property
    def heartbeats(self) -> float:
        """How many heartbeats were answered."""
        return self.consumer.metrics()["heartbeat-total"]

    def crash(self) -> None:
        """Fall silent: it does not leave the group."""
        self._remain = True
        self.stop()

    @override
    def _run(self) -> None:
        while not self._stop.is_set():
            away, self.away = self.away, None
            if away is not None:
                away()
            try:
                self.take(self.consumer.consume(100, 0.02))
            except BaseException as error:  # noqa: BLE001  # for the test to look at
                self.errors.append(error)
                if isinstance(error, GroupSdkError) and error.fatal:
                    self._stop.wait()
        operation = GroupMembershipOperation
        try:
            self.consumer.close(
                operation=operation.REMAIN_IN_GROUP if self._remain else operation.DEFAULT
            )
        except BaseException as error:  # noqa: BLE001  # for the test to look at
            self.errors.append(error)


def await_shared(partitions: int, *driven: DrivenConsumer) -> None:
    """Wait until these own all partitions together, as evenly as can be, and may act on them."""
    share, rest = divmod(partitions, len(driven))
    wanted = sorted([share + 1] * rest + [share] * (len(driven) - rest))

    def shared() -> bool:
        acting = [each.acts_on for each in driven]
        every = frozenset().union(*acting)
        return sorted(map(len, acting)) == wanted and len(every) == partitions

    eventually(shared, lambda: tell(*driven))


def await_rest(*driven: DrivenConsumer) -> None:
    """Wait until no rebalance is left over: the members stay in one generation over some heartbeats.

    Members that own their shares may still have a rejoin before them, such as where both joined at once.
    """

    def generations() -> list[Generation] | None:
        snapshots = [each.consumer.snapshot() for each in driven]
        if any(not each.stable or each.rejoin_pending for each in snapshots):
            return None
        return [each.generation for each in snapshots]

    def at_rest() -> bool:
        before = generations()
        await_beats(*driven)
        return before is not None and generations() == before

    eventually(at_rest, lambda: tell(*driven))


def await_beats(*driven: DrivenConsumer, count: int = 3) -> None:
    """Wait until the coordinator has answered each some more heartbeats, and all is well."""
    wanted = [each.heartbeats + count for each in driven]

    def beaten() -> bool:
        return all(
            each.heartbeats >= beats
            and each.consumer.snapshot().stable
            and each.consumer.snapshot().trouble is None
            for each, beats in zip(driven, wanted, strict=True)
        )

    eventually(beaten, lambda: tell(*driven))


def tell(*driven: DrivenConsumer) -> str:
    """Return what to print of them where a test fails."""
    return "\n".join(
        f"{each.consumer.snapshot()} owned={sorted(each.owned)} errors={each.errors} told={each.told[-5:]}"
        f" events={[event.summary() for event in each.consumer.events()[-3:]]}"
        for each in driven
    )


Sight = tuple[frozenset[int], Generation]


class OwnerWitness(OnThread):
    """Looks again and again, on one thread, which partitions each consumer would act on; a context manager.

    Two would act on a partition where one does before and after the other was seen to, without another generation
    in between.
    """

    def __init__(self, *driven: DrivenConsumer) -> None:
        super().__init__()
        self._driven = driven
        self.looks = 0
        self.shared: list[str] = []
        self.told: list[str] = []
        """What had happened to the two until they shared a partition for the first time."""

    def check(self) -> None:
        """Fail if two would have acted on a partition at a time."""
        assert self.looks, "the witness never looked"
        assert not self.shared, "\n".join([*self.shared[:9], *self.told])

    @override
    def _run(self) -> None:
        while not self._stop.wait(0.001):
            for one, other in permutations(self._driven, 2):
                self._look(one, other)
            self.looks += 1

    def _look(self, one: DrivenConsumer, other: DrivenConsumer) -> None:
        before, between, after = _sight(one), _sight(other), _sight(one)
        both = before[0] & between[0] & after[0]
        if both and before[1] == after[1]:
            if not self.shared:
                self.told = [_history(each) for each in (one, other)]
            self.shared.append(
                f"{SystemClock().now_ms()}: {one.consumer.member_id()} has {sorted(after[0])} in {after[1]}, and"
                f" {other.consumer.member_id()} has {sorted(between[0])} in {between[1]}"
            )


def _history(driven: DrivenConsumer) -> str:
    events = map(repr, driven.consumer.events())
    return f"{driven.consumer.snapshot()}\n  told {driven.told}\n  " + "\n  ".join(events)


def _sight(driven: DrivenConsumer) -> Sight:
    snapshot = driven.consumer.snapshot()
    if not snapshot.holds:
        return frozenset(), snapshot.generation
    return driven.owned, snapshot.generation


# A consumer in a process of its own, which a test can stop and kill.


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the loop of a consumer's process.

    Attributes:
        at_ms: the machine's clock, the same for all processes, just before the consumer was asked if it may act.
        tenures: the partitions that it acted on, each with how often it had been given it.
    """

    at_ms: int
    generation: int
    tenures: dict[int, int]
    error: str = ""


class ConsumerProcess(LedgerProcess):
    """Runs `main` below as a process."""

    def __init__(self, ledger: Path, group: Group, **settings: Any) -> None:
        own = json.dumps(group.settings(**settings))
        super().__init__("tests.support.consumers", ledger, group.topic, own)

    def turns(self) -> list[Turn]:
        """Return the turns that it has written so far."""
        return [
            Turn(at, generation, {int(key): value for key, value in tenures.items()}, error)
            for at, generation, tenures, error in self.lines()
        ]

    def acts_on(self) -> frozenset[int]:
        """Return the partitions that it acted on in its last turn."""
        turns = self.turns()
        return frozenset(turns[-1].tenures) if turns else frozenset()


def check_one_owner_at_a_time(*processes: ConsumerProcess) -> None:
    """Check that the tenures of a partition follow one another: nobody acts once another one has begun."""
    spans: dict[int, dict[tuple[int, int], list[int]]] = {}
    for number, process in enumerate(processes):
        for turn in process.turns():
            for partition, tenure in turn.tenures.items():
                span = spans.setdefault(partition, {})
                span.setdefault((number, tenure), []).append(turn.at_ms)
    assert spans, "nobody acted"
    for partition, owners in spans.items():
        for (one, at), (other, then) in combinations(owners.items(), 2):
            first, last = sorted([at, then])
            assert first[-1] <= last[0], (
                f"partition {partition}: process and tenure {one} acted from {at[0]} to {at[-1]} ms, {other} from"
                f" {then[0]} to {then[-1]} ms"
            )


def main(arguments: Sequence[str]) -> None:
    """Consume until SIGTERM or Ctrl-C, and write down for each turn what may be acted on."""
    ledger, topic, settings = arguments
    clock = SystemClock()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    driven = DrivenConsumer(topic, json.loads(settings))
    with (
        Path(ledger).open("a", buffering=1, encoding="utf-8") as file,
        contextlib.suppress(KeyboardInterrupt),
        driven.consumer as consumer,
    ):
        while not stop.is_set():
            error = ""
            try:
                consumer.consume(100, 0.01)
            except GroupSdkError as raised:
                error = f"{type(raised).__name__}: {raised}"
            # Stamped before the question: what lies between the answer and the act is the business of a fence at
            # whatever is acted upon, not of a member.
            now_ms = clock.now_ms()
            tenures = {each: driven.tenures[each] for each in driven.acts_on}
            line = [now_ms, consumer.generation().generation_id, tenures, error]
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
