"""The state machine of the groups in one partition of `__consumer_offsets`."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, cast

from groupsdk.broker.coordinator.classic.join import JoinGroupHandler
from groupsdk.broker.coordinator.classic.member_requests import MemberRequests
from groupsdk.broker.coordinator.classic.rebalance import Rebalances
from groupsdk.broker.coordinator.classic.registry import GroupRegistry
from groupsdk.broker.coordinator.classic.responses import join_error
from groupsdk.broker.coordinator.classic.views import GroupView, group_status, group_view
from groupsdk.broker.coordinator.consumer.assignment_jobs import (
    AssignmentJob,
    AssignmentStarter,
    Outcome,
)
from groupsdk.broker.coordinator.consumer.assignors import ServerAssignor
from groupsdk.broker.coordinator.consumer.coordinator import ConsumerGroupCoordinator
from groupsdk.broker.coordinator.consumer.group import ConsumerGroup, GroupRecord
from groupsdk.broker.coordinator.consumer.records import group_tombstones
from groupsdk.broker.coordinator.consumer.registry import ConsumerGroupRegistry
from groupsdk.broker.coordinator.consumer.topics import (
    EndOffsets,
    NoTopics,
    TopicImage,
    no_end_offset,
)
from groupsdk.broker.coordinator.consumer.views import ConsumerGroupView
from groupsdk.broker.coordinator.counters import CoordinatorCounters
from groupsdk.broker.coordinator.group.administration import Administration, delete_error
from groupsdk.broker.coordinator.group.records import (
    CommittedOffset,
    OffsetCommitRecords,
    OffsetTombstone,
    RecordDecoder,
)
from groupsdk.broker.coordinator.group_status import GroupStatus, GroupTrigger
from groupsdk.broker.coordinator.offsets.offset_expiration import (
    MAX_TOMBSTONES,
    OffsetExpiration,
)
from groupsdk.broker.coordinator.offsets.offset_fetches import OffsetFetchHandler, fetch_error
from groupsdk.broker.coordinator.offsets.offset_metadata_manager import (
    OffsetMetadataManager,
    OffsetStore,
    TopicIdentity,
    commit_error,
    transaction_error,
)
from groupsdk.broker.coordinator.runtime.contract import (
    NOTHING,
    UNPREPARED,
    CoordinatorRecord,
    EncodedRecords,
    ProducerStamp,
    Record,
    RequestContext,
    Result,
    answered,
    append_error,
    finished,
)
from groupsdk.broker.coordinator.runtime.deadlines import NEVER
from groupsdk.broker.coordinator.runtime.result_builder import ResultBuilder
from groupsdk.broker.settings.effective import EffectiveSettings, no_group_settings
from groupsdk.broker.settings.table import GroupConfig
from groupsdk.error_code import ErrorCode
from groupsdk.errors import EncodeError
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from groupsdk.wire.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from groupsdk.wire.messages.group_admin import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DeleteGroupsRequest,
    DescribedGroup,
    ListedGroup,
    ListGroupsRequest,
    OffsetDeleteRequest,
)
from groupsdk.wire.messages.groups import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from groupsdk.wire.messages.offsets import OffsetCommitRequest, OffsetFetchRequest
from groupsdk.wire.messages.transactions import TxnOffsetCommitRequest
from groupsdk.wire.records.pairs import Pair
from groupsdk.wire.records.record import EncodedPairs
from groupsdk.wire.schema import Request, Response


_FEW_PARTITIONS: Final = 10
_CLASSIC_REQUESTS: Final = (
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
)
_RequestHandler = Callable[[Any, RequestContext, int], ResultBuilder]


class GroupCoordinatorShard:
    """The coordinator of classic and consumer groups, as a `CoordinatorShard` (Kafka: GroupCoordinatorShard).

    Does no I/O and reads no clock. The caller checks that the groups of a request belong to this partition, and that
    the client is authorized. Not thread-safe: one thread calls it.
    """

    def __init__(
        self,
        config: GroupConfig,
        new_uuid: Callable[[], str],
        *,
        consumer_settings: EffectiveSettings | None = None,
        image: Callable[[], TopicImage] = NoTopics,
        topics: Mapping[str, TopicIdentity] = MappingProxyType({}),
        assignors: Mapping[str, ServerAssignor] | None = None,
        start_assignment: AssignmentStarter | None = None,
        end_offset: EndOffsets = no_end_offset,
    ) -> None:
        """Create a coordinator without groups; replay its log, then call `loaded`.

        Args:
            consumer_settings: the settings of consumer groups; None: Kafka's defaults.
            topics: the current topics by name, for the topic ids stored with committed offsets.
            assignors: the assignors of consumer groups by name, the default one first; None: Kafka's.
            end_offset: the ends of logs, for assignors that look at lags.
            start_assignment: starts an assignor on another thread, and has `assigned` called on this one; None: assignors
                run at once.
        """
        self._config = config
        settings = consumer_settings or EffectiveSettings(GroupConfig, no_group_settings)
        self.counters = CoordinatorCounters()
        self._registry = GroupRegistry(config, self.counters)
        self._offsets = OffsetStore()
        self._consumer_registry = consumer_registry = ConsumerGroupRegistry(
            self._registry.remove, self.counters
        )
        self._consumer_groups = consumer_registry.groups
        self._consumer_timers = consumer_registry.timers
        self._decoder = RecordDecoder()
        self._rebalances = Rebalances(self._registry)
        self._consumer = consumer = ConsumerGroupCoordinator(
            registry=consumer_registry,
            classic=self._registry,
            rebalances=self._rebalances,
            settings=settings,
            image=image,
            new_uuid=new_uuid,
            assignors=assignors,
            start=start_assignment,
            lags=lambda group_id, topics: self._offsets.lags(group_id, topics, end_offset),
        )
        self._expiry = OffsetExpiration(self._registry, self._offsets, consumer)
        self._members = MemberRequests(self._registry, self._rebalances)
        self._fetches = OffsetFetchHandler(self._registry, self._offsets, consumer, topics)
        self._admin = Administration(self._registry, self._offsets, consumer)
        self._offset_metadata = OffsetMetadataManager(
            self._registry,
            consumer,
            topics,
            lambda: settings.config().follows_4_4,
        )
        self._joins = JoinGroupHandler(self._registry, self._rebalances, new_uuid)
        # the last result, until its records are written or rejected
        self._builder: ResultBuilder | None = None
        self._result: Result | None = None
        self._handlers: dict[type[Request[Any]], _RequestHandler] = {
            JoinGroupRequest: self._joins.handle,
            SyncGroupRequest: self._members.sync,
            LeaveGroupRequest: self._members.leave,
            DeleteGroupsRequest: self._admin.delete,
            OffsetDeleteRequest: self._admin.delete_offsets,
        }

    def handle(self, request: Request[Any], context: RequestContext, now_ms: int) -> Result:
        """Handle a request; its reply is in this result or, if it is parked, in a later one."""
        if type(request) is HeartbeatRequest and request.group_id not in self._consumer_groups:
            return self._members.heartbeat(request, context, now_ms)
        if type(request) is OffsetCommitRequest:
            return self._offset_metadata.commit(request, context, now_ms)
        if type(request) is ConsumerGroupHeartbeatRequest:
            result = self._consumer.heartbeats.handle_stable(request, context, now_ms)
            return self._heartbeat(request, context, now_ms) if result is NOTHING else result
        if self._consumer_groups and isinstance(request, _CLASSIC_REQUESTS):
            group = self._consumer_groups.get(request.group_id)
            if group is not None:
                return self._hand_out(self._to_consumer_group(group, request, context, now_ms))
        handler = self._handlers.get(type(request))
        if handler is not None:
            return self._hand_out(handler(request, context, now_ms))
        if type(request) is TxnOffsetCommitRequest:
            return self._offset_metadata.commit_transactional(request, context, now_ms)
        answer = self._answer_at_once(request, context)
        if answer is not None:
            return answered(context, answer)
        raise TypeError(f"{type(request).__name__} is not a request for a group coordinator")

    def _heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now_ms: int
    ) -> Result:
        if self._consumer.unprepared(request.group_id, request.member_id, request.member_epoch):
            return UNPREPARED
        return self.handle_prepared(request, context, now_ms)

    def prepare_in_steps(self, request: Request[Any]) -> Generator[None, None, None]:
        """Look up the topics that an UNPREPARED heartbeat needs, in steps."""
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        return self._consumer.prepare_heartbeat(
            request.group_id, request.member_id, request.member_epoch
        )

    def handle_prepared(
        self, request: Request[Any], context: RequestContext, now_ms: int
    ) -> Result:
        """Handle a request after that, or one whose records were encoded in vain: at once, whatever has changed meanwhile."""
        if type(request) is ConsumerGroupHeartbeatRequest:
            return self._hand_out(self._consumer.heartbeats.handle(request, context, now_ms))
        return self.handle(request, context, now_ms)

    def _answer_at_once(self, request: Request[Any], context: RequestContext) -> Response | None:
        """Answer a read-only request; None if it is not one."""
        if isinstance(request, OffsetFetchRequest):
            return self._fetches.handle(request, context)
        if isinstance(request, DescribeGroupsRequest):
            return self._admin.describe(request, context)
        if isinstance(request, ListGroupsRequest):
            return self._admin.list(request)
        if isinstance(request, ConsumerGroupDescribeRequest):
            return finished(self._describe(request))
        return None

    def _to_consumer_group(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest,
        context: RequestContext,
        now_ms: int,
    ) -> ResultBuilder:
        """Handle a request of the classic protocol to a consumer group."""
        members = self._consumer.classic_members
        if isinstance(request, SyncGroupRequest):
            return members.sync(group, request, context, now_ms)
        if isinstance(request, HeartbeatRequest):
            return members.heartbeat(group, request, context, now_ms)
        if isinstance(request, LeaveGroupRequest):
            return members.leave(group, request, context, now_ms)
        shortest_ms = self._config.group_min_session_timeout_ms
        longest_ms = self._config.group_max_session_timeout_ms
        if group.members and shortest_ms <= request.session_timeout_ms <= longest_ms:
            return members.join(group, request, context, now_ms)
        # an empty group becomes a classic one
        builder = self._joins.handle(request, context, now_ms)
        if builder.records:
            builder.records[:0] = group_tombstones(group)
        return builder

    def may_wait(self, request: Request[Any]) -> bool:
        """Return whether a request may be batched: an OffsetCommit of at most ten partitions of one topic."""
        if type(request) is not OffsetCommitRequest:
            return False
        topics = request.topics
        return len(topics) == 1 and len(topics[0].partitions) <= _FEW_PARTITIONS

    def handle_all(
        self, requests: Sequence[tuple[Request[Any], RequestContext]], now_ms: int
    ) -> Result:
        """Handle batched commits that `may_wait`, in order. Return one result for all of them."""
        results = [
            self._offset_metadata.commit(request, context, now_ms)
            for request, context in requests
            if isinstance(request, OffsetCommitRequest)
        ]
        return Result(
            tuple([record for result in results for record in result.records]),
            tuple([reply for result in results for reply in result.replies]),
        )

    def handle_in_steps(
        self, request: Request[Any], context: RequestContext, now_ms: int
    ) -> Generator[None, None, Result]:
        """Handle a commit of many topics, an OffsetFetch, a ConsumerGroupDescribe, or a DeleteGroups, in steps."""
        if isinstance(request, OffsetFetchRequest):
            return self._fetch_in_steps(request, context)
        if isinstance(request, ConsumerGroupDescribeRequest):
            return self._describe_in_steps(request, context)
        if isinstance(request, DeleteGroupsRequest):
            return self._delete_in_steps(request, context, now_ms)
        assert isinstance(request, OffsetCommitRequest | TxnOffsetCommitRequest)
        return self._offset_metadata.commit_in_steps(request, context, now_ms)

    def _fetch_in_steps(
        self, request: OffsetFetchRequest, context: RequestContext
    ) -> Generator[None, None, Result]:
        answer = yield from self._fetches.handle_in_steps(request, context)
        return answered(context, answer)

    def _delete_in_steps(
        self, request: DeleteGroupsRequest, context: RequestContext, now_ms: int
    ) -> Generator[None, None, Result]:
        removals = {}
        for group_id in dict.fromkeys(request.groups_names):
            removals[group_id] = yield from self._admin.removals(group_id)
        return self._hand_out(self._admin.delete(request, context, now_ms, removals))

    def _describe_in_steps(
        self, request: ConsumerGroupDescribeRequest, context: RequestContext
    ) -> Generator[None, None, Result]:
        answer = yield from self._describe(request)
        return answered(context, answer)

    def _describe(
        self, request: ConsumerGroupDescribeRequest
    ) -> Generator[None, None, ConsumerGroupDescribeResponse]:
        groups = []
        for group_id in request.group_ids:
            yield  # first, too: a client may ask for many groups at once
            described = yield from self._consumer.described(group_id)
            groups.append(described)
        return ConsumerGroupDescribeResponse(groups=tuple(groups))

    def encode_in_steps(
        self, request: Request[Any], result: Result
    ) -> Generator[None, None, Result | None]:
        """Encode the records of a large result in steps; None: the group has changed meanwhile, and must decide again.

        Records that cannot be encoded are left as they are: appending them fails, and refuses the request.
        """
        group_id: str = request.group_id  # type: ignore[attr-defined] # only of one group
        # now, and not with the first step, before which others may be handled
        return self._encode(result, self._builder, group_id, self._state_of(group_id))

    def _encode(
        self, result: Result, builder: ResultBuilder | None, group_id: str, before: Any
    ) -> Generator[None, None, Result | None]:
        made = EncodedRecords([], EncodedPairs())
        try:
            for record in result.records:
                yield
                made.records.append(record)
                pair = yield from cast("GroupRecord", record).encoded_in_steps()
                made.pairs.add((pair,))
        except EncodeError:
            made = EncodedRecords([], EncodedPairs())
        yield  # to append and replay them takes as long
        if self._state_of(group_id) != before:
            return None
        if made.records:
            result = result._replace(records=(made,))
        self._builder, self._result = builder, result
        return result

    def _state_of(self, group_id: str) -> Any:
        """Return what a decision about a group depends on, to be compared with what it is later."""
        group = self._consumer_groups.get(group_id)
        if group is not None:
            return group, group.snapshot()
        classic = self._registry.groups.get(group_id)
        return None if classic is None else (classic, classic.snapshot())

    def prepare(self, group_id: str, names: Sequence[str]) -> Generator[None, None, None]:
        """Look up the topics of a large subscription in steps, before a request of the group that names them."""
        return self._consumer.prepare(group_id, names)

    def prepare_join(self, group_id: str, metadata: bytes) -> Generator[None, None, None]:
        """Do the same before the JoinGroup of a classic member."""
        return self._consumer.prepare_join(group_id, metadata)

    def is_long_conversion(self, group_id: str) -> bool:
        """Return whether a group is a classic one so large that its conversion needs `prepare`."""
        return self._consumer.conversion.is_long(group_id)

    def refuse(self, request: Request[Any], error: ErrorCode, api_version: int) -> Response:
        """Build the response that refuses a batched or large request; the error of a commit is mapped as that of an append."""
        if isinstance(request, OffsetFetchRequest):
            return fetch_error(request, error, api_version)
        if isinstance(request, ConsumerGroupDescribeRequest):
            groups = tuple(DescribedGroup(error, group_id=each) for each in request.group_ids)
            return ConsumerGroupDescribeResponse(groups=groups)
        if isinstance(request, DeleteGroupsRequest):
            return delete_error(request, error)
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            return ConsumerGroupHeartbeatResponse(error_code=error, error_message=error.text)
        if isinstance(request, JoinGroupRequest):
            return join_error(error, "", api_version)
        error = append_error(error)
        if isinstance(request, OffsetCommitRequest):
            return commit_error(request, error)
        assert isinstance(request, TxnOffsetCommitRequest), (
            "only commits, fetches of offsets, descriptions and deletions wait or go in steps"
        )
        return transaction_error(request, error, api_version)

    def advance(self, now_ms: int) -> Result:
        """Handle all due deadlines: sessions, rebalance phases, consumer groups' timers and the expiration of offsets."""
        builder = ResultBuilder(now_ms)
        sessions, phases = self._registry.sessions, self._registry.phases
        while min(sessions.next_ms, phases.next_ms) <= now_ms:
            # in the order of their deadlines, if several are overdue
            if sessions.next_ms <= phases.next_ms:
                for session in sessions.pop_due(now_ms):
                    self._rebalances.session_ended(session, builder)
            else:
                for due in phases.pop_due(now_ms):
                    self._rebalances.phase_ended(due, builder)
        if self._consumer_timers.next_ms <= now_ms:
            self._consumer.advance(builder)
        self._expiry.advance(builder)
        return self._hand_out(builder)

    @property
    def deadline_ms(self) -> int | None:
        """When to call `advance` next; None if nothing is scheduled."""
        registry = self._registry
        next_ms, phase_ms = registry.sessions.next_ms, registry.phases.next_ms
        if phase_ms < next_ms:
            next_ms = phase_ms
        consumer_ms = self._consumer_timers.next_ms
        if consumer_ms < next_ms:
            next_ms = consumer_ms
        expiry_ms = self._expiry.next_ms
        if expiry_ms is not None and expiry_ms < next_ms:
            return expiry_ms
        return None if next_ms == NEVER else next_ms

    def topics_deleted(self, names: Iterable[str], now_ms: int) -> Iterator[Result]:
        """Write tombstones for the offsets of deleted topics, pending ones included; each result is to be applied before the next."""
        builder = ResultBuilder(now_ms)
        gone = tuple(names)
        for group_id in self._offsets.all_group_ids():
            for topic in gone:
                for partition in sorted(self._offsets.partitions_of(group_id, topic)):
                    if len(builder.records) >= MAX_TOMBSTONES:
                        yield self._hand_out(builder)
                        builder = ResultBuilder(now_ms)
                    builder.write(OffsetTombstone(group_id, topic, partition))
        yield self._hand_out(builder)

    def assigned(self, job: AssignmentJob, outcome: Outcome, now_ms: int) -> Result:
        """Handle the outcome of an assignor that ran on another thread. Called on the shard's own thread."""
        return self._hand_out(self._consumer.assigned(job, outcome, now_ms))

    def decode(self, records: Sequence[Pair]) -> Iterable[Record]:
        """Decode keys and values of the log; records of unsupported types are skipped."""
        return self._decoder.decode(records)

    def replay(self, record: Record, producer: ProducerStamp | None = None) -> None:
        """Apply one record, while loading or right after it was appended; nothing else changes durable state.

        Offsets of a producer stay pending until `replay_marker`.
        """
        if type(record) is OffsetCommitRecords:
            group_id = record.group_id
            if group_id not in self._registry.groups and group_id not in self._consumer_groups:
                self._registry.replay_offset(group_id)
            self._offsets.replay(record, producer)
        elif type(record) is EncodedRecords:
            self._replay_all(record.records, producer)
        elif isinstance(record, OffsetTombstone):
            self._offsets.replay_tombstone(record)
        elif not isinstance(record, GroupRecord):
            raise TypeError(f"{type(record).__name__} is not a record of __consumer_offsets")
        elif isinstance(record, CoordinatorRecord) and isinstance(record.key, GroupMetadataKey):
            assert record.value is None or isinstance(record.value, GroupMetadataValue)
            self._registry.replay(record.key.group, record.value)
        else:
            self._consumer_registry.replay(record)

    def _replay_all(self, records: Sequence[Any], producer: ProducerStamp | None) -> None:
        is_commit = bool(records) and type(records[0]) is OffsetCommitRecords
        replay = self._offsets.replay if is_commit else self.replay
        for record in records[:1]:
            self.replay(record, producer)  # the first of a commit may create its group
        for record in records[1:]:
            replay(record, producer)

    def replay_marker(self, producer: ProducerStamp, *, committed: bool) -> None:
        """Apply a commit or abort marker read from, or just appended to, this partition."""
        self._offsets.replay_marker(producer.producer_id, committed=committed)

    def written(self, result: Result, now_ms: int) -> Result:
        """Run the callbacks that waited for the records of a result, after these were replayed."""
        builder = self._builder
        if builder is None or result is not self._result:
            return NOTHING
        self._builder = self._result = None
        if not builder.following:
            return NOTHING
        after = ResultBuilder(now_ms)
        for following in builder.following:
            following(after)
        return self._hand_out(after)

    def loaded(self, now_ms: int) -> Result:
        """Start serving: every member gets a new session, as its heartbeats went to another coordinator until now.

        Groups above group.max.size rebalance.
        """
        builder = ResultBuilder(now_ms)
        for group in list(self._registry.groups.values()):
            for member in group.members.values():
                self._registry.renew_session(member, now_ms)
            if len(group.members) > self._config.group_max_size:
                reason = f"the group has {len(group.members)} members, more than group.max.size"
                self._rebalances.prepare(group, reason, builder)
        self._consumer.loaded(now_ms)
        self._expiry.start(now_ms)
        return self._hand_out(builder)

    def append_failed(self, result: Result, error: ErrorCode, now_ms: int) -> Result:
        """Continue after the records of a result could not be appended. Return the replies to send instead."""
        if result.refusal is not None:
            return Result(replies=result.refusal(append_error(error)))
        builder = self._builder
        if builder is None or result is not self._result:
            return NOTHING
        self._builder = self._result = None
        again = ResultBuilder(now_ms)
        again.replies.extend(builder.replies)
        told = append_error(error)
        for failed in builder.failures:
            failed(again, told)
        return self._hand_out(again)

    def unload(self, error: ErrorCode, now_ms: int) -> Result:
        """Answer all parked requests with an error, and stop serving."""
        builder = ResultBuilder(now_ms)
        for group in self._registry.groups.values():
            for member in group.members.values():
                self._rebalances.answer_parked(group, member, error, builder)
                self._registry.sessions.clear(member)
            for pending in (group.pending_joins or {}).values():
                self._registry.sessions.clear(pending)
            self._registry.phases.clear(group)
            group.move(GroupTrigger.UNLOADED, now_ms)
        self._expiry.stop()
        return self._hand_out(builder)

    def listed(self, request: ListGroupsRequest) -> Iterator[ListedGroup | None]:
        """Yield groups one by one, as ListGroups does; see `Administration.listed`."""
        return self._admin.listed(request)

    @property
    def group_ids(self) -> tuple[str, ...]:
        """The ids of all groups of either kind."""
        return (*self._registry.groups, *self._consumer_groups)

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """Return a live consumer group, which the caller must not change; None if there is none."""
        return self._consumer_groups.get(group_id)

    def group(self, group_id: str) -> GroupView | None:
        """Return a snapshot of a classic group; None if there is none."""
        group = self._registry.groups.get(group_id)
        return None if group is None else group_view(group)

    def status(self, group_id: str) -> GroupStatus | None:
        """Return the status of a group of either kind; None if there is none."""
        group = self._registry.groups.get(group_id)
        return self._consumer.status(group_id) if group is None else group_status(group)

    def consumer_view(self, group_id: str) -> ConsumerGroupView | None:
        """Return a snapshot of a consumer group; None if there is none."""
        return self._consumer.view(group_id)

    @property
    def member_count(self) -> int:
        """The number of members of all groups."""
        classic = sum(len(each.members) for each in self._registry.groups.values())
        return classic + sum(len(each.members) for each in self._consumer_groups.values())

    @property
    def offset_count(self) -> int:
        """The number of committed offsets of all groups, pending ones excluded."""
        return sum(
            len(partitions)
            for group_id in self._offsets.all_group_ids()
            for partitions in self._offsets.topics(group_id).values()
        )

    def offsets(self, group_id: str) -> Mapping[tuple[str, int], CommittedOffset]:
        """Return a copy of the committed offsets of a group by (topic, partition)."""
        return MappingProxyType(
            {
                (topic, partition): stored
                for topic, partitions in self._offsets.topics(group_id).items()
                for partition, stored in partitions.items()
            }
        )

    def _hand_out(self, builder: ResultBuilder) -> Result:
        result = builder.result()
        if builder.records:
            self._builder, self._result = builder, result
        return result
