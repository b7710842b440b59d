"""Test the requests about offsets, and how their answers are read."""

from typing import Any

import pytest

from groupsdk.assignment import TopicPartition
from groupsdk.error_code import ErrorCode
from groupsdk.errors import BrokerError
from groupsdk.offsets import (
    check_commit,
    check_offsets,
    checked_partitions,
    commit_errors,
    commit_request,
    fetch_request,
    name_of,
    numbers_by_topic,
    read_fetched,
)
from groupsdk.snapshot import MemberSnapshot
from groupsdk.types import OffsetAndMetadata
from groupsdk.wire.messages.offsets import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from tests.consumer.rig import partitions
from tests.drivers.views import GENERATION, view
from tests.drivers.virtual import config


T0, T1, U0 = partitions("t-0", "t-1", "u-0")


def test_a_commit_carries_the_whole_fence() -> None:
    snapshot = MemberSnapshot.of(config(group_instance_id="pod"), view(), 0)
    offsets = {
        U0: OffsetAndMetadata(7),
        T1: OffsetAndMetadata(2, 4, "note"),
        T0: OffsetAndMetadata(1),
    }
    request = commit_request(snapshot, offsets)
    assert request.group_id == "group"
    assert request.generation_id_or_member_epoch == GENERATION.generation_id
    assert (request.member_id, request.group_instance_id) == (GENERATION.member_id, "pod")
    first, second = request.topics
    assert (first.name, second.name) == ("t", "u")
    assert [each.committed_offset for each in first.partitions] == [1, 2]
    assert first.partitions[1].committed_leader_epoch == 4
    assert first.partitions[1].committed_metadata == "note"


def test_offset_without_an_answer_was_not_stored() -> None:
    response = OffsetCommitResponse(
        topics=(
            OffsetCommitResponseTopic(
                "t",
                partitions=(
                    OffsetCommitResponsePartition(0, 0),
                    OffsetCommitResponsePartition(1, 12),
                ),
            ),
        )
    )
    offsets = dict.fromkeys((T0, T1, U0), OffsetAndMetadata(1))
    assert commit_errors(response, offsets) == {T1: 12, U0: ErrorCode.REQUEST_TIMED_OUT}


@pytest.mark.parametrize(
    ("codes", "raised"), [((3, 16), 16), ((16, 22), 22), ((3, 3), 3), ((0, 100), 100)]
)
def test_error_of_a_commit_is_the_gravest_and_a_topic_that_is_gone_the_least(
    codes: tuple[int, int], raised: int
) -> None:
    answered = tuple(
        OffsetCommitResponsePartition(partition_index=number, error_code=code)
        for number, code in enumerate(codes)
    )
    response = OffsetCommitResponse(
        topics=(OffsetCommitResponseTopic(name="t", partitions=answered),)
    )
    with pytest.raises(BrokerError) as caught:
        check_commit(response, dict.fromkeys((T0, T1), OffsetAndMetadata(1)))
    assert caught.value.code == raised


def test_offsets_are_asked_for_in_order_and_stable() -> None:
    request = fetch_request("g", [U0, T1, T0])
    assert request.require_stable
    (group,) = request.groups
    assert group.group_id == "g"
    assert [(each.name, each.partition_indexes) for each in group.topics or ()] == [
        ("t", (0, 1)),
        ("u", (0,)),
    ]


def old(offset: int, code: int = 0, group_code: int = 0) -> OffsetFetchResponse:
    each = OffsetFetchResponsePartition(0, offset, 3, None, code)
    return OffsetFetchResponse(
        topics=(OffsetFetchResponseTopic("t", (each,)),), error_code=group_code
    )


def new(offset: int, code: int = 0, group_code: int = 0) -> OffsetFetchResponse:
    each = OffsetFetchResponsePartitions(0, offset, 3, None, code)
    topics = (OffsetFetchResponseTopics("t", partitions=(each,)),)
    return OffsetFetchResponse(groups=(OffsetFetchResponseGroup("g", topics, group_code),))


@pytest.mark.parametrize("answer", [old, new])
def test_answers_of_all_versions_are_read_alike(answer: Any) -> None:
    assert read_fetched(answer(5), [T0]) == ({T0: OffsetAndMetadata(5, 3, "")}, set())
    assert read_fetched(answer(-1), [T0]) == ({T0: None}, set())
    assert read_fetched(answer(-1, 88), [T0]) == ({}, {T0})
    assert read_fetched(answer(5), [T1]) == ({T1: None}, set())
    with pytest.raises(BrokerError, match="OffsetFetch of t-0"):
        read_fetched(answer(5, 29), [T0])
    with pytest.raises(BrokerError, match="NOT_COORDINATOR"):
        read_fetched(answer(5, 0, 16), [T0])


def test_names_and_groups() -> None:
    assert name_of(TopicPartition("a-b", 3)) == "a-b-3"
    assert numbers_by_topic([U0, T1, T0]) == {"t": (0, 1), "u": (0,)}


@pytest.mark.parametrize(
    ("call", "given", "told"),
    [
        (checked_partitions, "t", r"TopicPartition\(topic, partition\), not 't'"),
        (checked_partitions, T0, "not TopicPartition"),
        (checked_partitions, ["t"], "it has 't'"),
        (checked_partitions, 5, "not 5"),
        (check_offsets, [T0], r"a mapping of TopicPartition\(.*\) to OffsetAndMetadata"),
        (check_offsets, {T0: 5}, r"it has TopicPartition\(.*\): 5"),
        (check_offsets, {"t": OffsetAndMetadata(5)}, "it has 't'"),
    ],
)
def test_argument_of_another_kind_is_refused_with_what_is_due(
    call: Any, given: object, told: str
) -> None:
    with pytest.raises(TypeError, match=told):
        call(given)
