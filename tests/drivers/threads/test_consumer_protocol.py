"""Members of the consumer protocol (KIP-848) through the drivers of all members, on the embedded broker."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from typing_extensions import override

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.drivers.aio.member import AsyncGroupMember
from groupsdk.drivers.threads.member import GroupMember
from groupsdk.errors import (
    BrokerError,
    GroupMaxSizeReachedError,
    GroupSdkError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
)
from groupsdk.member.consumer.state import ConsumerMemberState
from groupsdk.member.state import MemberState
from groupsdk.settings.config import ConsumerMemberConfig
from groupsdk.wire.messages.groups import LeaveGroupRequest, MemberIdentity
from tests.broker.clients import connect
from tests.drivers.threads.owning import Callbacks
from tests.support.workers import eventually


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def topic(broker: EmbeddedBroker, group_id: str) -> str:
    broker.create_topic(f"t-{group_id}", 4)
    return f"t-{group_id}"


def config(broker: EmbeddedBroker, group_id: str, **settings: Any) -> ConsumerMemberConfig:
    servers = broker.bootstrap_servers
    return ConsumerMemberConfig(bootstrap_servers=servers, group_id=group_id, **settings)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("heartbeat", ["thread", "process"])
def test_two_members_share_a_topic_and_one_takes_all_when_the_other_leaves(
    broker: EmbeddedBroker, group_id: str, topic: str, heartbeat: str
) -> None:
    one, two = Callbacks(topic), Callbacks(topic)
    with GroupMember(one, config(broker, group_id, heartbeat=heartbeat)) as first:
        assert first.ensure_active_group(60)
        assert one.owned == {0, 1, 2, 3}
        with GroupMember(two, config(broker, group_id)) as second:

            def shared() -> bool:
                for each in (first, second):
                    each.poll(0.02)
                return len(one.owned) == len(two.owned) == 2 and not one.owned & two.owned

            eventually(shared, timeout_s=60.0)
            eventually(lambda: second.ensure_active_group(1), timeout_s=60.0)
            snapshot = second.snapshot()
            assert snapshot.state is MemberState.STABLE
            assert snapshot.consumer_state is ConsumerMemberState.STABLE
            assert snapshot.holds
            assert second.generation_if_stable() == snapshot.generation
            assert snapshot.generation.generation_id >= 3
            assert snapshot.to_confluent().startswith(b"CGMDv2:")
        assert two.left

        def all_taken() -> bool:
            first.poll(0.02)
            return len(one.owned) == 4

        eventually(all_taken, timeout_s=60.0)
        assert first.metrics()["rebalance-total"] >= 3
        assert all(each.broker_assigns for each in first.events())


@pytest.mark.timeout(120)
def test_a_member_for_asyncio_takes_part(broker: EmbeddedBroker, group_id: str, topic: str) -> None:
    class Awaited(Callbacks):
        @override
        async def on_join_complete(  # type: ignore[override]
            self, generation: int, member_id: str, protocol: str, assignment: bytes
        ) -> None:
            await asyncio.sleep(0)
            super().on_join_complete(generation, member_id, protocol, assignment)

    async def run() -> set[int]:
        callbacks = Awaited(topic)
        async with AsyncGroupMember(callbacks, config(broker, group_id)) as member:
            assert await member.ensure_active_group(60)
            return callbacks.owned

    assert asyncio.run(run()) == {0, 1, 2, 3}


@pytest.mark.timeout(120)
def test_a_member_that_an_administrator_removes_hears_of_the_loss_and_comes_back(
    broker: EmbeddedBroker, group_id: str, topic: str
) -> None:
    callbacks = Callbacks(topic)
    with GroupMember(callbacks, config(broker, group_id)) as member:
        assert member.ensure_active_group(60)
        member_id, lost = member.member_id(), callbacks.lost
        remove(broker, group_id, member_id)

        def back() -> bool:
            member.poll(0.02)
            return callbacks.lost > lost and len(callbacks.owned) == 4

        eventually(back, timeout_s=60.0)
        assert member.member_id() == member_id
        assert "UNKNOWN_MEMBER_ID" in member.events()[-1].reason


@pytest.mark.timeout(120)
@pytest.mark.parametrize("heartbeat", ["thread", "process"])
def test_lasting_refusal_of_the_broker_is_raised_by_every_call(
    broker: EmbeddedBroker, group_id: str, topic: str, heartbeat: str
) -> None:
    callbacks = Callbacks(topic, pattern="[")
    with GroupMember(callbacks, config(broker, group_id, heartbeat=heartbeat)) as member:
        for _ in range(3):
            with pytest.raises(BrokerError, match="INVALID_REGULAR_EXPRESSION") as raised:
                member.ensure_active_group(60)
            assert raised.value.fatal
        assert member.snapshot().consumer_state is ConsumerMemberState.FATAL


@pytest.mark.timeout(120)
def test_unknown_server_assignor_is_raised_to_a_member_and_asked_for_again(
    broker: EmbeddedBroker, group_id: str, topic: str
) -> None:
    given = config(broker, group_id, server_assignor="nope")
    with GroupMember(Callbacks(topic), given) as member:
        for _ in range(3):
            with pytest.raises(UnsupportedAssignorError, match=r"group\.remote.assignor='nope'"):
                member.ensure_active_group(60)
        assert member.snapshot().consumer_state is ConsumerMemberState.JOINING


@pytest.mark.timeout(120)
def test_a_static_member_joins_once_its_instance_id_is_released(
    broker: EmbeddedBroker, group_id: str, topic: str
) -> None:
    given = config(broker, group_id, group_instance_id="one")
    with (
        GroupMember(Callbacks(topic), given) as first,
        GroupMember(Callbacks(topic), given) as twin,
    ):
        assert first.ensure_active_group(60)
        for _ in range(2):
            with pytest.raises(UnreleasedInstanceIdError) as raised:
                twin.ensure_active_group(60)
            assert raised.value.retriable
        first.close()
        eventually(lambda: joined_by_now(twin), timeout_s=60.0)


@pytest.mark.timeout(120)
def test_a_member_joins_a_full_group_once_another_has_left() -> None:
    with EmbeddedBroker({"group.consumer.max.size": 1}) as broker:
        broker.create_topic("t", 4)
        callbacks = Callbacks("t")
        first = GroupMember(Callbacks("t"), config(broker, "full"))
        with first, GroupMember(callbacks, config(broker, "full")) as second:
            assert first.ensure_active_group(60)
            with pytest.raises(GroupMaxSizeReachedError) as raised:
                second.ensure_active_group(60)
            assert raised.value.retriable
            first.close()
            eventually(lambda: joined_by_now(second), timeout_s=60.0)
            assert callbacks.owned == {0, 1, 2, 3}


def joined_by_now(member: GroupMember) -> bool:
    """Poll as the loop of docs/workers.md does."""
    try:
        return member.ensure_active_group(0.5)
    except GroupSdkError as error:
        if error.fatal:
            raise
        return False


def remove(broker: EmbeddedBroker, group_id: str, member_id: str) -> None:
    """Remove a member as an administrator does."""
    leaving = LeaveGroupRequest(group_id, members=(MemberIdentity(member_id),))
    with connect(broker) as client:
        assert client.ask(leaving, 5).members[0].error_code == 0
