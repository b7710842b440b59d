"""A model of a member of a consumer group (KIP-848): it heartbeats, reconciles, works on partitions and commits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Any, Final, Protocol

from groupsdk.error_code import ErrorCode
from groupsdk.testing.simulation.network import Connection
from groupsdk.testing.simulation.process import BrokerProcess
from groupsdk.testing.simulation.timeline import Timeline
from groupsdk.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from groupsdk.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from groupsdk.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from groupsdk.wire.schema import Request, Response


_TICK_MS: Final = 100
_REQUEST_TIMEOUT_MS: Final = 4_000
_BACKOFF_MS: Final = 200
_LEFT_EPOCH: Final = -1
_AWAY_EPOCH: Final = -2
_NOT_HERE: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})

Place = tuple[str, int]
"""A partition, by the name of its topic."""


class Phase(Enum):
    """How far a member is."""

    JOINING = "joining"
    """Its next heartbeat is one of epoch 0."""
    MEMBER = "member"
    LEAVING = "leaving"
    """Its next heartbeat, and last, says so."""
    GONE = "gone"


@dataclass
class ConsumerTemper:
    """What the user's side of a member is like.

    Attributes:
        callbacks_ms: how long its listeners take at most.
        commits: how likely it commits within a tenth of a second.
    """

    callbacks_ms: int = 50
    commits: float = 0.1


class ConsumerWorld(Protocol):
    """What a member needs of the world around it."""

    timeline: Timeline
    random: Random
    process: BrokerProcess

    def coordinator(self) -> int | None:
        """Return what a lookup finds; None: it has to be repeated."""
        ...

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        ...

    def happened(self) -> None:
        """Check what must hold at every step."""
        ...

    def topic_names(self, given: tuple[TopicPartitions, ...]) -> frozenset[Place] | None:
        """Return partitions by the names of their topics; None where one is not known."""
        ...

    def topic_ids(self, places: frozenset[Place]) -> tuple[TopicPartitions, ...]:
        """Return partitions by the ids of their topics."""
        ...


class ConsumerMember:
    """One process. It may be paused as a whole, cut off, or killed, and its listeners may be slow.

    Args:
        world: what is around it.
        name: for the trace; the member id begins with it.
        instance_id: of a static member.
        topics: what it subscribes to.
        temper: what its user's side is like.
        rebalance_timeout_ms: how long it may take to give partitions up.
    """

    def __init__(
        self,
        world: ConsumerWorld,
        name: str,
        group_id: str,
        topics: tuple[str, ...],
        temper: ConsumerTemper,
        *,
        instance_id: str | None = None,
        rebalance_timeout_ms: int = 8_000,
    ) -> None:
        self.name = name
        self.group_id = group_id
        self.instance_id = instance_id
        self.topics = topics
        self.temper = temper
        self.slowest_ms = 2 * temper.callbacks_ms
        """How long it may take to give partitions up."""
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.phase = Phase.JOINING
        self.epoch = 0
        self.owned: frozenset[Place] = frozenset()
        """What it works on."""
        self.target: frozenset[Place] | None = None
        """What it was told to work on, while its listeners are not done."""
        self.positions: dict[Place, int | None] = {}
        """How far it is with each; None: not known yet."""
        self.replaced = False
        """Whether another process is about to take its place."""
        self.fenced = False
        """Whether another process has its instance id."""
        self.last_heard_ms: int | None = None
        self.excused_until_ms = 0
        """Until when it is no wonder that it is removed."""
        self._world = world
        self._timeline = world.timeline
        self._random = world.random
        self._connection: Connection | None = None
        self._waiting: dict[int, Request[Any]] = {}
        self._asked = 0
        self._heartbeat_id: int | None = None
        self._sent_ms = -(10**9)
        self._heartbeat_ms = -(10**9)
        self._interval_ms = 500
        self._is_full = True
        self._must_tell = False
        """Whether it was told what to own and has not answered yet, even where it owns that already."""
        self._retry_ms = 0
        self._step = 0
        self._paused_until_ms = 0
        self._cut_until_ms = 0
        self._timeline.after(0, self._tick)

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.phase is not Phase.GONE

    @property
    def is_settled(self) -> bool:
        """Whether it has said that it owns what it was told to."""
        return self.phase is Phase.MEMBER and self.target is None and not self._must_tell

    # What may happen to it.

    def pause(self, duration_ms: int) -> None:
        """Let nothing of it happen for so long, while its connection stays."""
        self._paused_until_ms = max(self._paused_until_ms, self._timeline.now_ms() + duration_ms)

    def cut(self, duration_ms: int) -> None:
        """Let all that it sends and gets vanish for so long."""
        self._cut_until_ms = max(self._cut_until_ms, self._timeline.now_ms() + duration_ms)
        if self._connection is not None:
            self._connection.blackhole = True

    def break_connection(self, node_id: int | None = None) -> None:
        """Break the connection to a node, or to any."""
        if self._connection is not None and node_id in (None, self._connection.node_id):
            self._connection.break_off()

    def kill(self) -> None:
        """End it without a word."""
        self._gone()

    def leave(self) -> None:
        """Let it say goodbye: a static member may come back."""
        if self.phase is Phase.MEMBER and self.target is None:
            self.phase = Phase.LEAVING
            self._give_up()

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Let it read other topics."""
        self.topics = topics
        self._is_full = True
        if self.target is not None:
            # it says at once that it does not own these: it must not take them when its listener is done
            self.target = frozenset(each for each in self.target if each[0] in topics)

    # Time.

    def _tick(self) -> None:
        if not self.alive:
            return
        now_ms = self._timeline.now_ms()
        if now_ms < self._paused_until_ms:
            self._timeline.at(self._paused_until_ms, self._tick)
            return
        self._timeline.after(_TICK_MS, self._tick)
        if self._waiting and now_ms >= self._sent_ms + _REQUEST_TIMEOUT_MS:
            self._disconnect()
        if now_ms >= self._retry_ms:
            self._go_on(now_ms)

    def _go_on(self, now_ms: int) -> None:
        connection = self._connected(now_ms)
        if connection is None:
            return
        if self._heartbeat_id is None and self._is_due(now_ms):
            self._heartbeat(connection)
        elif self.phase is Phase.MEMBER and not self._waiting:
            self._work(connection)

    def _is_due(self, now_ms: int) -> bool:
        if self.phase is not Phase.MEMBER or self._is_full:
            return True
        acknowledges = self._must_tell and self.target is None
        return acknowledges or now_ms >= self._heartbeat_ms + self._interval_ms

    def _connected(self, now_ms: int) -> Connection | None:
        if self._connection is None:
            node_id = self._world.coordinator()
            if node_id is None or now_ms < self._cut_until_ms:
                self._retry_ms = now_ms + _BACKOFF_MS
                return None
            self._connection = Connection(
                *(self._timeline, self._random, self._world.process, node_id, self.name),
                self._answered,
                self._disconnect,
                harsh=False,
            )
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        self._waiting.clear()
        self._heartbeat_id = None
        self._is_full = True
        # whether a commit was taken is not known: what is committed decides
        self.positions = dict.fromkeys(self.positions)
        self._retry_ms = self._timeline.now_ms() + _BACKOFF_MS
        if self.phase is Phase.LEAVING:
            self._gone()

    # Heartbeats.

    def _heartbeat(self, connection: Connection) -> None:
        epoch = {Phase.JOINING: 0, Phase.MEMBER: self.epoch}.get(self.phase)
        if epoch is None:
            epoch = _LEFT_EPOCH if self.instance_id is None else _AWAY_EPOCH
        fields: dict[str, Any] = {"instance_id": self.instance_id}
        if epoch == 0:
            fields["topic_partitions"] = ()
        elif self._is_full or (self._must_tell and self.target is None):
            self._must_tell = self.target is not None
            # what it is about to take counts: otherwise the coordinator might give it to another meanwhile
            claimed = self.owned | (self.target or frozenset())
            fields["topic_partitions"] = self._world.topic_ids(claimed)
        if epoch == 0 or self._is_full:
            fields["rebalance_timeout_ms"] = self.rebalance_timeout_ms
            fields["subscribed_topic_names"] = self.topics
        self._is_full = False
        request = ConsumerGroupHeartbeatRequest(self.group_id, self.name, epoch, **fields)
        self._heartbeat_id = self._send(connection, request)
        self._heartbeat_ms = self._sent_ms

    def _send(self, connection: Connection, request: Request[Any]) -> int:
        self._asked += 1
        self._waiting[self._asked] = request
        self._sent_ms = self._timeline.now_ms()
        connection.send(self._asked, request)
        return self._asked

    def _answered(self, request_id: int, response: Response) -> None:
        now_ms = self._timeline.now_ms()
        if now_ms < self._paused_until_ms:
            self._timeline.at(self._paused_until_ms, lambda: self._answered(request_id, response))
            return
        request = self._waiting.pop(request_id, None)
        if request is None or not self.alive:
            return
        if isinstance(response, ConsumerGroupHeartbeatResponse):
            self._heartbeat_id = None
            self._heard(response, now_ms)
        elif isinstance(response, OffsetFetchResponse):
            self._fetched(response)
        elif isinstance(response, OffsetCommitResponse):
            self._committed(response)
        self._world.happened()

    def _heard(self, answer: ConsumerGroupHeartbeatResponse, now_ms: int) -> None:
        code = ErrorCode.of(answer.error_code)
        if self.phase is Phase.LEAVING:
            self._gone()
            return
        if code:
            self._world.note(f"{self.name}: heartbeat in {self.epoch}: {code.name}")
            self._refused(code, now_ms)
            return
        if answer.member_epoch < self.epoch and self.phase is Phase.MEMBER:
            self._world.note(f"{self.name}: epoch {self.epoch} -> {answer.member_epoch}")
        self.phase = Phase.MEMBER
        self.epoch = answer.member_epoch
        self.last_heard_ms = now_ms
        self._interval_ms = answer.heartbeat_interval_ms
        if answer.assignment is None:
            return
        target = self._world.topic_names(answer.assignment.topic_partitions)
        if target is None:
            return  # of a topic that it does not know yet: it stays as it is
        target = frozenset(each for each in target if each[0] in self.topics)
        self._must_tell = True
        if target == self.owned:
            self.target = None
            self._step += 1
        elif target != self.target:
            self._reconcile(target)

    def _refused(self, code: ErrorCode, now_ms: int) -> None:
        self._is_full = True
        self._retry_ms = now_ms + _BACKOFF_MS
        if code in _NOT_HERE:
            self._disconnect()
        elif code in {
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,
        }:
            self._lost()
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            self.fenced = True
            self._gone()
        elif code is ErrorCode.UNRELEASED_INSTANCE_ID:
            self._retry_ms = now_ms + 1_000

    def _lost(self) -> None:
        self._give_up()
        self.epoch = 0
        self.phase = Phase.JOINING

    def _give_up(self) -> None:
        self._step += 1
        self.target = None
        self.owned = frozenset()
        self.positions = {}
        self._must_tell = False

    def _gone(self) -> None:
        self.phase = Phase.GONE
        self._give_up()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # Reconciliation: listeners first, then it is done, and only then it is said.

    def _reconcile(self, target: frozenset[Place]) -> None:
        self.target = target
        self._step += 1
        step = self._step
        self._world.note(f"{self.name}: {_written(self.owned)} -> {_written(target)}")
        # it works on what it is to give up until its listener is done, and not a moment longer
        self._later(step, lambda: self._revoked(step))

    def _later(self, step: int, call: Callable[[], None]) -> None:
        def due() -> None:
            if self._step != step or not self.alive:
                return
            now_ms = self._timeline.now_ms()
            if now_ms < self._paused_until_ms:
                self._timeline.at(self._paused_until_ms, due)
                return
            call()
            self._world.happened()

        self._timeline.after(self._random.randrange(1, self.temper.callbacks_ms + 1), due)

    def _revoked(self, step: int) -> None:
        self._own(self.owned & (self.target or frozenset()))
        self._later(step, self._assigned)

    def _assigned(self) -> None:
        self._own(self.target or frozenset())
        self.target = None

    def _own(self, places: frozenset[Place]) -> None:
        self.owned = places
        self.positions = {each: self.positions.get(each) for each in sorted(places)}

    # Work.

    def _work(self, connection: Connection) -> None:
        unknown = [each for each, position in self.positions.items() if position is None]
        if unknown:
            group = OffsetFetchRequestGroup(
                *(self.group_id, self.name, self.epoch),
                topics=tuple(
                    OffsetFetchRequestTopics(topic, indexes)
                    for topic, indexes in _by_topic(unknown).items()
                ),
            )
            self._send(connection, OffsetFetchRequest(groups=(group,)))
        elif self.positions and self._random.random() < self.temper.commits:
            count = self._random.randrange(1, len(self.positions) + 1)
            done = self._random.sample(sorted(self.positions), count)
            for place in done:
                self.positions[place] = (self.positions[place] or 0) + 1
            self._send(
                connection,
                commit_request(
                    *(self.group_id, self.name, self.epoch),
                    {place: self.positions[place] or 0 for place in done},
                ),
            )

    def _fetched(self, answer: OffsetFetchResponse) -> None:
        for group in answer.groups:
            if group.error_code:
                self._refused_work(group.error_code)
                return
            for topic in group.topics:
                for each in topic.partitions:
                    place = (topic.name, each.partition_index)
                    if each.error_code == 0 and place in self.positions:
                        self.positions[place] = max(each.committed_offset, 0)

    def _committed(self, answer: OffsetCommitResponse) -> None:
        codes = [each.error_code for topic in answer.topics for each in topic.partitions]
        if any(codes):
            self.positions = dict.fromkeys(self.positions)
            self._refused_work(max(codes))

    def _refused_work(self, code: int) -> None:
        self._retry_ms = self._timeline.now_ms() + _BACKOFF_MS
        if code in _NOT_HERE:
            self._disconnect()


def commit_request(
    group_id: str, member_id: str, epoch: int, offsets: Mapping[Place, int]
) -> OffsetCommitRequest:
    """Ask to commit offsets, as a member in an epoch."""
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=tuple(
            OffsetCommitRequestTopic(
                topic,
                tuple(
                    OffsetCommitRequestPartition(index, offsets[topic, index]) for index in indexes
                ),
            )
            for topic, indexes in _by_topic(offsets).items()
        ),
    )


def _by_topic(places: Any) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for topic, index in sorted(places):
        found[topic] = (*found.get(topic, ()), index)
    return found


def _written(places: frozenset[Place]) -> str:
    return " ".join(f"{topic}-{index}" for topic, index in sorted(places)) or "nothing"
