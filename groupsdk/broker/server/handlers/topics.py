"""Handle CreateTopics, DeleteTopics, CreatePartitions and DeleteRecords."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

from groupsdk.broker.catalogue import INTERNAL_TOPICS, Topic, topic_name_problem
from groupsdk.broker.cluster import ClusterError
from groupsdk.broker.log.errors import StorageError
from groupsdk.broker.server.call import Call, allowed, cluster_allowed
from groupsdk.broker.server.pace import CHANGE_COSTS, Pace, Steps, counted, log_costs
from groupsdk.broker.settings.topic import FIXED, InvalidLogConfigError, LogConfig
from groupsdk.broker.store import StoreError
from groupsdk.error_code import ErrorCode
from groupsdk.errors import GroupSdkError
from groupsdk.wire.messages import topics as messages
from groupsdk.wire.messages.log_offsets import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from groupsdk.wire.schema import NO_UUID


MAX_PARTITIONS: Final = 10_000
"""The most partitions that one request may create, as in Kafka."""
_BY_ID: Final = 6
_DELETION_COSTS: Final = 32
"""The weight of moving the start of a log, in simple elements."""
_STORE_ERROR: Final = "The broker cannot write to its disk."
_DUPLICATE_NAME: Final = "Duplicate topic name."
_TOPIC_SOURCE: Final = 1
_DEFAULT_SOURCE: Final = 5


def create_topics(call: Call, request: messages.CreateTopicsRequest) -> Steps:
    """Create the valid topics, in steps, with one result for each topic; a name given twice is refused once.

    Requires "create" on the cluster or the topic.
    """
    names = yield from counted(topic.name for topic in request.topics)
    results = []
    seen: set[str] = set()
    room = MAX_PARTITIONS
    pace = Pace()
    for asked in request.topics:
        if pace.due(CHANGE_COSTS):
            call.large = True
            yield
        if names[asked.name] > 1:
            if asked.name not in seen:
                seen.add(asked.name)
                results.append(_refused(asked.name, ErrorCode.INVALID_REQUEST, _DUPLICATE_NAME))
            continue
        try:
            result = _create(call, asked, room, validate_only=request.validate_only)
            room -= result.num_partitions
        except ClusterError as error:
            result = _refused(asked.name, error.error_code, str(error))
        except StoreError as error:
            # topics before it in the request may have been created
            result = _refused(asked.name, error.error_code, _STORE_ERROR)
        results.append(result)
    return messages.CreateTopicsResponse(topics=tuple(results))


def _refused(name: str, code: ErrorCode, text: str) -> messages.CreatableTopicResult:
    return messages.CreatableTopicResult(name, error_code=code, error_message=text)


def _create(
    call: Call, asked: messages.CreatableTopic, room: int, *, validate_only: bool
) -> messages.CreatableTopicResult:
    cluster = call.node.cluster
    name = asked.name
    if not cluster_allowed(call, "create") and not allowed(call, "create", "topic", name):
        raise ClusterError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    problem = topic_name_problem(name)
    if problem is not None:
        raise ClusterError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
    if name in cluster.catalogue.topics:
        raise ClusterError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = cluster.catalogue.collision(name)
    if other is not None:
        raise ClusterError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {other}",
        )
    leaders = _leaders(call, asked)
    if len(leaders) > room:
        raise ClusterError(
            ErrorCode.POLICY_VIOLATION,
            f"Excessively large number of partitions per request: at most {MAX_PARTITIONS}",
        )
    entries = {each.name: each.value for each in asked.configs if each.value is not None}
    config = _parsed(call, entries)
    topic_id = NO_UUID
    if not validate_only:
        if None in leaders:
            (topic,) = cluster.create_topics({name: len(leaders)}, {name: entries})
        else:
            placed = [leader for leader in leaders if leader is not None]
            (topic,) = cluster.create_placed_topics({name: placed}, {name: entries})
        topic_id = topic.topic_id
    return _created(call, name, topic_id, len(leaders), entries, config)


def _leaders(call: Call, asked: messages.CreatableTopic) -> list[int | None]:
    """Return the leader of each partition; None to assign the next node in turn."""
    nodes = call.node.cluster.nodes
    if asked.assignments:
        if asked.num_partitions != -1 or asked.replication_factor != -1:
            raise ClusterError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but the number of partitions or the"
                " replication factor was not -1",
            )
        by_index = {each.partition_index: each.broker_ids for each in asked.assignments}
        if sorted(by_index) != list(range(len(asked.assignments))):
            raise ClusterError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "partitions should be a consecutive 0-based integer sequence",
            )
        for broker_ids in by_index.values():
            _check_assignment(call, broker_ids)
        return [by_index[index][0] for index in sorted(by_index)]
    config = call.node.cluster.config
    count = config.num_partitions if asked.num_partitions == -1 else asked.num_partitions
    if count < 1:
        raise ClusterError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    factor = asked.replication_factor
    if factor == 0 or factor < -1:
        raise ClusterError(
            ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1."
        )
    if factor > len(nodes):
        raise ClusterError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): The target replication factor of"
            f" {factor} cannot be reached because only {len(nodes)} broker(s) are registered.",
        )
    # refuse a count above the limit before allocating memory for it
    return [None] * min(count, MAX_PARTITIONS + 1)


def _check_assignment(call: Call, broker_ids: tuple[int, ...]) -> None:
    """Check the replicas of one partition (Kafka: `ReplicationControlManager.validateManualPartitionAssignment`)."""
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    text = "The manual partition assignment includes"
    if not broker_ids:
        raise ClusterError(code, f"{text} an empty replica list.")
    previous = None
    for broker_id in sorted(broker_ids):
        if broker_id not in call.node.cluster.nodes:
            raise ClusterError(
                code, f"{text} broker {broker_id}, but no such broker is registered."
            )
        if broker_id == previous:
            raise ClusterError(code, f"{text} the broker {broker_id} more than once.")
        previous = broker_id


def _parsed(call: Call, entries: dict[str, str]) -> LogConfig:
    try:
        return LogConfig.parse(entries, call.node.cluster.logs.defaults)
    except InvalidLogConfigError as error:
        raise ClusterError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _created(
    call: Call,
    name: str,
    topic_id: UUID,
    partitions: int,
    entries: dict[str, str],
    config: LogConfig,
) -> messages.CreatableTopicResult:
    if not allowed(call, "describe_configs", "topic", name):
        return messages.CreatableTopicResult(
            name,
            topic_id,
            error_message=None,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            num_partitions=-1,
            replication_factor=-1,
            configs=None,
        )
    shown = tuple(
        messages.CreatableTopicConfigs(
            key, value, key in FIXED, _TOPIC_SOURCE if key in entries else _DEFAULT_SOURCE, False
        )
        for key, value in sorted(config.properties().items())
    )
    return messages.CreatableTopicResult(
        name,
        topic_id,
        error_message=None,
        num_partitions=partitions,
        replication_factor=1,
        configs=shown if call.version >= 5 else (),
    )


def delete_topics(call: Call, request: messages.DeleteTopicsRequest) -> Steps:
    """Delete topics by name or, from version 6 on, by id, in steps; internal topics are refused.

    One that is given twice is not deleted. Requires "delete" on the topic.
    """
    asked: Iterator[tuple[str | None, UUID]] = (
        ((topic.name, topic.topic_id) for topic in request.topics)
        if call.version >= _BY_ID
        else ((name, NO_UUID) for name in request.topic_names)
    )
    counts = yield from counted(asked)
    responses = []
    gone: list[Topic] = []
    pace = Pace()
    for each in counts:
        if pace.due(CHANGE_COSTS):
            call.large = True
            yield
        answer = _deletion(call, *each, counts, gone)
        if answer is not None:
            responses.append(answer)
    yield from call.node.cluster.records_deletion(gone)
    return messages.DeleteTopicsResponse(responses=tuple(responses))


def _deletion(
    call: Call,
    name: str | None,
    topic_id: UUID,
    counts: Mapping[tuple[str | None, UUID], int],
    gone: list[Topic],
) -> messages.DeletableTopicResult | None:
    """Answer one topic of DeleteTopics; take it from the catalogue and add it to `gone` if it is to be deleted.

    None for the id of a topic that is given by name as well: the answer for the name refuses both.
    """
    result = messages.DeletableTopicResult
    catalogue = call.node.cluster.catalogue
    problem = _naming_problem(name, topic_id, counts)
    if problem is not None:
        return result(name, topic_id, ErrorCode.INVALID_REQUEST, problem)
    by_id = name is None
    topic = catalogue.topics_by_id.get(topic_id) if name is None else catalogue.topics.get(name)
    if name is None:
        if topic is None or not allowed(call, "describe", "topic", topic.name):
            return result(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        name = topic.name
    code = _deletion_refusal(call, name, topic)
    if code is not ErrorCode.NONE or topic is None:
        return result(name, topic_id, code, code.text)
    if counts.get((name, NO_UUID)) == 1 and (None, topic.topic_id) in counts:
        text = "The provided topic name maps to an ID that was already supplied."
        refused = result(name, topic.topic_id, ErrorCode.INVALID_REQUEST, text)
        return None if by_id else refused
    try:
        gone.append(catalogue.delete_topic(name))
    except StoreError as error:
        # topics before it in the request may have been deleted
        return result(name, topic_id, error.error_code, _STORE_ERROR)
    return result(name, topic.topic_id, error_message=None)


def _naming_problem(
    name: str | None, topic_id: UUID, counts: Mapping[tuple[str | None, UUID], int]
) -> str | None:
    if (name is None) == (topic_id == NO_UUID):
        # neither identifies a topic, and both could identify two different ones
        return "specify either the name or the id of the topic"
    if counts[name, topic_id] > 1:
        return "Duplicate topic id." if name is None else _DUPLICATE_NAME
    return None


def _deletion_refusal(call: Call, name: str, topic: Topic | None) -> ErrorCode:
    if not allowed(call, "delete", "topic", name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not call.node.cluster.config.delete_topic_enable:
        return ErrorCode.TOPIC_DELETION_DISABLED
    return ErrorCode.INVALID_REQUEST if topic.is_internal else ErrorCode.NONE


def create_partitions(call: Call, request: messages.CreatePartitionsRequest) -> Steps:
    """Add partitions to topics, in steps; internal topics are refused, and those given twice, once.

    Requires "alter" on the topic.
    """
    names = yield from counted(topic.name for topic in request.topics)
    results = []
    seen: set[str] = set()
    pace = Pace()
    for asked in request.topics:
        if pace.due(CHANGE_COSTS):
            yield
        if asked.name in seen:
            continue
        seen.add(asked.name)
        try:
            _check_once(asked.name, names)
            _grow(call, asked, validate_only=request.validate_only)
            results.append(messages.CreatePartitionsTopicResult(asked.name))
        except ClusterError as error:
            results.append(
                messages.CreatePartitionsTopicResult(asked.name, error.error_code, str(error))
            )
    return messages.CreatePartitionsResponse(results=tuple(results))


def _check_once(name: str, names: Mapping[str, int]) -> None:
    if names[name] > 1:
        raise ClusterError(ErrorCode.INVALID_REQUEST, _DUPLICATE_NAME)


def _grow(call: Call, asked: messages.CreatePartitionsTopic, *, validate_only: bool) -> None:
    cluster = call.node.cluster
    if not allowed(call, "alter", "topic", asked.name):
        raise ClusterError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    topic = cluster.catalogue.topics.get(asked.name)
    if topic is None:
        raise ClusterError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.is_internal:
        # a group's partition depends on the number of partitions
        raise ClusterError(
            ErrorCode.INVALID_REQUEST, "partitions cannot be added to an internal topic"
        )
    have = len(topic.partitions)
    if asked.count <= have:
        text = f"Topic already has {have} partition(s)."
        if asked.count < have:
            text = (
                f"The topic {asked.name} currently has {have} partition(s); {asked.count} would"
                " not be an increase."
            )
        raise ClusterError(ErrorCode.INVALID_PARTITIONS, text)
    placed = _placed(call, asked, asked.count - have)
    if validate_only:
        return
    if placed:
        cluster.catalogue.add_partitions(asked.name, placed)
    else:
        cluster.add_partitions(asked.name, asked.count)


def _placed(call: Call, asked: messages.CreatePartitionsTopic, more: int) -> list[int]:
    """Return the leaders that a request names for the partitions to add, if it names any."""
    if more > MAX_PARTITIONS:
        raise ClusterError(
            ErrorCode.POLICY_VIOLATION, f"at most {MAX_PARTITIONS} partitions per request"
        )
    if asked.assignments is not None and len(asked.assignments) not in {0, more}:
        raise ClusterError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{more} partition(s) are to be added, but there are assignments for {len(asked.assignments)}",
        )
    for each in asked.assignments or ():
        _check_assignment(call, each.broker_ids)
    return [each.broker_ids[0] for each in asked.assignments or ()]


def delete_records(call: Call, request: DeleteRecordsRequest) -> Steps:
    """Delete the records before an offset, in steps; -1 deletes all records. Requires "delete" on the topic."""
    pace, logs = Pace(), call.node.cluster.logs
    topics = []
    for topic in request.topics:
        deleted: list[DeleteRecordsPartitionResult] = []
        some: list[DeleteRecordsPartition] = []
        for each in topic.partitions:
            if pace.due(max(_DELETION_COSTS, log_costs(logs, topic.name, each.partition_index))):
                deleted += _delete_some(call, topic.name, some)
                some = []
                yield
            some.append(each)
        deleted += _delete_some(call, topic.name, some)
        topics.append(DeleteRecordsTopicResult(topic.name, tuple(deleted)))
    return DeleteRecordsResponse(topics=tuple(topics))


def _delete_some(
    call: Call, name: str, partitions: Sequence[DeleteRecordsPartition]
) -> list[DeleteRecordsPartitionResult]:
    """Delete records of some partitions of a topic, with one checkpoint for all of them."""
    results: list[DeleteRecordsPartitionResult] = []
    try:
        with call.node.cluster.logs.one_checkpoint():
            results.extend(
                _delete_records(call, name, each.partition_index, each.offset)
                for each in partitions
            )
    except StorageError as error:
        code = error.error_code
        return [
            DeleteRecordsPartitionResult(each.partition_index, -1, each.error_code or code)
            for each in results
        ]
    return results


def _delete_records(
    call: Call, name: str, partition: int, offset: int
) -> DeleteRecordsPartitionResult:
    node = call.node
    if not allowed(call, "delete", "topic", name):
        return DeleteRecordsPartitionResult(partition, -1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if name in INTERNAL_TOPICS:
        return DeleteRecordsPartitionResult(partition, -1, ErrorCode.INVALID_TOPIC_EXCEPTION)
    try:
        start = node.cluster.led_log(node.node_id, name, partition).delete_records(offset)
    except GroupSdkError as error:
        code = getattr(error, "error_code", ErrorCode.UNKNOWN_SERVER_ERROR)
        return DeleteRecordsPartitionResult(partition, -1, code)
    return DeleteRecordsPartitionResult(partition, start)
