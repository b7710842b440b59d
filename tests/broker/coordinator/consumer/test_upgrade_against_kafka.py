"""Hold what an upgraded group is assigned, in the midst of a cooperative rebalance, beside a real Kafka."""

from typing import Any

from groupsdk.assignment import Assignment, Subscription
from groupsdk.assignment.subscriptions import encode_assignments, encode_subscription
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.groups import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from tests.broker.clients import Client
from tests.broker.coordinator.consumer.members import Served, WireMember, connected
from tests.support.topics import create_topic
from tests.support.workers import eventually


_PROTOCOL = "cooperative-sticky"


class ClassicMember:
    """A member that is alone in its group, and has whatever the test says that it assigns to itself."""

    def __init__(
        self, broker: Served, group_id: str, topic: str, instance_id: str | None = None
    ) -> None:
        self.client = connected(broker)
        self.member_id = ""
        self.generation = 0
        self._topic = topic
        self._owned: tuple[int, ...] = ()
        self._both: dict[str, Any] = {
            "group_id": group_id,
            "group_instance_id": instance_id,
            "protocol_type": "consumer",
        }

    def take(self, *partitions: int) -> None:
        """Goes through a generation of its own, which assigns it these; it gives up nothing before."""
        owned = {self._topic: self._owned} if self._owned else {}
        metadata = encode_subscription(Subscription(topics=(self._topic,), owned_partitions=owned))
        eventually(lambda: self._is_let_in(metadata), "not let in", 60.0)
        shares = encode_assignments({self.member_id: Assignment({self._topic: partitions})})
        synced = self.client.ask(
            SyncGroupRequest(
                **self._both,
                generation_id=self.generation,
                member_id=self.member_id,
                protocol_name=_PROTOCOL,
                assignments=(SyncGroupRequestAssignment(self.member_id, shares[self.member_id]),),
            )
        )
        assert synced.error_code == 0
        self._owned = partitions

    def _is_let_in(self, metadata: bytes) -> bool:
        joined = self.client.ask(
            JoinGroupRequest(
                **self._both,
                session_timeout_ms=45_000,
                rebalance_timeout_ms=60_000,
                member_id=self.member_id,
                protocols=(JoinGroupRequestProtocol(_PROTOCOL, metadata),),
            )
        )
        self.member_id = joined.member_id or self.member_id
        self.generation = joined.generation_id
        return joined.error_code == 0


def course(broker: Served, group_id: str) -> list[tuple[int, int]]:
    """Returns epoch and number of partitions: of a member in its place, and of both once a second one has come."""
    topic = f"t-{group_id}"[:200]
    create_topic(broker.bootstrap_servers, topic, 4)
    topics = {"subscribed_topic_names": (topic,)}
    with WireMember(broker, f"{group_id}-first", "p", **topics) as probe:
        probe.until(4)  # the coordinator has heard of the topic
        probe.heartbeat(-1)
    # it leaves the member with one of four partitions, as between two rebalances
    classic = ClassicMember(broker, group_id, topic, "i")
    classic.take(0)
    classic.client.socket.close()
    found = []
    with WireMember(broker, group_id, "m", instance_id="i", **topics) as first:
        eventually(lambda: first.heartbeat().error_code == 0, "not let in", 60.0)
        for _ in range(3):
            assert first.heartbeat().error_code == 0
        found.append((first.epoch, first.size))
        with WireMember(broker, group_id, "n", **topics) as second:

            def settled() -> bool:
                for each in (first, second):
                    assert each.heartbeat().error_code == 0
                return first.size + second.size == 4

            eventually(settled, "not all is assigned", 60.0)
            found += [(first.epoch, first.size), (second.epoch, second.size)]
            second.heartbeat(-1)
        first.heartbeat(-1)
    return found


def test_an_upgrade_by_a_returning_member_assigns_nothing_more(
    kafka: LocalKafka, group_id: str
) -> None:
    with EmbeddedBroker() as embedded:
        ours, theirs = (course(each, group_id) for each in (embedded, kafka))
    assert ours == theirs
    assert ours[0] == (1, 1)


def commit(client: Client, member_id: str, epoch: int, topic: str, offsets: dict[int, int]) -> int:
    """Commits offsets of a topic that is named as its group; returns the last error code."""
    places = tuple(OffsetCommitRequestPartition(*each) for each in offsets.items())
    asked = OffsetCommitRequestTopic(topic, partitions=places)
    request = OffsetCommitRequest(topic, epoch, member_id, topics=(asked,))
    (answered,) = client.ask(request, 9).topics
    return int(answered.partitions[-1].error_code)


def commits(broker: Served, name: str) -> tuple[list[int], list[int]]:
    """Returns the errors of two commits, of the next owner and then of the one before, and the offsets that are left."""
    create_topic(broker.bootstrap_servers, name, 4)
    classic = ClassicMember(broker, name, name)
    classic.take(0, 1, 2, 3)
    classic.take(0)
    with WireMember(broker, name, "m", subscribed_topic_names=(name,)) as following:
        following.until(2)
        (taken,) = following.owned.values()
        codes = [
            commit(following.client, "m", following.epoch, name, dict.fromkeys(taken, 8)),
            commit(
                classic.client, classic.member_id, classic.generation, name, dict.fromkeys(taken, 1)
            ),
        ]
        every = OffsetFetchRequestGroup(name, topics=None)
        (found,) = classic.client.ask(OffsetFetchRequest(groups=(every,)), 9).groups
        following.heartbeat(-1)
    classic.client.socket.close()
    return codes, [each.committed_offset for each in found.topics[0].partitions]


def test_a_member_that_an_upgrade_overlooked_commits_beside_the_next_owner(
    kafka: LocalKafka, group_id: str
) -> None:
    with EmbeddedBroker() as embedded:
        ours, theirs = (commits(each, group_id[-80:]) for each in (embedded, kafka))
    assert ours == theirs
    assert ours == ([0, 0], [1, 1])
