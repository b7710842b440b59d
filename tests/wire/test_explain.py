"""Tests the explanation of a message that cannot be encoded."""

from uuid import UUID

import pytest

from groupsdk.wire.encoder import explain_encode
from groupsdk.wire.messages.groups import HeartbeatRequest
from groupsdk.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupsdk.wire.messages.offsets import OffsetFetchRequest, OffsetFetchRequestTopic
from groupsdk.wire.schema import Message


def explained(message: Message, version: int) -> str:
    return str(explain_encode(type(message), message, version, ValueError("the cause")))


def test_the_cause_is_told_where_nothing_is_found() -> None:
    assert explained(HeartbeatRequest(), 4) == "HeartbeatRequest v4: the cause"


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (MetadataRequest(topics=7), "topics must be a tuple, not int"),  # type: ignore[arg-type]
        (
            MetadataRequest(topics=("t",)),  # type: ignore[arg-type]
            "topics[0] must be MetadataRequestTopic, not str",
        ),
        (
            MetadataRequest(topics=(MetadataRequestTopic("x"),)),  # type: ignore[arg-type]
            "topics[0].topic_id must be UUID, not str",
        ),
        (
            MetadataRequest(topics=(MetadataRequestTopic(UUID(int=1), 5),)),  # type: ignore[arg-type]
            "topics[0].name must be str, not int",
        ),
        (
            MetadataRequest(allow_auto_topic_creation="no"),  # type: ignore[arg-type]
            "allow_auto_topic_creation must be bool, not str",
        ),
    ],
)
def test_the_first_problem_is_told_with_its_place(message: Message, problem: str) -> None:
    assert explained(message, 12) == f"{type(message).__name__} v12: {problem}"


def test_integers_in_arrays_have_a_place() -> None:
    topics = (OffsetFetchRequestTopic("t", (1, 1 << 40)),)

    assert explained(OffsetFetchRequest("g", topics), 7) == (
        "OffsetFetchRequest v7: topics[0].partition_indexes[1] is 1099511627776,"
        " which does not fit 32 bits"
    )
