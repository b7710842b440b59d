"""Drive one group coordinator by hand, in virtual time, with a log that is a list of batches."""

from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

from groupsdk.broker.coordinator.classic.views import GroupView
from groupsdk.broker.coordinator.group.shard import GroupCoordinatorShard
from groupsdk.broker.coordinator.runtime.contract import (
    NOTHING,
    CoordinatorRecord,
    LogRecord,
    ProducerStamp,
    Record,
    RequestContext,
    Result,
)
from groupsdk.broker.settings.table import GroupConfig
from groupsdk.error_code import ErrorCode
from groupsdk.wire.compiler import decode, encode
from groupsdk.wire.consumer_protocol import (
    ConsumerProtocolEncoder,
    ConsumerProtocolSubscription,
)
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from groupsdk.wire.coordinator_records.offsets_log import read_key, read_value
from groupsdk.wire.messages.group_admin import DeleteGroupsRequest
from groupsdk.wire.messages.groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from groupsdk.wire.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from groupsdk.wire.schema import Request, Response


R = TypeVar("R", bound=Response)

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 3_000
QUICK = GroupConfig(group_initial_rebalance_delay_ms=0)
PRODUCER = ProducerStamp(7, 0)


@dataclass
class Batch:
    """What one append, or one marker, put into the log."""

    records: tuple[LogRecord, ...] = ()
    producer: ProducerStamp | None = None
    committed: bool | None = None
    """Of a marker: whether it commits."""


def subscription(*topics: str) -> bytes:
    """Metadata of a consumer."""
    return ConsumerProtocolEncoder().subscription(ConsumerProtocolSubscription(topics), 0)


def protocols(*names: str, metadata: bytes = b"m") -> tuple[JoinGroupRequestProtocol, ...]:
    return tuple(JoinGroupRequestProtocol(name, metadata) for name in names)


@dataclass
class Driver:
    """A coordinator with its log, its clock and the answers that it gave.

    Every answer has to fit its request's version, and each request is answered once.
    """

    config: GroupConfig = field(default_factory=GroupConfig)
    now_ms: int = 1_000_000
    fail_next: ErrorCode | None = None
    log: list[Batch] = field(default_factory=list)
    answers: dict[int, Response] = field(default_factory=dict)
    versions: dict[int, int] = field(default_factory=dict)
    recorded: dict[str, GroupMetadataValue] = field(default_factory=dict)
    """The last record of each group that was replayed."""

    def __post_init__(self) -> None:
        self._tokens = count(1)
        self._ids = count(1)
        self.shard = GroupCoordinatorShard(self.config, self._new_uuid)
        self.deal_with(self.shard.loaded(self.now_ms))

    def _new_uuid(self) -> str:
        return f"id{next(self._ids)}"

    # What a runtime does.

    def deal_with(self, result: Result) -> None:
        """Append, replay, and send; or fail to append, and say so."""
        if result.records and self.fail_next is not None:
            error, self.fail_next = self.fail_next, None
            self.deal_with(self.shard.append_failed(result, error, self.now_ms))
            return
        following = NOTHING
        if result.records:
            pairs = [pair for record in result.records for pair in record.encoded()]
            self.log.append(Batch(tuple(LogRecord(*pair) for pair in pairs), result.producer))
            for record in result.records:
                self.replay(record, result.producer)
            following = self.shard.written(result, self.now_ms)
        for reply in result.replies:
            assert reply.token not in self.answers, f"answered twice: {reply}"
            response = reply.response
            version = self.versions[reply.token]
            decode(type(response), version, encode(response, version))
            self.answers[reply.token] = response
        if following is not NOTHING:
            self.deal_with(following)

    def replay(self, record: Record, producer: ProducerStamp | None) -> None:
        self.shard.replay(record, producer)
        if isinstance(record, CoordinatorRecord) and isinstance(record.key, GroupMetadataKey):
            if isinstance(record.value, GroupMetadataValue):
                self.recorded[record.key.group] = record.value
            else:
                self.recorded.pop(record.key.group, None)

    def send(self, request: Request[Any], version: int | None = None, **context: Any) -> int:
        """Hand a request over; return the token of its answer."""
        token = next(self._tokens)
        self.versions[token] = request.api.client_version if version is None else version
        told = RequestContext(token, self.versions[token], **({"client_id": "c"} | context))
        self.deal_with(self.shard.handle(request, told, self.now_ms))
        return token

    def ask(self, request: Request[R], version: int | None = None, **context: Any) -> R:
        """Hand a request over that is answered at once."""
        token = self.send(request, version, **context)
        assert token in self.answers, f"{request} was parked"
        answer: Any = self.answers[token]
        return answer  # type: ignore[no-any-return]  # the response class of the request

    def waits(self, token: int) -> bool:
        return token not in self.answers

    def pass_ms(self, duration_ms: int) -> None:
        """Let time pass, with every deadline kept to the millisecond."""
        end_ms = self.now_ms + duration_ms
        while (deadline_ms := self.shard.deadline_ms) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.deal_with(self.shard.advance(self.now_ms))
        self.now_ms = end_ms

    def marker(self, *, committed: bool, producer: ProducerStamp = PRODUCER) -> None:
        self.log.append(Batch(producer=producer, committed=committed))
        self.shard.replay_marker(producer, committed=committed)

    def restarted(self, batches: int | None = None, *, loaded: bool = True) -> "Driver":
        """Load the log, or as many batches of it, into another coordinator."""
        again = Driver(self.config, self.now_ms)
        again._ids = self._ids
        again.shard = GroupCoordinatorShard(self.config, again._new_uuid)
        for batch in self.log[:batches]:
            again.log.append(batch)
            for record in again.shard.decode(batch.records):
                again.replay(record, batch.producer)
            if batch.committed is not None:
                assert batch.producer is not None
                again.shard.replay_marker(batch.producer, committed=batch.committed)
        if loaded:
            again.deal_with(again.shard.loaded(again.now_ms))
        return again

    # What members do.

    def join(self, member_id: str = "", *, version: int = 9, **fields: Any) -> int:
        """Send a join; return its token."""
        said: dict[str, Any] = {
            "group_id": GROUP,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocol_type": "work",
            "protocols": protocols("even"),
        } | fields
        return self.send(JoinGroupRequest(member_id=member_id, **said), version)

    def joined(self, token: int) -> JoinGroupResponse:
        answer = self.answers[token]
        assert isinstance(answer, JoinGroupResponse)
        return answer

    def synced(self, token: int) -> SyncGroupResponse:
        answer = self.answers[token]
        assert isinstance(answer, SyncGroupResponse)
        return answer

    def take_id(self, **fields: Any) -> str:
        answer = self.joined(self.join(**fields))
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return answer.member_id

    def sync(self, member_id: str, generation_id: int, *, version: int = 5, **fields: Any) -> int:
        """Send a sync; return its token. `assignments` maps member ids to bytes."""
        assignments = fields.pop("assignments", {})
        said: dict[str, Any] = {"group_id": GROUP}
        if version >= 5:
            said |= {"protocol_type": "work", "protocol_name": "even"}
        request = SyncGroupRequest(
            **(said | fields),
            generation_id=generation_id,
            member_id=member_id,
            assignments=tuple(SyncGroupRequestAssignment(*each) for each in assignments.items()),
        )
        return self.send(request, version)

    def heartbeat(self, member_id: str, generation_id: int, **fields: Any) -> ErrorCode:
        said: dict[str, Any] = {"group_id": GROUP} | fields
        request = HeartbeatRequest(generation_id=generation_id, member_id=member_id, **said)
        return ErrorCode.of(self.ask(request).error_code)

    def leave(self, *member_ids: str, **fields: Any) -> list[ErrorCode]:
        request = LeaveGroupRequest(
            group_id=GROUP, members=tuple(MemberIdentity(each, **fields) for each in member_ids)
        )
        answer = self.ask(request)
        if answer.error_code:
            return [ErrorCode.of(answer.error_code)] * len(member_ids)
        return [ErrorCode.of(each.error_code) for each in answer.members]

    def commit(
        self,
        offsets: dict[int, int],
        member_id: str = "",
        generation_id: int = -1,
        *,
        topic: str = "t",
        version: int = 9,
        metadata: str | None = "",
        **fields: Any,
    ) -> list[ErrorCode]:
        said: dict[str, Any] = {"group_id": GROUP} | fields
        request = OffsetCommitRequest(
            **said,
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
            topics=(
                OffsetCommitRequestTopic(
                    topic,
                    partitions=tuple(
                        OffsetCommitRequestPartition(index, offset, committed_metadata=metadata)
                        for index, offset in offsets.items()
                    ),
                ),
            ),
        )
        (answered,) = self.ask(request, version).topics
        assert answered.name == topic
        return [ErrorCode.of(each.error_code) for each in answered.partitions]

    def commit_in_transaction(
        self,
        offsets: dict[int, int],
        *,
        topic: str = "t",
        version: int = 5,
        producer: ProducerStamp = PRODUCER,
        **fields: Any,
    ) -> list[ErrorCode]:
        said: dict[str, Any] = {"group_id": GROUP} | fields
        request = TxnOffsetCommitRequest(
            **said,
            transactional_id="x",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            topics=(
                TxnOffsetCommitRequestTopic(
                    topic,
                    partitions=tuple(
                        TxnOffsetCommitRequestPartition(*each) for each in offsets.items()
                    ),
                ),
            ),
        )
        (answered,) = self.ask(request, version).topics
        return [ErrorCode.of(each.error_code) for each in answered.partitions]

    def fetch(
        self, *indexes: int, topic: str = "t", require_stable: bool = False
    ) -> list[tuple[int, ErrorCode]]:
        request = OffsetFetchRequest(
            group_id=GROUP,
            topics=(OffsetFetchRequestTopic(topic, indexes),),
            require_stable=require_stable,
        )
        (answered,) = self.ask(request, 7).topics
        return [
            (each.committed_offset, ErrorCode.of(each.error_code)) for each in answered.partitions
        ]

    def describe(self, version: int = 6, group_id: str = GROUP) -> DescribedGroup:
        (described,) = self.ask(DescribeGroupsRequest((group_id,)), version).groups
        return described

    def delete(self, group_id: str = GROUP) -> ErrorCode:
        (result,) = self.ask(DeleteGroupsRequest((group_id,))).results
        return ErrorCode.of(result.error_code)

    # Groups in a given state.

    def stable(self, members: int = 1, group_id: str = GROUP, **fields: Any) -> list[str]:
        """Take new dynamic members to a stable group; the first one leads."""
        ids = [self.take_id(group_id=group_id, **fields) for _ in range(members)]
        tokens = [self.join(each, group_id=group_id, **fields) for each in ids]
        self.pass_ms(self.config.group_initial_rebalance_delay_ms * (2 if members > 1 else 1))
        generation_id = self.joined(tokens[0]).generation_id
        assignments = {each: each.encode() for each in ids}
        names = self.named(fields) | {"group_id": group_id}
        for each in ids[1:]:
            self.sync(each, generation_id, **names)
        self.sync(ids[0], generation_id, assignments=assignments, **names)
        assert self.describe(5, group_id).group_state == "Stable"
        return ids

    def named(self, fields: dict[str, Any]) -> dict[str, Any]:
        offered = fields.get("protocols")
        return {
            "protocol_type": fields.get("protocol_type", "work"),
            "protocol_name": offered[0].name if offered else "even",
        }

    @property
    def view(self) -> GroupView:
        group = self.shard.group(GROUP)
        assert group is not None
        return group

    @property
    def generation(self) -> int:
        return self.view.generation_id

    @property
    def state(self) -> str:
        return self.describe(5).group_state

    def group_values(self) -> list[GroupMetadataValue | None]:
        """All values of group records in the log; None for a tombstone."""
        values: list[GroupMetadataValue | None] = []
        for record in self.records:
            key = read_key(record.key)
            if isinstance(key, GroupMetadataKey):
                value = read_value(key, record.value)
                assert value is None or isinstance(value, GroupMetadataValue)
                values.append(value)
        return values

    @property
    def records(self) -> list[LogRecord]:
        return [record for batch in self.log for record in batch.records]
