"""Handle the offset APIs: refuse unknown and unauthorized partitions, and pass the others to the coordinator."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from itertools import chain, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from groupsdk.broker.catalogue import OFFSETS_TOPIC
from groupsdk.broker.coordinator.offsets.commit_validation import (
    TRANSACTION_TOPIC_IDS_FROM,
    for_txn_offset_commit,
    sliced,
)
from groupsdk.broker.server.apis import newest_version
from groupsdk.broker.server.call import Call, allowed, ask, gather
from groupsdk.broker.server.contract import BadRequestError
from groupsdk.broker.server.error_responses import refuse
from groupsdk.broker.server.pace import Steps
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages import offsets as messages
from groupsdk.wire.messages.group_admin import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from groupsdk.wire.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from groupsdk.wire.schema import ApiKey, Response


if TYPE_CHECKING:
    from groupsdk.broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime


_GROUPS_FROM = 8
_IDS_FROM: Final = 10
"""The first version of OffsetCommit and OffsetFetch with topic ids instead of names (KIP-848)."""
_MANY_BYTES: Final = 64 * 1024
_MANY_TOPICS: Final = 128
"""The number of topics from which a response with all offsets of a group is encoded in steps."""
_LEAST_RECORD: Final = 32
"""The minimum size of a committed offset in the log, in bytes."""

_PARTITIONS: Final = attrgetter("partitions")
T = TypeVar("T")

Refusals = dict[tuple[str, int], ErrorCode]


def offset_commit(call: Call, request: messages.OffsetCommitRequest) -> Response | Steps | None:
    """Handle OffsetCommit; requires "read" on the group and the topics.

    A commit of no partition, or of none that exists, is answered without the coordinator: it renews no session.
    More offsets than one batch of the log can hold are refused with INVALID_COMMIT_OFFSET_SIZE. A large commit is
    checked in steps, and its coordinator gets it as one request.
    """
    node = call.connection.node
    cluster = node.cluster
    group_id = request.group_id
    guarded = cluster.config.authorizer_class_name
    if guarded and not allowed(call, "read", "group", group_id):
        return refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED, call.route.version)
    if call.request_bytes > _MANY_BYTES:
        if _too_many(call, request.topics):
            return refuse(request, ErrorCode.INVALID_COMMIT_OFFSET_SIZE, call.route.version)
        return _commit_in_steps(call, request)
    by_id = call.route.version >= _IDS_FROM
    if by_id:
        request = replace(request, topics=_named(call, request.topics))
    refused = _refused(call, request.topics, by_id=by_id)
    runtime = cluster.groups.runtime_for(node.node_id, group_id)
    if not refused and request.topics and all(map(_PARTITIONS, request.topics)):
        ask(call, runtime, request, call.answer)
        return None
    kept = _without(request.topics, refused)

    def finish(response: Any) -> None:
        codes = _Codes(refused)
        codes.add(response.topics)
        answers = _commit_answers(call, request.topics, codes)
        call.answer(messages.OffsetCommitResponse(topics=answers))

    if not kept:
        finish(messages.OffsetCommitResponse())
        return None
    ask(call, runtime, replace(request, topics=kept), finish)
    return None


def _commit_in_steps(call: Call, request: messages.OffsetCommitRequest) -> Steps:
    """Check the topics of a large commit some at a time, and build its response in the same way."""
    checked = yield from _check_in_steps(call, request.topics, by_id=call.version >= _IDS_FROM)
    if not checked.kept:
        topics = yield from _answers_in_steps(call, checked, (), _commit_answers)
        return messages.OffsetCommitResponse(topics=topics)

    def rest(response: Any) -> Steps:
        topics = yield from _answers_in_steps(call, checked, response.topics, _commit_answers)
        return messages.OffsetCommitResponse(topics=topics)

    def finish(response: Any) -> None:
        if len(checked.kept) < len(checked.topics) or checked.refused:
            call.go_on_with(request, rest(response))
        else:
            call.answer(messages.OffsetCommitResponse(topics=_merged(response.topics)))

    # one request, so that the coordinator decides on all offsets and appends them at once
    runtime = call.node.cluster.groups.runtime_for(call.node.node_id, request.group_id)
    ask(call, runtime, replace(request, topics=tuple(checked.kept)), finish, is_large=True)
    return None


class _Checked(NamedTuple):
    """The topics of a large commit, with their names; those that the coordinator gets; and what is refused."""

    topics: list[Any]
    kept: list[Any]
    refused: Refusals


def _check_in_steps(
    call: Call, topics: Sequence[Any], *, by_id: bool
) -> Generator[None, None, _Checked]:
    checked = _Checked([], [], {})
    for some in sliced(topics):
        named = _named(call, some) if by_id else some
        more = _refused(call, named, by_id=by_id)
        checked.topics.extend(named)
        checked.kept.extend(
            _without(named, more) if more else [each for each in named if each.partitions]
        )
        checked.refused.update(more)
        yield
    return checked


def _answers_in_steps(
    call: Call,
    checked: _Checked,
    decided: Sequence[Any],
    answers_of: Callable[[Call, Sequence[Any], "_Codes"], tuple[T, ...]],
) -> Generator[None, None, tuple[T, ...]]:
    """Build the response to a large commit from the coordinator's topics and the refused ones."""
    codes = _Codes(checked.refused)
    for some in sliced(decided):
        codes.add(some)
        yield
    answers: list[T] = []
    for some in sliced(checked.topics):
        answers += answers_of(call, some, codes)
        yield
    return _merged(answers)


def _merged(topics: Sequence[T]) -> tuple[T, ...]:
    """Join the pieces of topics, which come one right after the other."""
    merged = []
    for _, pieces in groupby(topics, lambda each: (each.name, each.topic_id)):  # type: ignore[attr-defined]
        first, *others = pieces
        if others:
            every: Any = chain.from_iterable(each.partitions for each in (first, *others))  # type: ignore[attr-defined]
            first = replace(first, partitions=tuple(every))  # type: ignore[type-var]
        merged.append(first)
    return tuple(merged)


def _commit_answers(
    call: Call, topics: Sequence[Any], codes: "_Codes"
) -> tuple[messages.OffsetCommitResponseTopic, ...]:
    return tuple(
        messages.OffsetCommitResponseTopic(
            topic.name,
            topic.topic_id,
            _partitions(topic, codes, messages.OffsetCommitResponsePartition),
        )
        for topic in topics
        if _is_answered(call, topic)
    )


def _transaction_answers(
    call: Call, topics: Sequence[Any], codes: "_Codes"
) -> tuple[TxnOffsetCommitResponseTopic, ...]:
    return tuple(
        TxnOffsetCommitResponseTopic(
            topic.name, topic.topic_id, _partitions(topic, codes, TxnOffsetCommitResponsePartition)
        )
        for topic in topics
        if _is_answered(call, topic)
    )


def _is_answered(call: Call, topic: Any) -> bool:
    """Return whether a topic of a commit is in the response; without a partition, only one that does not exist is."""
    return bool(topic.partitions) or topic.name not in call.node.cluster.catalogue.topics


def _too_many(call: Call, topics: Sequence[Any]) -> bool:
    """Return whether there are more offsets than one batch of the group's log can hold, so that none would be stored."""
    count = sum(len(topic.partitions) for topic in topics)
    config = call.node.cluster.logs.topic_config(OFFSETS_TOPIC)
    return count * _LEAST_RECORD > config.max_message_bytes


def txn_offset_commit(call: Call, request: TxnOffsetCommitRequest) -> Response | Steps | None:
    """Handle TxnOffsetCommit: the offsets become part of the producer's transaction. A large one is handled in steps.

    Requires "write" on the transactional id, and "read" on the group and the topics.
    """
    version = call.version
    problem = _transaction_problem(call, request)
    if problem is not None:
        return refuse(request, problem, version)
    by_id = version >= TRANSACTION_TOPIC_IDS_FROM
    if call.request_bytes > _MANY_BYTES:
        return _transaction_in_steps(call, request, by_id=by_id)
    if by_id:
        request = replace(request, topics=_named(call, request.topics))
    refused = _refused(call, request.topics, by_id=by_id)
    kept = _without(request.topics, refused)

    def finish(response: Any) -> None:
        codes = _Codes(refused)
        codes.add(response.topics)
        answers = _transaction_answers(call, request.topics, codes)
        call.answer(TxnOffsetCommitResponse(topics=answers))

    if not kept:
        finish(TxnOffsetCommitResponse())
        return None
    return _commit_in_transaction(call, request, kept, finish)


def _transaction_in_steps(call: Call, request: TxnOffsetCommitRequest, *, by_id: bool) -> Steps:
    """As `_commit_in_steps`, for a large commit in a transaction."""
    checked = yield from _check_in_steps(call, request.topics, by_id=by_id)

    def rest(response: Any) -> Steps:
        topics = yield from _answers_in_steps(call, checked, response.topics, _transaction_answers)
        return TxnOffsetCommitResponse(topics=topics)

    if not checked.kept:
        return (yield from rest(TxnOffsetCommitResponse()))
    return _commit_in_transaction(
        call, request, checked.kept, lambda response: call.go_on_with(request, rest(response))
    )


def _commit_in_transaction(
    call: Call,
    request: TxnOffsetCommitRequest,
    kept: Sequence[Any],
    finish: Callable[[Any], None],
) -> Response | None:
    """Have the coordinator write the offsets once the transaction includes them; `finish` gets its response."""
    node, version = call.node, call.version
    if not request.group_id:
        return refuse(request, ErrorCode.INVALID_GROUP_ID, version)
    groups = node.cluster.groups

    def commit(error: ErrorCode) -> None:
        asked = replace(request, topics=tuple(kept))
        runtime: CoordinatorRuntime | ErrorCode = error
        if error is ErrorCode.NONE:
            runtime = groups.runtime_for(node.node_id, request.group_id)
        if isinstance(runtime, ErrorCode):
            runtime = for_txn_offset_commit(runtime, version)
        ask(call, runtime, asked, finish, is_large=call.request_bytes > _MANY_BYTES)

    from groupsdk.broker.server.transaction_check import check_offsets

    check_offsets(call, request, groups.partition_for(request.group_id), commit)
    return None


def _transaction_problem(call: Call, request: TxnOffsetCommitRequest) -> ErrorCode | None:
    """Return the error for a TxnOffsetCommit that cannot be accepted; None if it can."""
    release = call.node.cluster.config.group_consumer_release
    if call.version > newest_version(ApiKey.TXN_OFFSET_COMMIT, release):
        raise BadRequestError(
            f"TxnOffsetCommit version {call.version} is not supported:"
            f" group.consumer.release is {release}"
        )
    if not allowed(call, "write", "transactional_id", request.transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not allowed(call, "read", "group", request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if call.request_bytes > _MANY_BYTES and _too_many(call, request.topics):
        return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    return None


def offset_fetch(call: Call, request: messages.OffsetFetchRequest) -> Response | None:
    """Handle OffsetFetch, of one group up to version 7 and of several from version 8 on.

    Requires "describe" on the group and the topics; in a request for all topics the others are omitted.
    """
    node = call.node
    groups = node.cluster.groups
    if call.version < _GROUPS_FROM:
        group_id = request.group_id
        if not allowed(call, "describe", "group", group_id):
            return refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED, call.version)
        runtime = groups.runtime_for(node.node_id, group_id)
        every = request.topics is None

        def finish(found: Any) -> None:
            call.large = len(found.topics) > _MANY_TOPICS
            call.answer(_of_old(call, found, every=every))

        ask(call, runtime, request, finish, is_large=every)
        return None
    denied = {
        each.group_id
        for each in request.groups
        if not allowed(call, "describe", "group", each.group_id)
    }
    unknown: dict[str, list[messages.OffsetFetchResponseTopics]] = {}
    parts = []
    for each in request.groups:
        if each.group_id in denied:
            continue
        asked = each
        if call.version >= _IDS_FROM and each.topics is not None:
            asked, unknown[each.group_id] = _known(call, each)
        runtime = groups.runtime_for(node.node_id, each.group_id)
        parts.append((runtime, replace(request, groups=(asked,))))

    def combine(answers: list[messages.OffsetFetchResponse]) -> messages.OffsetFetchResponse:
        found = {
            group.group_id: _with_unknown(group, unknown.get(group.group_id))
            for answer in answers
            for group in answer.groups
        }
        forbidden = ErrorCode.GROUP_AUTHORIZATION_FAILED
        groups = []
        for each in request.groups:
            group = found.get(each.group_id)
            if group is None:
                group = messages.OffsetFetchResponseGroup(each.group_id, (), forbidden)
            shown = _shown(call, group.topics, every=each.topics is None)
            call.large |= len(shown) > _MANY_TOPICS
            groups.append(replace(group, topics=shown))
        return messages.OffsetFetchResponse(groups=tuple(groups))

    every = any(each.topics is None for each in request.groups)
    return gather(call, parts, combine, is_large=every)


def _known(
    call: Call, asked: messages.OffsetFetchRequestGroup
) -> tuple[messages.OffsetFetchRequestGroup, list[messages.OffsetFetchResponseTopics]]:
    """Resolve the requested topics; those with unknown ids are answered immediately."""
    named = _named(call, asked.topics)
    unknown = [
        messages.OffsetFetchResponseTopics(
            topic_id=topic.topic_id,
            partitions=tuple(
                messages.OffsetFetchResponsePartitions(
                    partition_index=index,
                    committed_offset=-1,
                    error_code=ErrorCode.UNKNOWN_TOPIC_ID,
                )
                for index in topic.partition_indexes
            ),
        )
        for topic in named
        if not topic.name
    ]
    return replace(asked, topics=tuple(topic for topic in named if topic.name)), unknown


def _with_unknown(
    group: messages.OffsetFetchResponseGroup,
    unknown: list[messages.OffsetFetchResponseTopics] | None,
) -> messages.OffsetFetchResponseGroup:
    if not unknown or group.error_code:
        return group
    return replace(group, topics=(*group.topics, *unknown))


def _of_old(call: Call, response: Any, *, every: bool) -> Response:
    """Return the response for one group, as in versions up to 7."""
    answer: Response = replace(response, topics=_shown(call, response.topics, every=every))
    return answer


def _shown(call: Call, topics: tuple[T, ...], *, every: bool) -> tuple[T, ...]:
    """Remove the offsets of topics that the client may not describe.

    A topic requested by name is answered with an error; if `every` topic was requested, it is omitted.
    """
    if call.node.cluster.authorizer is None:
        return topics
    shown = []
    for topic in topics:
        found: Any = topic
        if not allowed(call, "describe", "topic", found.name):
            if every:
                continue
            found = replace(
                found, partitions=tuple([_hidden(partition) for partition in found.partitions])
            )
        shown.append(found)
    return tuple(shown)


def _hidden(partition: Any) -> Any:
    forbidden = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return replace(partition, committed_offset=-1, metadata="", error_code=forbidden)


def offset_delete(call: Call, request: OffsetDeleteRequest) -> Response | None:
    """Handle OffsetDelete; requires "delete" on the group, and "read" on the topics."""
    node = call.node
    if not allowed(call, "delete", "group", request.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    refused = _refused(call, request.topics)
    kept = _without(request.topics, refused) if refused else request.topics

    def finish(response: Any) -> None:
        if response.error_code:
            call.answer(response)
            return
        codes = _Codes(refused)
        codes.add(response.topics)
        answers = tuple(
            OffsetDeleteResponseTopic(
                topic.name, _partitions(topic, codes, OffsetDeleteResponsePartition)
            )
            for topic in request.topics
        )
        call.answer(OffsetDeleteResponse(topics=answers))

    runtime = node.cluster.groups.runtime_for(node.node_id, request.group_id)
    ask(call, runtime, replace(request, topics=kept), finish)
    return None


def _named(call: Call, topics: Any) -> tuple[Any, ...]:
    """Look up the names of topics requested by id; an unknown topic has none."""
    known = call.node.cluster.catalogue.topics_by_id
    return tuple(
        replace(topic, name=known[topic.topic_id].name if topic.topic_id in known else "")
        for topic in topics
    )


def _refused(call: Call, topics: Any, *, by_id: bool = False) -> Refusals:
    """Find the partitions that the client may not use, or that do not exist."""
    cluster = call.connection.node.cluster
    known = cluster.catalogue.topics
    guarded = cluster.config.authorizer_class_name  # checked once: this runs with every commit
    refused: Refusals = {}
    for asked in topics:
        topic = known.get(asked.name)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        count = 0 if topic is None else len(topic.partitions)
        if by_id and topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
        elif guarded and not allowed(call, "read", "topic", asked.name):
            code, count = ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0
        for partition in asked.partitions:
            if not 0 <= partition.partition_index < count:
                refused[asked.name, partition.partition_index] = code
    return refused


def _without(topics: Any, refused: Refusals) -> tuple[Any, ...]:
    kept = []
    for topic in topics:
        partitions = tuple(
            partition
            for partition in topic.partitions
            if (topic.name, partition.partition_index) not in refused
        )
        if partitions:
            kept.append(replace(topic, partitions=partitions))
    return tuple(kept)


class _Codes:
    """The error codes of a request's partitions; one that is named twice has two, in the order of the request."""

    __slots__ = ("_codes",)

    def __init__(self, refused: Refusals) -> None:
        self._codes: dict[tuple[str, int], list[int]] = {
            each: [code] for each, code in refused.items()
        }

    def add(self, topics: Sequence[Any]) -> None:
        """Add the codes of topics that the coordinator answered."""
        for topic in topics:
            for partition in topic.partitions:
                self._codes.setdefault((topic.name, partition.partition_index), []).append(
                    partition.error_code
                )

    def take(self, topic: str, partition: int) -> int:
        """Return the next code of a partition; the last one stays."""
        found = self._codes[topic, partition]
        return found.pop(0) if len(found) > 1 else found[0]


def _partitions(
    topic: Any, codes: _Codes, partition_class: Callable[[int, int], T]
) -> tuple[T, ...]:
    """Return each partition of a request's topic with its error code, in the order of the request."""
    return tuple(
        partition_class(
            partition.partition_index, codes.take(topic.name, partition.partition_index)
        )
        for partition in topic.partitions
    )
