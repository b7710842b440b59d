"""Build an error response to any request, with the error in every field that can carry one."""

from typing import Any, Final

from groupsdk.error_code import ErrorCode
from groupsdk.wire.schema import ArrayType, Request, Response, Struct, declared_fields


_ERROR_FIELDS: Final = frozenset({"error_code", "partition_error_code"})
_ALIASES: Final = {
    ("ProduceResponse", "responses"): ("topic_data",),
    ("TopicProduceResponse", "partition_responses"): ("partition_data",),
    ("FetchResponse", "responses"): ("topics",),
    ("PartitionData", "partition_index"): ("partition",),
    ("FindCoordinatorResponse", "coordinators"): ("coordinator_keys",),
    ("DeleteGroupsResponse", "results"): ("groups_names",),
    ("OffsetFetchResponseTopic", "partitions"): ("partition_indexes",),
    ("OffsetFetchResponseTopics", "partitions"): ("partition_indexes",),
    ("AddPartitionsToTxnResponse", "results_by_topic_v3_and_below"): ("v3_and_below_topics",),
    ("AddPartitionsToTxnResponse", "results_by_transaction"): ("transactions",),
    ("AddPartitionsToTxnResult", "topic_results"): ("topics",),
    ("AddPartitionsToTxnTopicResult", "results_by_partition"): ("partitions",),
    ("DeleteTopicsResponse", "responses"): ("topics", "topic_names"),
    ("DescribeConfigsResponse", "results"): ("resources",),
    ("AlterConfigsResponse", "responses"): ("resources",),
    ("IncrementalAlterConfigsResponse", "responses"): ("resources",),
    ("CreatePartitionsResponse", "results"): ("topics",),
    ("CreateAclsResponse", "results"): ("creations",),
    ("DeleteAclsResponse", "filter_results"): ("filters",),
    ("DescribeTransactionsResponse", "transaction_states"): ("transactional_ids",),
}
"""The request fields of which a response field under another name repeats the elements."""

_NOTHING_FOUND: Final[dict[str, Any]] = {
    "base_offset": -1,
    "committed_offset": -1,
    "generation_id": -1,
    "high_watermark": -1,
    "host": "",
    "node_id": -1,
    "offset": -1,
    "port": -1,
    "producer_epoch": -1,
    "producer_id": -1,
    "records": b"",
}
"""The values of response fields that have no value in an error response."""


def failure_code(error: BaseException) -> int | None:
    """Return the error code that an exception carries for clients; None if it has none, and so is a bug."""
    code = getattr(error, "error_code", None)
    return int(code) if isinstance(code, int) else None


def refuse(request: Request[Any], code: int, version: int) -> Response | None:
    """Build the response to a request with the same error everywhere; None if it has no field for an error."""
    found = _mirrored(request.response_class, request, code, version)
    return found if isinstance(found, Response) and _tells(found, version) else None


def _mirrored(answer: type[Struct], asked: Any, code: int, version: int) -> Struct:
    values: dict[str, Any] = {}
    keyed = not isinstance(asked, Struct)
    for each in declared_fields(answer):
        if version not in each.versions or each.tag is not None:
            continue
        name = each.name
        if name in _ERROR_FIELDS:
            values[name] = code
        elif name == "error_message":
            values[name] = ErrorCode.of(code).text
        elif keyed:
            # a name or number in the request corresponds to a struct in the response
            if type(each.default) is type(asked):
                values[name] = asked
                keyed = False
        elif isinstance(each.type, ArrayType):
            values[name] = _elements(answer, name, each.type, asked, code, version)
        elif name in _NOTHING_FOUND:
            values[name] = _NOTHING_FOUND[name]
        else:
            source = _source(answer, name, asked)
            if isinstance(source, type(each.default)):
                values[name] = source
    return answer(**values)


def _elements(
    answer: type[Struct], name: str, kind: ArrayType, asked: Any, code: int, version: int
) -> tuple[Any, ...]:
    element = kind.element
    source = _source(answer, name, asked)
    if not (isinstance(element, type) and issubclass(element, Struct)) or not source:
        return ()
    return tuple(_mirrored(element, each, code, version) for each in source)


def _source(answer: type[Struct], name: str, asked: Any) -> Any:
    """Return the request's value for a field of the response; None if it has none."""
    for alias in _ALIASES.get((answer.__name__, name), (name,)):
        found = getattr(asked, alias, None)
        if found:
            return found
    return None


def _tells(answer: Struct, version: int) -> bool:
    """Return whether a response can carry an error, even in a list that is empty."""
    return _has_error(type(answer), version)


def _has_error(struct: type[Struct], version: int) -> bool:
    for each in declared_fields(struct):
        if version not in each.versions:
            continue
        if each.name in _ERROR_FIELDS:
            return True
        if isinstance(each.type, ArrayType):
            element = each.type.element
            if (
                isinstance(element, type)
                and issubclass(element, Struct)
                and _has_error(element, version)
            ):
                return True
    return False
