"""Handle Fetch: read the available records, or wait until there are enough."""

from collections.abc import Generator
from typing import Any, Final

from groupsdk.broker.catalogue import Topic
from groupsdk.broker.cluster import ClusterError
from groupsdk.broker.coordinator.runtime.scheduler import Timer
from groupsdk.broker.server.call import Call, LeaderHints, allowed
from groupsdk.broker.server.fetch_sessions import FetchedPartition, FetchSession, Key
from groupsdk.broker.server.pace import Pace, Steps, log_costs
from groupsdk.error_code import ErrorCode
from groupsdk.errors import GroupSdkError
from groupsdk.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from groupsdk.wire.schema import NO_UUID


_READ_COMMITTED: Final = 1
_BY_ID: Final = 13  # from this version on, topics are identified by id
_LEADER_FROM: Final = 12
_ENDPOINTS_FROM: Final = 16


def fetch(call: Call, request: FetchRequest) -> Steps:
    """Answer as soon as there are min_bytes, an error, or max_wait_ms have passed; read many partitions in steps.

    Requires "read" on each topic. A waiting fetch is resumed by appends to its partitions, and dropped with its
    connection.
    """
    begun = yield from call.node.fetch_sessions.begin(request)
    if isinstance(begun, ErrorCode):
        return FetchResponse(error_code=begun)
    session, incremental = begun
    waiting = _Fetch(call, request, session, incremental=incremental)
    return (yield from waiting.start())


class _Fetch:
    """One fetch, tried again whenever one of its partitions changes."""

    __slots__ = (
        "_call",
        "_incremental",
        "_over",
        "_places",
        "_reading",
        "_request",
        "_session",
        "_timer",
        "_woken",
    )

    def __init__(
        self, call: Call, request: FetchRequest, session: FetchSession, *, incremental: bool
    ) -> None:
        self._call = call
        self._request = request
        self._session = session
        self._incremental = incremental
        self._timer: Timer | None = None
        self._woken = False
        self._reading = False
        self._over = request.max_wait_ms <= 0
        self._places: list[tuple[str, int]] = []

    def start(self) -> Steps:
        cluster = self._call.node.cluster
        changes = cluster.changes
        read = yield from self._read()
        if self._is_enough(read) or not read.parts:
            return (yield from self._answer(read))
        if self._call.lost:
            return None  # the connection may have closed between two steps, before on_lost was set
        request = self._request
        self._places = [
            (topic.name, part.partition_index) for topic, _, part in read.parts if topic
        ]
        cluster.wait(self._places, self._wake)
        self._call.connection.on_lost = self._end
        self._timer = cluster.client_scheduler.after(request.max_wait_ms, self._expired)
        if cluster.changes != changes:
            self._wake()  # something changed between two steps, before the wait began
        return None

    def _read(self) -> Generator[None, None, "_Read"]:
        read = _Read(self._call, self._request)
        yield from read.all(self._session)
        return read

    def _is_enough(self, read: "_Read") -> bool:
        return self._over or read.failed or read.size >= self._request.min_bytes

    def _waits(self) -> bool:
        return self._timer is not None

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            # once for all partitions of a produce
            if not self._reading:
                self._call.node.cluster.defer(self._again)

    def _again(self) -> None:
        if self._waits() and not self._reading:
            self._reading = True
            self._call.go_on_with(self._request, self._rest())

    def _rest(self) -> Steps:
        """Read again while something changes between the steps; answer once there is enough."""
        try:
            while self._waits():
                self._woken = False
                read = yield from self._read()
                if self._waits() and self._is_enough(read):
                    self._end()
                    return (yield from self._answer(read))
                if not self._woken:
                    break
                yield
        except BaseException:
            self._end()
            raise
        self._reading = False
        return None

    def _expired(self) -> None:
        self._over = True
        self._again()

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._call.connection.on_lost = None
        self._call.node.cluster.unwait(self._places, self._wake)

    def _answer(self, read: "_Read") -> Generator[None, None, FetchResponse]:
        topics: dict[tuple[str, Any], list[PartitionData]] = {}
        served: list[Key] = []
        pace = Pace()
        for _, wanted, part in read.parts:
            if pace.due():
                self._call.large = True
                yield
            if self._incremental and not _is_news(wanted, part):
                continue
            if part.records:
                key = wanted.topic_id if wanted.topic_id != NO_UUID else wanted.topic
                served.append((key, wanted.partition))
            wanted.high_watermark = part.high_watermark
            wanted.log_start_offset = part.log_start_offset
            topics.setdefault((wanted.topic, wanted.topic_id), []).append(part)
        self._session.served(served)
        answers = []
        for (name, topic_id), parts in topics.items():
            if pace.due():
                yield
            answers.append(FetchableTopicResponse(name, topic_id, tuple(parts)))
        return FetchResponse(
            0,
            0,
            self._session.session_id,
            tuple(answers),
            tuple(NodeEndpoint(*each) for each in read.hints.endpoints())
            if self._call.version >= _ENDPOINTS_FROM
            else (),
        )


def _is_news(wanted: FetchedPartition, part: PartitionData) -> bool:
    return bool(
        part.records
        or part.error_code
        or part.high_watermark != wanted.high_watermark
        or part.log_start_offset != wanted.log_start_offset
    )


class _Read:
    """The records available now for all partitions of a fetch, within its limits."""

    __slots__ = ("_call", "_committed", "_room", "failed", "hints", "parts", "size")

    def __init__(self, call: Call, request: FetchRequest) -> None:
        self._call = call
        self._committed = request.isolation_level == _READ_COMMITTED
        self._room = max(min(request.max_bytes, call.node.cluster.config.fetch_max_bytes), 0)
        if call.connection.must_answer_small:
            self._room = 0  # one batch, so that readers make progress
        self.failed = False
        self.size = 0
        self.hints = LeaderHints(call)
        self.parts: list[tuple[Topic | None, FetchedPartition, PartitionData]] = []

    def all(self, session: FetchSession) -> Generator[None, None, None]:
        """Read every partition of a session, in steps."""
        pace = Pace()
        logs = self._call.node.cluster.logs
        # a copy, since the session may change between two steps
        for wanted in tuple(session.partitions.values()):
            topic = self._topic(wanted)
            if pace.due(1 if topic is None else log_costs(logs, topic.name, wanted.partition)):
                yield
            part = self._one(topic, wanted)
            self.parts.append((topic, wanted, part))
            if part.error_code:
                self.failed = True
            elif part.records:
                self.size += len(part.records)
                self._room -= len(part.records)

    def _topic(self, wanted: FetchedPartition) -> Topic | None:
        catalogue = self._call.node.cluster.catalogue
        if wanted.topic_id != NO_UUID:
            return catalogue.topics_by_id.get(wanted.topic_id)
        return catalogue.topics.get(wanted.topic)

    def _one(self, topic: Topic | None, wanted: FetchedPartition) -> PartitionData:
        index = wanted.partition
        if topic is None:
            by_id = self._call.version >= _BY_ID
            if not by_id and not allowed(self._call, "read", "topic", wanted.topic):
                return _failed(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            return _failed(
                index, ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
        if not allowed(self._call, "read", "topic", topic.name):
            return _failed(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        node = self._call.node
        try:
            log = node.cluster.led_log(node.node_id, topic.name, index, wanted.current_leader_epoch)
            found = log.read(
                wanted.fetch_offset,
                max(min(wanted.max_bytes, self._room), 0),
                committed=self._committed,
                # one batch at least for the first partition that has any, however large it is
                min_one=self.size == 0,
            )
        except ClusterError as error:
            leader = LeaderIdAndEpoch()
            if (
                error.error_code
                in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
                and self._call.version >= _LEADER_FROM
            ):
                leader = LeaderIdAndEpoch(*self.hints.leader(topic, index))
            return _failed(index, error.error_code, leader)
        except GroupSdkError as error:
            node.cluster.logs.report(topic.name, index, error)
            code = getattr(error, "error_code", ErrorCode.UNKNOWN_SERVER_ERROR)
            return _failed(index, code)
        aborted = None
        if self._committed:
            aborted = tuple(
                AbortedTransaction(each.producer_id, each.first_offset) for each in found.aborted
            )
        return PartitionData(
            index,
            0,
            found.high_watermark,
            found.last_stable_offset,
            found.log_start_offset,
            aborted_transactions=aborted,
            preferred_read_replica=-1,
            records=found.data,
        )


_NO_LEADER: Final = LeaderIdAndEpoch()


def _failed(index: int, code: int, leader: LeaderIdAndEpoch = _NO_LEADER) -> PartitionData:
    return PartitionData(
        index, code, -1, -1, -1, current_leader=leader, preferred_read_replica=-1, records=b""
    )
