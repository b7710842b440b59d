"""Tests requests that are answered part by part: what is cut is put together again, whatever its shape."""

from dataclasses import replace
from typing import Any

from hypothesis import given, strategies as st

from groupsdk.broker.server.apis import APIS
from groupsdk.broker.server.split_requests import PARTS, parts_of, paths_of, together
from groupsdk.wire.api import request_class
from groupsdk.wire.messages.groups import DescribeGroupsRequest
from groupsdk.wire.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from groupsdk.wire.schema import ArrayType, declared_fields


_SAME = (("groups", "groups"), ("topics", "topics"), ("partition_indexes", "partition_indexes"))
shapes = st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=4)


def fetched(shape: list[list[int]]) -> OffsetFetchRequest:
    """Builds a request for groups of topics of so many partitions."""
    return OffsetFetchRequest(
        groups=tuple(
            OffsetFetchRequestGroup(
                f"g{group}",
                topics=tuple(
                    OffsetFetchRequestTopics(f"t{topic}", partition_indexes=tuple(range(count)))
                    for topic, count in enumerate(topics)
                ),
            )
            for group, topics in enumerate(shape)
        )
    )


def leaves(request: Any) -> int:
    return sum(
        max(sum(max(len(topic.partition_indexes), 1) for topic in group.topics or ()), 1)
        for group in request.groups
    )


@given(shapes, st.integers(1, 5))
def test_split_request_merges_to_the_original(shape: list[list[int]], size: int) -> None:
    request = fetched(shape)

    parts = list(parts_of(request, _SAME, size))

    assert all(leaves(part) <= size for part, _ in parts)
    assert sum(leaves(part) for part, _ in parts) == leaves(request)
    if parts:
        assert together(parts, _SAME) == request


def test_an_answer_may_leave_elements_out() -> None:
    request = fetched([[3, 2], [4]])
    cut = list(parts_of(request, _SAME, 2))
    answers = [
        (replace(part, groups=()) if n else part, depth) for n, (part, depth) in enumerate(cut)
    ]
    assert together(answers, _SAME).groups == cut[0][0].groups


def test_the_arrays_are_those_of_the_messages() -> None:
    for key, every in PARTS.items():
        request = request_class(key)
        for paths in every:
            asked: Any = request
            answer: Any = request.response_class
            for ours, theirs in paths:
                assert asked is not None, (key, paths)
                asked, answer = _element(asked, ours), _element(answer, theirs)
        assert key in APIS


def _element(declared: Any, name: str) -> Any:
    (found,) = [each for each in declared_fields(declared) if each.name == name]
    assert isinstance(found.type, ArrayType)
    element = found.type.element
    return (
        element if isinstance(element, type) and hasattr(element, "__dataclass_fields__") else None
    )


def test_small_requests_and_all_are_left_whole() -> None:
    assert paths_of(15, DescribeGroupsRequest(("g",) * 256)) is None
    assert paths_of(15, DescribeGroupsRequest(("g",) * 257)) == (("groups", "groups"),)
    assert paths_of(3, request_class(3)()) is None
    assert paths_of(12, request_class(12)()) is None


def test_whether_to_split_is_decided_by_the_first_elements() -> None:
    few = fetched([[300]]).groups
    unseen: Any = (None,) * 1_000  # these have no topics to look at
    assert paths_of(9, OffsetFetchRequest(groups=few + unseen)) is not None
    topics = OffsetFetchRequestGroup(
        "g", topics=(fetched([[0] * 300]).groups[0].topics or ()) + unseen
    )
    assert paths_of(9, OffsetFetchRequest(groups=(topics,))) is not None
