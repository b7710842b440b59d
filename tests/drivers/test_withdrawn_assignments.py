"""An assignment that waits for the caller while its subscription changes, through both drivers (KIP-848)."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from typing_extensions import override

from groupsdk.assignment.subscriptions import decode_assignment
from groupsdk.broker.coordinator.group_status import ConsumerGroupState
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.clock import Deadline, SystemClock
from groupsdk.drivers.aio.member import AsyncGroupMember
from groupsdk.drivers.threads.member import GroupMember
from groupsdk.member.actions import CompleteJoin
from groupsdk.member.consumer.heartbeat_fields import HeartbeatSubscription
from groupsdk.settings.config import ConsumerMemberConfig
from tests.drivers.threads.owning import Callbacks
from tests.support.workers import eventually


QUICK: dict[str, Any] = {
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.assignment.interval.ms": 0,
}
SECONDS = 60.0


class TopicsTaken(Callbacks):
    def __init__(self, *topics: str) -> None:
        super().__init__(*topics)
        self.taken: list[set[str]] = []
        """The topics of each assignment that was taken up."""

    @override
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        self.taken.append({topic for topic, _ in decode_assignment(assignment)})


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(QUICK) as running:
        yield running


@pytest.fixture
def topics(broker: EmbeddedBroker, group_id: str) -> tuple[str, str]:
    """Name a topic that exists and one that does not exist yet."""
    broker.create_topic(f"kept-{group_id}", 2)
    return f"kept-{group_id}", f"dropped-{group_id}"


def config(broker: EmbeddedBroker, group_id: str, **settings: Any) -> ConsumerMemberConfig:
    servers = broker.bootstrap_servers
    return ConsumerMemberConfig(bootstrap_servers=servers, group_id=group_id, **settings)


def waits(member: GroupMember | AsyncGroupMember) -> bool:
    """Return whether an assignment waits for the caller."""
    return isinstance(member._groupsdk_handle.view().call, CompleteJoin)


def settled(broker: EmbeddedBroker, group_id: str, topic: str) -> bool:
    """Return whether the coordinator knows of this topic alone, subscribed to and acknowledged."""
    group = broker.consumer_group(group_id)
    if group is None or group.state is not ConsumerGroupState.STABLE:
        return False
    (member,) = group.members.values()
    return (
        member.subscribed_topic_names == {topic}
        and set(member.assigned) == {topic}
        and not member.pending_revocation
    )


@pytest.mark.timeout(120)
@pytest.mark.parametrize("heartbeat", ["thread", "process"])
def test_threads_take_nothing_up_that_waited_and_is_not_subscribed_to_any_more(
    broker: EmbeddedBroker, group_id: str, topics: tuple[str, str], heartbeat: str
) -> None:
    kept, dropped = topics
    callbacks = TopicsTaken(kept, dropped)
    with GroupMember(callbacks, config(broker, group_id, heartbeat=heartbeat)) as member:
        assert member.ensure_active_group(SECONDS)
        broker.create_topic(dropped, 2)
        eventually(lambda: waits(member), timeout_s=SECONDS)
        callbacks.subscription = HeartbeatSubscription(frozenset({kept}))
        member.request_rejoin("the subscription has changed")

        def over() -> bool:
            member.poll(0.02)
            return settled(broker, group_id, kept)

        eventually(over, timeout_s=SECONDS)
        assert member.ensure_active_group(SECONDS)
    assert all(each <= {kept} for each in callbacks.taken)


@pytest.mark.timeout(120)
async def test_asyncio_takes_nothing_up_that_waited_and_is_not_subscribed_to_any_more(
    broker: EmbeddedBroker, group_id: str, topics: tuple[str, str]
) -> None:
    kept, dropped = topics
    callbacks = TopicsTaken(kept, dropped)
    async with AsyncGroupMember(callbacks, config(broker, group_id)) as member:
        assert await member.ensure_active_group(SECONDS)
        broker.create_topic(dropped, 2)
        await until(lambda: waits(member))
        callbacks.subscription = HeartbeatSubscription(frozenset({kept}))
        member.request_rejoin("the subscription has changed")
        await until(lambda: settled(broker, group_id, kept), member)
        assert await member.ensure_active_group(SECONDS)
    assert all(each <= {kept} for each in callbacks.taken)


async def until(condition: Callable[[], bool], member: AsyncGroupMember | None = None) -> None:
    """Wait until a condition holds, polling a member meanwhile if one is given."""
    deadline = Deadline(SystemClock(), int(SECONDS * 1000))
    while not condition():
        assert not deadline.expired
        if member is None:
            await asyncio.sleep(0.02)
        else:
            await member.poll(0.02)
