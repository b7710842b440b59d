"""Take turns with Kafka on one data directory that has consumer groups in it: each goes on where the other stopped."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from groupsdk.wire.consumer_protocol import ConsumerProtocolEncoder, ConsumerProtocolSubscription
from groupsdk.wire.messages.group_admin import (
    ConsumerGroupDescribeRequest,
    DeleteGroupsRequest,
    ListGroupsRequest,
)
from groupsdk.wire.messages.groups import SyncGroupRequest
from groupsdk.wire.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from groupsdk.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from tests.broker.clients import commit_request, join_request
from tests.broker.coordinator.consumer.members import Served, WireMember, connected
from tests.support.brokers import STEADY
from tests.support.workers import eventually


SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    # a machine that halts ends no session
    "group.consumer.session.timeout.ms": "600000",
    "group.consumer.max.session.timeout.ms": "600000",
    "offsets.topic.num.partitions": "2",
}
TOPICS = {"t": 4, "u": 2}


def described(broker: Served, group_id: str) -> Any:
    with connected(broker) as client:
        (group,) = client.ask(ConsumerGroupDescribeRequest((group_id,)), 1).groups
    assert group.error_code == 0, group
    members = {}
    for each in group.members:
        shares = [
            {one.topic_name: sorted(one.partitions) for one in assignment.topic_partitions}
            for assignment in (each.assignment, each.target_assignment)
        ]
        members[each.member_id] = (
            *(each.instance_id, each.rack_id, each.member_epoch, each.member_type),
            *(each.subscribed_topic_names, each.subscribed_topic_regex, shares),
        )
    return group.group_state, group.group_epoch, group.assignment_epoch, members


def settled(members: list[WireMember], *sizes: int) -> None:
    """Lets members send heartbeats until they have so many partitions."""

    def have_them() -> bool:
        for each in members:
            answer = each.heartbeat()
            assert answer.error_code == 0, answer
        return [each.size for each in members] == list(sizes)

    eventually(have_them, lambda: f"{[each.owned for each in members]} for {sizes}", 60.0)
    for each in members:
        assert each.heartbeat().error_code == 0


def commit(member: WireMember, offset: int) -> int:
    """Commits an offset of t-0 in the member's epoch; returns the error."""
    request = commit_request(member.group_id, offset, member.epoch, member.member_id)
    return member.client.ask(request, 9).topics[0].partitions[0].error_code


def committed(broker: Served, group_id: str) -> int:
    """Fetches the offset of t-0."""
    group = OffsetFetchRequestGroup(
        group_id, topics=(OffsetFetchRequestTopics("t", partition_indexes=(0,)),)
    )
    with connected(broker) as client:
        (found,) = client.ask(OffsetFetchRequest(groups=(group,)), 9).groups
    assert found.error_code == 0
    return found.topics[0].partitions[0].committed_offset


def classic_joined(broker: Served, group_id: str) -> str:
    """Lets a classic member join and sync in a consumer group; returns its id."""
    metadata = ConsumerProtocolEncoder().subscription(ConsumerProtocolSubscription(("t",)), 3)
    join = partial(join_request, group_id, metadata=metadata, session_ms=60_000)
    with connected(broker) as client:
        member_id = client.ask(join(), 9).member_id
        joined = client.ask(join(member_id), 9)
        assert joined.error_code == 0
        synced = client.ask(
            SyncGroupRequest(group_id, joined.generation_id, member_id, None, "consumer", "range"),
            5,
        )
        assert synced.error_code == 0
    return member_id


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("kafka_installed")
def test_each_goes_on_with_the_groups_of_the_other(tmp_path: Path) -> None:
    with ExitStack() as stack:
        kafka = stack.enter_context(
            LocalKafka(
                data_dir=tmp_path,
                properties={**SETTINGS, **STEADY, "controlled.shutdown.enable": "true"},
            )
        )
        with connected(kafka) as client:
            asked = tuple(CreatableTopic(name, count, 1) for name, count in TOPICS.items())
            assert not [e for e in client.ask(CreateTopicsRequest(asked)).topics if e.error_code]
        first = stack.enter_context(WireMember(kafka, "g", "m1", instance_id="one", rack_id="r"))
        second = stack.enter_context(
            WireMember(kafka, "g", "m2", subscribed_topic_names=("t", "u"), server_assignor="range")
        )
        members = [first, second]
        settled(members, 2, 4)
        pattern = stack.enter_context(
            WireMember(kafka, "h", "m1", subscribed_topic_names=(), subscribed_topic_regex="[tu]")
        )
        settled([pattern], 6)
        assert commit(first, 5) == 0
        theirs = {name: described(kafka, name) for name in ("g", "h")}
        kafka.stop()
        (meta,) = tmp_path.rglob("meta.properties")

        with EmbeddedBroker(SETTINGS, data_dir=meta.parent) as ours:
            assert {name: described(ours, name) for name in theirs} == theirs
            assert committed(ours, "g") == 5
            for each in (*members, pattern):
                each.move(ours)
                epoch = each.epoch
                assert each.heartbeat().error_code == 0
                assert each.epoch == epoch
            assert commit(first, 6) == 0
            third = stack.enter_context(WireMember(ours, "g", "m3"))
            settled([*members, third], 2, 3, 1)
            classic = classic_joined(ours, "g")
            # the static member goes to come back, with the other broker
            assert first.heartbeat(-2).error_code == 0
            assert pattern.heartbeat(-1).error_code == 0
            told = {name: described(ours, name) for name in theirs}
            assert told["h"][0] == "Empty"
            assert classic in told["g"][3]

        kafka.start()
        assert {name: described(kafka, name) for name in theirs} == told
        assert committed(kafka, "g") == 6
        back = stack.enter_context(WireMember(kafka, "g", "m1-again", instance_id="one"))
        for each in (second, third):
            each.move(kafka)
        back.until(1)
        assert set(back.owned) == set(first.owned)
        for each in (second, third):
            assert each.heartbeat().error_code == 0
            assert each.heartbeat(-1).error_code == 0
        with connected(kafka) as client:
            (deleted,) = client.ask(DeleteGroupsRequest(("h",)), 2).results
            assert deleted.error_code == 0
        kafka.stop()

        with EmbeddedBroker(SETTINGS, data_dir=meta.parent) as ours, connected(ours) as client:
            listed = {each.group_id for each in client.ask(ListGroupsRequest(), 5).groups}
            assert listed == {"g"}
            assert committed(ours, "g") == 6
