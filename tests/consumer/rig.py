"""Run a `GroupConsumer` in virtual time: a group that it is alone in, and records that are made up."""

from collections import defaultdict, deque
from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    KafkaError,
    KafkaException,
    TopicPartition as NativePartition,
)
from typing_extensions import override

from groupsdk.assignment import TopicPartition
from groupsdk.clock import Clock, ManualClock
from groupsdk.consumer.calls import CoordinatorCalls
from groupsdk.consumer.config import ConsumerConfig
from groupsdk.consumer.consumer import GroupConsumer
from groupsdk.consumer.reader import Reader
from groupsdk.consumer.session import ConsumerSession
from groupsdk.drivers.engine_handle import Pause
from groupsdk.drivers.hosts.host import Mailbox
from groupsdk.drivers.threads.member import GroupMember
from groupsdk.member.actions import Send
from groupsdk.member.consumer.membership import ConsumerMembership
from groupsdk.member.machine import MembershipMachine
from groupsdk.settings.config import ConsumerMemberConfig, MemberConfig
from groupsdk.wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from groupsdk.wire.messages.consumer_groups import (
    Assignment as HeartbeatAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from groupsdk.wire.messages.groups import JoinGroupRequest, SyncGroupRequest
from groupsdk.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tests.support.fake_host import AnyRequest, ScriptedHost
from tests.support.instant_group import InstantGroup


MEMBER_ID = "consumer-1"
SETTINGS: dict[str, Any] = {
    "bootstrap.servers": "broker:9092",
    "group.id": "g",
    "session.timeout.ms": 10_000,
    "heartbeat.interval.ms": 1_000,
    "max.poll.interval.ms": 60_000,
    "auto.offset.reset": "earliest",
    "partition.assignment.strategy": "range",
}
_CLASSIC_ALONE = ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy")
_TOPIC_ID = UUID(int=1)


def partitions(*names: str) -> list[TopicPartition]:
    """Read "t-0" and the like."""
    return [
        TopicPartition(topic, int(number))
        for topic, _, number in (name.rpartition("-") for name in names)
    ]


class Group(ScriptedHost):
    """The coordinator of a group with one member, which leads it."""

    def __init__(self, config: MemberConfig, clock: Clock, mailbox: Mailbox) -> None:
        super().__init__(config, clock, mailbox)
        self.topics: dict[str, int] = {"t": 3}
        self.internal: set[str] = set()
        self.offsets: dict[TopicPartition, int] = {}
        self.commits: list[OffsetCommitRequest] = []
        self.codes: defaultdict[type[Any], deque[int]] = defaultdict(deque)
        """Request class to the error codes of the next answers; 0 beyond these."""
        self.answers = InstantGroup(MEMBER_ID)
        self.unstable: set[TopicPartition] = set()
        self.requests: list[AnyRequest] = []

    @override
    def _serve(self, send: Send) -> None:
        if self.scripts[type(send.request)]:
            super()._serve(send)
            return
        self.requests.append(send.request)
        codes = self.codes[type(send.request)]
        code = codes.popleft() if codes else 0
        match send.request:
            case JoinGroupRequest() | SyncGroupRequest():
                self.driver.answer(self.answers.answer(send.request, code))
            case OffsetCommitRequest():
                self.driver.answer(self._commit(send.request, code))
            case OffsetFetchRequest():
                self.driver.answer(self._fetch(send.request, code))
            case MetadataRequest(topics=asked):
                names = self.topics if asked is None else [str(each.name) for each in asked]
                self.driver.answer(MetadataResponse(topics=tuple(map(self._topic, names))))
            case _:
                super()._serve(send)

    def _topic(self, name: str) -> MetadataResponseTopic:
        count = self.topics.get(name)
        if count is None:
            return MetadataResponseTopic(error_code=3, name=name)
        return MetadataResponseTopic(
            name=name,
            is_internal=name in self.internal,
            partitions=tuple(MetadataResponsePartition(0, number) for number in range(count)),
        )

    def _commit(self, request: OffsetCommitRequest, code: int) -> OffsetCommitResponse:
        self.commits.append(request)
        for topic in request.topics if not code else ():
            for each in topic.partitions:
                where = TopicPartition(topic.name, each.partition_index)
                self.offsets[where] = each.committed_offset
        return OffsetCommitResponse(
            topics=tuple(
                OffsetCommitResponseTopic(
                    topic.name,
                    partitions=tuple(
                        OffsetCommitResponsePartition(each.partition_index, code)
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    def _fetch(self, request: OffsetFetchRequest, code: int) -> OffsetFetchResponse:
        (group,) = request.groups
        assert request.require_stable
        return OffsetFetchResponse(
            groups=(
                OffsetFetchResponseGroup(
                    group.group_id,
                    tuple(
                        OffsetFetchResponseTopics(
                            topic.name,
                            partitions=tuple(
                                self._stored(TopicPartition(topic.name, number))
                                for number in topic.partition_indexes
                            ),
                        )
                        for topic in group.topics or ()
                    ),
                    code,
                ),
            )
        )

    def _stored(self, partition: TopicPartition) -> OffsetFetchResponsePartitions:
        code = 88 if partition in self.unstable else 0
        offset = -1 if code else self.offsets.get(partition, -1)
        return OffsetFetchResponsePartitions(partition.partition, offset, -1, "", code)

    def committed(self) -> list[dict[str, int]]:
        """Return the offsets of each commit, as {"t-0": 5}."""
        return [
            {
                f"{topic.name}-{each.partition_index}": each.committed_offset
                for topic in request.topics
                for each in topic.partitions
            }
            for request in self.commits
        ]


class BrokerAssignedGroup(Group):
    """The coordinator of a group of the consumer protocol with one member, which has the partitions of `target`."""

    def __init__(self, config: ConsumerMemberConfig, clock: Clock, mailbox: Mailbox) -> None:
        super().__init__(config, clock, mailbox)
        self.driver.machine = MembershipMachine(ConsumerMembership(config, Random(0)))
        self.target: frozenset[int] = frozenset(range(self.topics["t"]))
        self.member_epoch = 0
        self.owned: frozenset[int] | None = None
        """What the member has told that it owns; None: nothing yet."""
        self._given: frozenset[int] | None = None

    def assign(self, *numbers: int) -> None:
        """Have the member own these partitions of topic "t" in time."""
        self.target = frozenset(numbers)

    @override
    def _serve(self, send: Send) -> None:
        request = send.request
        if self.scripts[type(request)]:
            super()._serve(send)
            return
        match request:
            case ConsumerGroupHeartbeatRequest():
                self.requests.append(request)
                self.driver.answer(self._beat(request))
            case DescribeConfigsRequest():
                value = DescribeConfigsResourceResult(
                    name="consumer.session.timeout.ms", value=str(10_000)
                )
                result = DescribeConfigsResult(
                    resource_type=32, resource_name="g", configs=(value,)
                )
                self.driver.answer(DescribeConfigsResponse(results=(result,)))
            case MetadataRequest(topics=asked) if asked and asked[0].name is None:
                named = MetadataResponseTopic(topic_id=_TOPIC_ID, name="t")
                self.driver.answer(MetadataResponse(topics=(named,)))
            case _:
                super()._serve(send)

    def _beat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        codes = self.codes[ConsumerGroupHeartbeatRequest]
        if codes and (code := codes.popleft()):
            return ConsumerGroupHeartbeatResponse(error_code=code)
        if request.member_epoch < 0:
            self._given = self.owned = None
            return ConsumerGroupHeartbeatResponse(member_epoch=request.member_epoch)
        if request.topic_partitions is not None:
            self.owned = frozenset(
                number for topic in request.topic_partitions for number in topic.partitions
            )
        told = None
        joins = request.member_epoch == 0
        if joins or self._given != self.target:
            self._given = self.target
            self.member_epoch += 1
            told = HeartbeatAssignment((TopicPartitions(_TOPIC_ID, tuple(sorted(self.target))),))
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=self.member_epoch,
            heartbeat_interval_ms=1_000,
            assignment=told,
        )


@dataclass(frozen=True, slots=True)
class Record:
    """A record of confluent-kafka, as far as a consumer looks at it."""

    where: TopicPartition
    number: int

    def __len__(self) -> int:
        """As that of a Message without a value, which therefore counts as false."""
        return 0

    def topic(self) -> str:
        return self.where.topic

    def partition(self) -> int:
        return self.where.partition

    def offset(self) -> int:
        return self.number

    def key(self) -> bytes | None:
        return None

    def headers(self) -> list[tuple[str, bytes]] | None:
        return None

    def leader_epoch(self) -> int | None:
        return None

    def error(self) -> None:
        return None

    def value(self) -> bytes:
        return f"{self.where.topic}-{self.where.partition}@{self.number}".encode()


class FakeNative:
    """The consumer of confluent-kafka, over `ends[partition]` records of each partition."""

    def __init__(self) -> None:
        self.ends: defaultdict[TopicPartition, int] = defaultdict(lambda: 0)
        self.assigned: dict[TopicPartition, int] = {}
        self.assigned_at: dict[TopicPartition, int] = {}
        self.delivered: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.closed = False
        self.asked_leaders: list[str] = []
        self.no_leaders: KafkaException | None = None
        self.cluster = object()
        self.forgotten = False
        """Whether it knows no broker any more."""
        self.at_time: dict[TopicPartition, int] = {}
        """The offset that belongs to any time that is asked for."""
        self.asked_times: list[int] = []
        self.no_times: KafkaException | None = None
        self.troubles: list[Any] = []
        """Errors that the next read returns as messages."""
        self.not_begun: set[TopicPartition] = set()
        """Assigned, but librdkafka is still ending others: seeking is refused."""
        self.interrupt: BaseException | None = None
        """What the handler of a signal raises during the next read, whose records are gone then."""
        self.watermarks: dict[TopicPartition, tuple[int, int]] = {}
        """What reading has seen of them, for partitions whose `ends` were others then."""
        self.idle: Any = None
        """Called with the seconds that nothing came for."""

    def incremental_assign(self, natives: list[NativePartition]) -> None:
        for each in natives:
            where = TopicPartition(each.topic, each.partition)
            assert where not in self.assigned, f"{where} is assigned already"
            self.assigned_at[where] = each.offset
            self.assigned[where] = self._start(where, each.offset)

    def offsets_for_times(
        self, natives: list[NativePartition], timeout: float
    ) -> list[NativePartition]:
        assert timeout > 0
        if self.no_times is not None:
            raise self.no_times
        self.asked_times += [each.offset for each in natives]
        return [
            NativePartition(
                each.topic,
                each.partition,
                self.at_time.get(TopicPartition(each.topic, each.partition), OFFSET_END),
            )
            for each in natives
        ]

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        if timeout == 0:
            without = KafkaError._TRANSPORT if self.forgotten else KafkaError._TIMED_OUT
            raise KafkaException(KafkaError(without))
        assert timeout > 0
        if self.no_leaders is not None:
            raise self.no_leaders
        if topic is not None:
            self.asked_leaders.append(topic)
        return self.cluster

    def get_watermark_offsets(
        self, native: NativePartition, timeout: float, cached: bool
    ) -> tuple[int, int] | None:
        where = TopicPartition(native.topic, native.partition)
        if cached and self.watermarks:
            return self.watermarks.get(where, (OFFSET_INVALID, OFFSET_INVALID))
        end = self.ends[where]
        return (0, end) if end else None

    def assignment(self) -> list[NativePartition]:
        return [NativePartition(*each) for each in self.assigned]

    def incremental_unassign(self, natives: list[NativePartition]) -> None:
        for each in natives:
            where = TopicPartition(each.topic, each.partition)
            self.not_begun.discard(where)
            del self.assigned[where]
            self.delivered.pop(where, None)

    def _start(self, where: TopicPartition, offset: int) -> int:
        return {OFFSET_BEGINNING: 0, OFFSET_END: self.ends[where]}.get(offset, offset)

    def position(self, natives: list[NativePartition]) -> list[NativePartition]:
        return [
            NativePartition(
                each.topic,
                each.partition,
                self.delivered.get(TopicPartition(each.topic, each.partition), OFFSET_INVALID),
            )
            for each in natives
        ]

    def seek(self, native: NativePartition) -> None:
        where = TopicPartition(native.topic, native.partition)
        if where in self.not_begun:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self.assigned[where] = self._start(where, native.offset)
        self.delivered.pop(where, None)

    def pause(self, natives: list[NativePartition]) -> None:
        self.paused |= {TopicPartition(each.topic, each.partition) for each in natives}

    def resume(self, natives: list[NativePartition]) -> None:
        self.paused -= {TopicPartition(each.topic, each.partition) for each in natives}

    def consume(self, count: int, timeout: float) -> list[Record]:
        found: list[Any] = [*self.troubles]
        self.troubles = []
        for where in sorted(self.assigned):
            while (
                where not in self.paused
                and len(found) < count
                and self.assigned[where] < self.ends[where]
            ):
                found.append(Record(where, self.assigned[where]))
                self.assigned[where] += 1
                self.delivered[where] = self.assigned[where]
        if self.interrupt is not None:
            interrupt, self.interrupt = self.interrupt, None
            raise interrupt
        if not found and timeout and self.idle is not None:
            self.idle(timeout)
        return found

    def poll(self, timeout: float) -> Record | None:
        found = self.consume(1, timeout)
        return found[0] if found else None

    def close(self) -> None:
        self.closed = True


class _VirtualCalls(CoordinatorCalls):
    advance: Any

    @override
    def wait(self, answer: Any, timeout_ms: int) -> bool:
        if not answer.done():
            self.advance(min(timeout_ms, 2**20))
        return bool(answer.done())

    @override
    def pause(self, delay_ms: int) -> None:
        self.advance(delay_ms)


class Bench:
    """A consumer, its group, its records and its clock."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock(1_000_000)
        self.native = FakeNative()
        """The newest client of confluent-kafka."""
        self.connections = 0
        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        defaults = dict(SETTINGS)
        new = dotted.get("group.protocol") == "consumer"
        if new:
            for key in _CLASSIC_ALONE:
                del defaults[key]
        self.config = ConsumerConfig.of(defaults | dotted)
        member_config = self.config.consumer_member() if new else self.config.member
        bench = self

        class Member(GroupMember):
            """Waits in virtual time."""

            @override
            def _wait(self, pause: Pause) -> None:
                bench.group.wait(pause)

        class Session(ConsumerSession):
            @override
            def make_member(self) -> GroupMember:
                return Member(self.coordinator, member_config, bench.clock, lambda *_: bench.group)

        class Consumer(GroupConsumer):
            @override
            @staticmethod
            def _make_native(settings: dict[str, Any]) -> Any:
                return bench.connect(settings)

            @override
            def _make_session(self) -> ConsumerSession:
                reader: Reader = self._reader
                session = Session(bench.config, reader, bench.clock)
                session.calls.__class__ = _VirtualCalls
                session.calls.advance = bench.advance  # type: ignore[attr-defined]  # of the class above
                return session

        self.consumer = Consumer(self.config, clock=self.clock)
        self.session = self.consumer._session
        mailbox = self.session.member._groupsdk_handle.mailbox
        self.group = (
            BrokerAssignedGroup(member_config, self.clock, mailbox)
            if isinstance(member_config, ConsumerMemberConfig)
            else Group(member_config, self.clock, mailbox)
        )
        self.native.idle = lambda seconds: self.advance(int(seconds * 1000))

    def joined(self, *, count: int = 0, listener: object | None = None) -> "Bench":
        """Subscribe and take part, with so many records in each partition that are read already."""
        self.fill(count)
        self.consumer.subscribe("t", listener=listener)
        self.read(timeout=0.3)
        return self

    def connect(self, settings: dict[str, Any]) -> FakeNative:
        """Return the client of confluent-kafka for the consumer; another one each time, for the same records."""
        if self.connections:
            before, self.native = self.native, FakeNative()
            self.native.ends, self.native.idle = before.ends, before.idle
        self.connections += 1
        return self.native

    def forget_brokers(self) -> None:
        """Have the client of confluent-kafka know no broker any more, and give nothing more, until that is noticed."""
        self.native.assigned = dict.fromkeys(self.native.assigned, 2**31)
        self.native.forgotten = True
        while not self.consumer._reader.lost:
            self.advance(5_000)
            self.consumer.poll(0)

    def advance(self, delta_ms: int) -> None:
        """Let time pass."""
        self.group.advance(delta_ms)

    def fill(self, count: int, *names: str) -> None:
        """Put so many records into each partition."""
        for each in partitions(*(names or ("t-0", "t-1", "t-2"))):
            self.native.ends[each] += count

    def read(self, count: int = 1_000, timeout: float = 1.0) -> list[str]:
        """Consume, and return what came as "t-0@5"."""
        return [
            (message.value() or b"").decode() for message in self.consumer.consume(count, timeout)
        ]


class Listener:
    """Notes what it is told, and raises what a test wants."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.raises: dict[str, Exception] = {}
        self.hooks: dict[str, Any] = {}

    def on_partitions_assigned(self, given: Any) -> None:
        self._note("assigned", [f"{each.topic}-{each.partition}" for each in given])

    def on_partitions_revoked(self, given: Any) -> None:
        self._note("revoked", [f"{each.topic}-{each.partition}" for each in given])

    def on_partitions_lost(self, given: Any) -> None:
        self._note("lost", [f"{each.topic}-{each.partition}" for each in given])

    def on_generation_changed(self, generation: Any) -> None:
        self._note("generation", generation.generation_id)

    def _note(self, name: str, value: Any) -> None:
        self.calls.append((name, value))
        if name in self.hooks:
            self.hooks[name](value)
        if name in self.raises:
            raise self.raises.pop(name)
