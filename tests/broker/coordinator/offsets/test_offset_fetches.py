from uuid import UUID

import pytest

from groupsdk.broker.coordinator.offsets.offset_fetches import fetch_error
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from groupsdk.wire.schema import NO_UUID
from tests.broker.coordinator.group.driving import GROUP, QUICK, Driver


def committed() -> Driver:
    driver = Driver(QUICK)
    driver.commit({0: 5, 1: 6}, metadata="m")
    driver.commit({0: 7}, topic="u")
    return driver


@pytest.mark.parametrize("version", range(1, 8))
def test_one_group_up_to_version_7(version: int) -> None:
    topic = OffsetFetchRequestTopic("t", (1, 4))

    answer = committed().ask(OffsetFetchRequest(GROUP, (topic,)), version)

    (found,) = answer.topics
    assert [
        (e.partition_index, e.committed_offset, e.metadata, e.error_code) for e in found.partitions
    ] == [(1, 6, "m", 0), (4, -1, "", 0)]
    assert answer.error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [8, 9])
def test_several_groups_from_version_8(version: int) -> None:
    named = (OffsetFetchRequestTopics("u", partition_indexes=(0,)),)
    groups = (
        OffsetFetchRequestGroup(GROUP, topics=named),
        OffsetFetchRequestGroup("no-such-group", topics=named),
        OffsetFetchRequestGroup("no-such-group", topics=None),
    )

    answer = committed().ask(OffsetFetchRequest(groups=groups), version)

    assert [
        [(e.committed_offset, e.committed_leader_epoch) for t in g.topics for e in t.partitions]
        for g in answer.groups
    ] == [[(7, -1)], [(-1, -1)], []]
    assert [each.group_id for each in answer.groups] == [each.group_id for each in groups]


def test_all_that_there_is() -> None:
    answer = committed().ask(OffsetFetchRequest(GROUP, None), 7)

    assert {
        (topic.name, each.partition_index): each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
    } == {("t", 0): 5, ("t", 1): 6, ("u", 0): 7}


@pytest.mark.parametrize("stable", [False, True])
def test_an_open_transaction_makes_its_partitions_unstable_for_who_asks(stable: bool) -> None:
    driver = committed()
    driver.commit_in_transaction({1: 60, 3: 30})
    unstable = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)

    found = driver.fetch(0, 1, 3, require_stable=stable)

    none = ErrorCode.NONE
    assert found == [(5, none), *([unstable] * 2 if stable else [(6, none), (-1, none)])]
    answer = driver.ask(OffsetFetchRequest(GROUP, None, require_stable=stable), 7)
    (topic,) = (each for each in answer.topics if each.name == "t")
    assert [each.committed_offset for each in topic.partitions] == [5, -1 if stable else 6]


def test_the_group_alone_decides_and_not_who_asks() -> None:
    driver = committed()
    group = OffsetFetchRequestGroup(GROUP, "nobody", 9, None)

    answer = driver.ask(OffsetFetchRequest(groups=(group,)), 9)

    assert answer.groups[0].error_code == ErrorCode.NONE
    assert len(answer.groups[0].topics) == 2


def test_an_offset_of_an_earlier_topic_of_the_name_is_not_found(driver: Driver) -> None:
    earlier, later = UUID(int=1), UUID(int=2)
    partitions = (OffsetCommitRequestPartition(0, 5),)
    topics = (OffsetCommitRequestTopic("t", earlier, partitions),)
    driver.ask(OffsetCommitRequest(GROUP, topics=topics), 10)

    def fetched(topic_id: UUID) -> int:
        asked = (OffsetFetchRequestTopics("t", topic_id, (0,)),)
        group = OffsetFetchRequestGroup(GROUP, topics=asked)
        answer = driver.ask(OffsetFetchRequest(groups=(group,)), 10)
        found: int = answer.groups[0].topics[0].partitions[0].committed_offset
        return found

    assert (fetched(earlier), fetched(later), fetched(NO_UUID)) == (5, -1, 5)


@pytest.mark.parametrize(
    ("version", "request_"),
    [
        (1, OffsetFetchRequest(GROUP, (OffsetFetchRequestTopic("t", (1, 4)),))),
        (7, OffsetFetchRequest(GROUP, None)),
        (8, OffsetFetchRequest(groups=(OffsetFetchRequestGroup(GROUP, topics=None),))),
    ],
)
def test_a_fetch_that_was_interrupted_is_refused_where_its_version_has_errors(
    version: int, request_: OffsetFetchRequest
) -> None:
    answer = fetch_error(request_, ErrorCode.NOT_COORDINATOR, version)

    if version >= 8:
        assert [each.error_code for each in answer.groups] == [ErrorCode.NOT_COORDINATOR]
    elif version > 1:
        assert answer.error_code == ErrorCode.NOT_COORDINATOR
    else:
        (found,) = answer.topics
        assert [(e.partition_index, e.error_code) for e in found.partitions] == [(1, 16), (4, 16)]
