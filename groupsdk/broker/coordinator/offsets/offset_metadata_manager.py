"""Commit and store offsets: fencing, records and replay (Kafka: OffsetMetadataManager)."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import repeat
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from uuid import UUID

from groupsdk.broker.coordinator.classic.registry import GroupRegistry
from groupsdk.broker.coordinator.consumer.coordinator import ConsumerGroupCoordinator
from groupsdk.broker.coordinator.consumer.topics import EndOffsets, TopicInfo
from groupsdk.broker.coordinator.group.records import (
    NO_EPOCH,
    CommittedOffset,
    OffsetCommitRecords,
    OffsetTombstone,
)
from groupsdk.broker.coordinator.group_status import GroupState
from groupsdk.broker.coordinator.offsets.commit_validation import (
    CommitRequest,
    Place,
    sliced,
    txn_offset_commit_error,
    validate_commit,
)
from groupsdk.broker.coordinator.runtime.contract import (
    EncodedRecords,
    ProducerStamp,
    Record,
    Reply,
    RequestContext,
    Result,
)
from groupsdk.error_code import ErrorCode
from groupsdk.errors import EncodeError
from groupsdk.limits import MAX_INT64, MAX_STRING_BYTES
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from groupsdk.wire.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from groupsdk.wire.records.record import EncodedPairs
from groupsdk.wire.schema import NO_UUID
from groupsdk.wire.twin import maker


_NO_EXPIRY: Final = -1
_IN_A_STEP: Final = 128
_MAX_CACHED: Final = 128
"""The most partitions of a topic whose part of a response is cached."""

_NONE = ErrorCode.NONE
_TOO_LARGE = ErrorCode.OFFSET_METADATA_TOO_LARGE
_STABLE = GroupState.STABLE
_PREPARING = GroupState.PREPARING_REBALANCE

RequestTopic = OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic
PartitionErrors = Sequence[ErrorCode]
"""The errors of a topic's partitions in the order of the request; empty: all are accepted."""


class TopicIdentity(Protocol):
    """The identity of a topic, which is stored with committed offsets."""

    @property
    def topic_id(self) -> UUID:
        """The topic id; a recreated topic of the same name has another one."""


class PendingOffset(NamedTuple):
    """An offset of an open transaction."""

    number: int
    """Ascending in the order of the records in the log."""
    offset: CommittedOffset | None
    """None: a later record has committed the partition, and the end of the transaction does not change that."""


V = TypeVar("V")
Topics = dict[str, dict[int, V]]
_NO_GROUPS: Final[Mapping[str, Topics[PendingOffset]]] = {}


class OffsetStore:
    """The committed offsets by group, topic and partition (Kafka: OffsetMetadataManager).

    Only the replay of records and markers changes it.
    """

    __slots__ = ("_by_group", "_open", "_pending", "_pending_count")

    def __init__(self) -> None:
        self._by_group: dict[str, Topics[CommittedOffset]] = {}
        self._pending: dict[int, dict[str, Topics[PendingOffset]]] = {}  # by producer id
        self._open: dict[str, set[int]] = {}  # producers with pending offsets, by group
        self._pending_count = 0

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        """Return the committed offset of a partition; None if there is none."""
        topics = self._by_group.get(group_id)
        if topics is None:
            return None
        partitions = topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def topics(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """Return the committed offsets of a group by topic and partition: a live view, to be read at once."""
        return self._by_group.get(group_id, {})

    def lags(
        self, group_id: str, topics: Iterable[TopicInfo], end_offset: EndOffsets
    ) -> dict[UUID, dict[int, int]]:
        """Return how many records of topics are behind the group's committed offsets, where both ends are known."""
        found: dict[UUID, dict[int, int]] = {}
        committed = self._by_group.get(group_id, {})
        for topic in topics:
            lags = found[topic.topic_id] = {}
            for partition, stored in committed.get(topic.name, {}).items():
                end = end_offset(topic.name, partition)
                if end is not None and stored.offset >= 0:
                    lags[partition] = max(0, end - stored.offset)
        return found

    def is_unstable(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether an open transaction may change the committed offset of a partition (KIP-447)."""
        for producer_id in self._open.get(group_id, ()):
            if partition in self._pending[producer_id][group_id].get(topic, ()):
                return True
        return False

    def has_open_transactions(self, group_id: str) -> bool:
        """Return whether a group has offsets pending in open transactions."""
        return group_id in self._open

    def partitions(self, group_id: str) -> Iterator[tuple[str, int]]:
        """Yield the partitions with committed or pending offsets of a group as (topic, partition), without duplicates."""
        committed = self._by_group.get(group_id, {})
        for topic, partitions in committed.items():
            for partition in partitions:
                yield topic, partition
        seen: set[tuple[str, int]] = set()
        for producer_id in self._open.get(group_id, ()):
            for topic, pending in self._pending[producer_id][group_id].items():
                for partition in pending:
                    place = topic, partition
                    if partition not in committed.get(topic, ()) and place not in seen:
                        seen.add(place)
                        yield place

    def count(self, group_id: str) -> int:
        """Return the number of committed offsets of a group."""
        return sum(map(len, self._by_group.get(group_id, {}).values()))

    def partitions_of(self, group_id: str, topic: str) -> set[int]:
        """Return the partitions of a topic with committed or pending offsets of a group."""
        found = set(self._by_group.get(group_id, {}).get(topic, ()))
        for producer_id in self._open.get(group_id, ()):
            found.update(self._pending[producer_id][group_id].get(topic, ()))
        return found

    def all_group_ids(self) -> list[str]:
        """Return the ids of groups with committed or pending offsets."""
        return [*self._by_group, *(each for each in self._open if each not in self._by_group)]

    def replay(self, record: OffsetCommitRecords, producer: ProducerStamp | None) -> None:
        """Store the offsets of one topic; those of a transaction stay pending until it ends.

        The later record in the log wins, whenever the transactions end, as compaction keeps that one.
        """
        group_id, topic, offsets = record
        if producer is not None:
            self._hold(record, producer.producer_id)
            return
        topics = self._by_group.get(group_id)
        if topics is None:
            topics = self._by_group[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            topics[topic] = dict(offsets)
        else:
            partitions.update(offsets)
        if group_id in self._open:
            self._supersede(group_id, topic, offsets, self._pending_count + 1)

    def replay_tombstone(self, record: OffsetTombstone) -> None:
        """Remove the committed and pending offsets of a partition."""
        group_id, topic, partition = record
        _remove(self._by_group, group_id, topic, partition)
        for producer_id in tuple(self._open.get(group_id, ())):
            groups = self._pending[producer_id]
            _remove(groups, group_id, topic, partition)
            if group_id not in groups:
                self._close(group_id, producer_id)
            if not groups:
                del self._pending[producer_id]

    def replay_marker(self, producer_id: int, *, committed: bool) -> None:
        """End a producer's transaction: its pending offsets, if any, take effect or are dropped."""
        for group_id, topics in self._pending.pop(producer_id, {}).items():
            self._close(group_id, producer_id)
            if not committed:
                continue
            is_open = group_id in self._open
            for topic, partitions in topics.items():
                kept = {index: each[1] for index, each in partitions.items() if each[1] is not None}
                if kept:
                    self._by_group.setdefault(group_id, {}).setdefault(topic, {}).update(kept)
                for partition in kept if is_open else ():
                    self._supersede(group_id, topic, (partition,), partitions[partition].number)

    def _hold(self, record: OffsetCommitRecords, producer_id: int) -> None:
        group_id, topic, offsets = record
        topics = self._pending.get(producer_id, _NO_GROUPS).get(group_id)
        if topics is None:
            topics = self._pending.setdefault(producer_id, {}).setdefault(group_id, {})
            self._open.setdefault(group_id, set()).add(producer_id)
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        new, kind, number = tuple.__new__, PendingOffset, self._pending_count
        for index, offset in offsets.items():
            number += 1
            partitions[index] = new(kind, (number, offset))
        self._pending_count = number

    def _supersede(self, group_id: str, topic: str, indexes: Iterable[int], before: int) -> None:
        """Record that partitions were committed later than the pending offsets numbered below `before`."""
        for producer_id in self._open.get(group_id, ()):
            partitions = self._pending[producer_id][group_id].get(topic)
            if partitions is None:
                continue
            for index in indexes:
                pending = partitions.get(index)
                if pending is not None and pending.number < before:
                    partitions[index] = PendingOffset(pending.number, None)

    def _close(self, group_id: str, producer_id: int) -> None:
        producers = self._open.get(group_id)
        if producers is not None:
            producers.discard(producer_id)
            if not producers:
                del self._open[group_id]


def _remove(groups: dict[str, Topics[V]], group_id: str, topic: str, partition: int) -> None:
    topics = groups.get(group_id)
    partitions = None if topics is None else topics.get(topic)
    if topics is None or partitions is None:
        return
    partitions.pop(partition, None)
    if not partitions:
        del topics[topic]
    if not topics:
        del groups[group_id]


Prepared = tuple[EncodedRecords, list[Any]]
"""The encoded records of a large commit, and the topics of its response if it is accepted."""


class OffsetMetadataManager:
    """Handles OffsetCommit and TxnOffsetCommit: validates the member, then writes the offsets.

    Kafka 4.4 stores offsets of transactions with topic ids.
    """

    __slots__ = (
        "_consumer_groups",
        "_registry",
        "_topics",
        "_transactions_have_ids",
    )

    def __init__(
        self,
        registry: GroupRegistry,
        consumer_groups: ConsumerGroupCoordinator,
        topics: Mapping[str, TopicIdentity],
        transactions_have_ids: Callable[[], bool],
    ) -> None:
        self._registry = registry
        self._consumer_groups = consumer_groups
        self._topics = topics
        self._transactions_have_ids = transactions_have_ids

    def commit(
        self,
        request: OffsetCommitRequest,
        context: RequestContext,
        now_ms: int,
        prepared: Prepared | None = None,
    ) -> Result:
        """Handle OffsetCommit; the commit of a classic member renews its session, as a heartbeat does.

        A group or fencing error is repeated for every partition; metadata longer than offset.metadata.max.bytes fails
        only its partition. A generation below 0 without a group creates a group with offsets only.
        """
        group_id = request.group_id
        group = self._registry.groups.get(group_id)
        error = validate_commit(
            group or self._consumer_groups.group(group_id),
            request,
            context.api_version,
            self._storable,
        )
        if error is not _NONE:
            return Result((), _refused(request, context.token, error))
        if group is not None and (group.state is _STABLE or group.state is _PREPARING):
            member = group.members[request.member_id]
            self._registry.sessions.set(member, now_ms + member.session_timeout_ms)
        retention_ms = request.retention_time_ms
        expire_ms = _NO_EXPIRY if retention_ms == _NO_EXPIRY else _later(now_ms, retention_ms)
        records: list[Record] = []
        if prepared is not None:
            made, answers = prepared
            records += [made] if made.records else []
        else:
            answers = []
            for topic in request.topics:
                if topic.partitions:
                    errors = self._write(group_id, topic, now_ms, expire_ms, records)
                    answers.append(_topic_answer(topic, errors))
        reply = Reply(context.token, _new_response(0, tuple(answers)))
        if not records:
            return Result((), (reply,))
        return Result(tuple(records), (reply,), partial(_refused, request, context.token))

    def commit_transactional(
        self,
        request: TxnOffsetCommitRequest,
        context: RequestContext,
        now_ms: int,
        prepared: Prepared | None = None,
    ) -> Result:
        """Handle TxnOffsetCommit: the offsets take effect when the producer's transaction commits (KIP-447)."""
        token, version = context.token, context.api_version
        group_id = request.group_id
        if group_id:
            group = self._registry.groups.get(group_id) or self._consumer_groups.group(group_id)
            error = validate_commit(group, request, version, self._storable)
        else:
            error = ErrorCode.INVALID_GROUP_ID
        if error is not _NONE:
            return Result((), (Reply(token, transaction_error(request, error, version)),))
        has_ids = self._transactions_have_ids()
        records: list[Record] = []
        if prepared is not None:
            made, answers = prepared
            records += [made] if made.records else []
            answer = TxnOffsetCommitResponse(topics=tuple(answers))
        else:
            answer = transaction_answer(
                (
                    topic,
                    self._write(group_id, topic, now_ms, _NO_EXPIRY, records, has_ids=has_ids),
                )
                for topic in request.topics
                if topic.partitions
            )
        if not records:
            return Result((), (Reply(token, answer),))
        return Result(
            tuple(records),
            (Reply(token, answer),),
            lambda failure: (Reply(token, transaction_error(request, failure, version)),),
            ProducerStamp(request.producer_id, request.producer_epoch),
        )

    def commit_in_steps(
        self, request: CommitRequest, context: RequestContext, now_ms: int
    ) -> Generator[None, None, Result]:
        """Handle a commit of many topics: build and encode its records in steps, and then decide on all of them at once.

        Where a record cannot be encoded, they are encoded when they are appended, which refuses them all.
        """
        expire_ms, has_ids = _NO_EXPIRY, True
        if isinstance(request, TxnOffsetCommitRequest):
            has_ids = self._transactions_have_ids()
        elif request.retention_time_ms != _NO_EXPIRY:
            expire_ms = _later(now_ms, request.retention_time_ms)
        made = EncodedRecords([], EncodedPairs())
        answers: list[Any] = []
        prepared: Prepared | None = (made, answers)
        try:
            for some in sliced(request.topics, _IN_A_STEP):
                answers += self._encode(request, some, now_ms, expire_ms, made, has_ids=has_ids)
                yield
        except EncodeError:
            prepared = None
        if isinstance(request, TxnOffsetCommitRequest):
            return self.commit_transactional(request, context, now_ms, prepared)
        return self.commit(request, context, now_ms, prepared)

    def _encode(
        self,
        request: CommitRequest,
        topics: Sequence[Any],
        now_ms: int,
        expire_ms: int,
        made: EncodedRecords,
        *,
        has_ids: bool,
    ) -> tuple[Any, ...]:
        """Encode the offsets of some topics of a large commit. Return the topics of its response if it is accepted."""
        records: list[Any] = []
        group_id = request.group_id
        answers: list[Any] = [
            (
                topic,
                self._write(group_id, topic, now_ms, expire_ms, records, has_ids=has_ids),
            )
            for topic in topics
            if topic.partitions
        ]
        made.records.extend(records)
        made.pairs.add([pair for record in records for pair in record.encoded()])
        if isinstance(request, TxnOffsetCommitRequest):
            return transaction_answer(answers).topics
        return commit_answer(answers).topics

    def _storable(self, request: CommitRequest) -> Iterator[Place]:
        """List the partitions whose metadata is not too large; only these are checked for an older epoch."""
        limit = self._registry.config.offset_metadata_max_bytes
        for topic in request.topics:
            known = self._topics.get(topic.name)
            for partition in topic.partitions:
                metadata = partition.committed_metadata
                if not metadata or not _is_too_large(metadata, limit):
                    yield None if known is None else known.topic_id, partition.partition_index

    def _write(
        self,
        group_id: str,
        topic: RequestTopic,
        now_ms: int,
        expire_ms: int,
        records: list[Record],
        *,
        has_ids: bool = True,
    ) -> PartitionErrors:
        """Write the offsets of one topic, except those with too large metadata."""
        partitions: Sequence[Any] = topic.partitions
        errors: PartitionErrors = ()
        if [each for each in partitions if each.committed_metadata]:
            limit = self._registry.config.offset_metadata_max_bytes
            errors = [
                _TOO_LARGE if _is_too_large(each.committed_metadata or "", limit) else _NONE
                for each in partitions
            ]
            partitions = [each for each, error in zip(partitions, errors, strict=True) if not error]
        expires = expire_ms != _NO_EXPIRY
        # the record version with an expiration time has neither leader epoch nor topic id
        topic_id = topic.topic_id
        known = self._topics.get(topic.name)
        if topic_id is NO_UUID and known is not None:
            topic_id = known.topic_id
        if expires or not has_ids:
            topic_id = NO_UUID
        new, kind = tuple.__new__, CommittedOffset  # NamedTuple's own __new__ takes twice as long
        offsets: dict[int, CommittedOffset] = {}
        for partition in partitions:
            epoch = NO_EPOCH if expires else partition.committed_leader_epoch
            metadata = partition.committed_metadata or ""
            offsets[partition.partition_index] = new(
                kind,
                (partition.committed_offset, epoch, metadata, now_ms, expire_ms, topic_id),
            )
        if offsets:
            self._registry.counters.offset_commits += len(offsets)
            records.append(OffsetCommitRecords(group_id, topic.name, offsets))
        return errors


def _refused(request: OffsetCommitRequest, token: int, error: ErrorCode) -> tuple[Reply, ...]:
    return (Reply(token, commit_error(request, error)),)


def _later(now_ms: int, retention_ms: int) -> int:
    return min(now_ms + retention_ms, MAX_INT64)


def _is_too_large(metadata: str, limit: int) -> bool:
    """Return whether metadata is longer than offset.metadata.max.bytes, or than a record can hold."""
    if len(metadata) * 2 > limit and _utf16_length(metadata) > limit:
        return True
    size = len(metadata)
    return size * 4 > MAX_STRING_BYTES and len(metadata.encode()) > MAX_STRING_BYTES


def _utf16_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-be", "surrogatepass")) // 2


def commit_answer(
    topics: Iterable[tuple[OffsetCommitRequestTopic, PartitionErrors]],
) -> OffsetCommitResponse:
    return _new_response(0, tuple([_topic_answer(topic, errors) for topic, errors in topics]))


def _topic_answer(
    topic: OffsetCommitRequestTopic, errors: PartitionErrors
) -> OffsetCommitResponseTopic:
    indexes = tuple([partition.partition_index for partition in topic.partitions])
    answer = _answered if len(indexes) <= _MAX_CACHED else _answered.__wrapped__
    return answer(topic.name, topic.topic_id, indexes, tuple(errors))


def commit_error(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """Build the response to a refused commit, with the error repeated for every partition."""
    return commit_answer(
        (topic, (error,) * len(topic.partitions)) for topic in request.topics if topic.partitions
    )


def transaction_answer(
    topics: Iterable[tuple[TxnOffsetCommitRequestTopic, PartitionErrors]],
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(partition.partition_index, error)
                    for partition, error in zip(
                        topic.partitions, errors or repeat(_NONE), strict=False
                    )
                ),
            )
            for topic, errors in topics
        )
    )


def transaction_error(
    request: TxnOffsetCommitRequest, error: ErrorCode, api_version: int
) -> TxnOffsetCommitResponse:
    """Build the response to a refused commit within a transaction, with the error as this version knows it."""
    error = txn_offset_commit_error(error, api_version)
    return transaction_answer(
        (topic, (error,) * len(topic.partitions)) for topic in request.topics if topic.partitions
    )


@lru_cache(maxsize=1024)
def _answered(
    name: str, topic_id: UUID, indexes: tuple[int, ...], errors: PartitionErrors
) -> OffsetCommitResponseTopic:
    # a consumer commits the same partitions until its assignment changes
    codes = errors or repeat(_NONE)
    return OffsetCommitResponseTopic(name, topic_id, tuple(map(_partition, indexes, codes)))


_partition = lru_cache(maxsize=4096)(OffsetCommitResponsePartition)
_new_response = maker(OffsetCommitResponse)
