"""What stands around a consumer's coordinator: no member, no broker, no time."""

from collections.abc import Collection
from typing import Any, Generic, TypeVar

from groupsdk.assignment import Assignment, TopicPartition
from groupsdk.assignment.subscriptions import encode_assignments
from groupsdk.consumer.coordinator import BrokerAssignedCoordinator, ConsumerCoordinator
from groupsdk.consumer.listener import ListenerCalls
from groupsdk.consumer.subscription import TopicSubscription
from groupsdk.consumer.topics import TopicView, TopicWatch
from groupsdk.snapshot import MemberSnapshot
from tests.consumer.rig import Listener, partitions
from tests.drivers.views import view
from tests.drivers.virtual import config


ME = "m-1"

CoordinatorT = TypeVar("CoordinatorT", ConsumerCoordinator, BrokerAssignedCoordinator)


class CoordinatorRig(Generic[CoordinatorT]):
    """A coordinator of either kind and what stands around it; `log` has what it did, in order."""

    coordinator: CoordinatorT

    def __init__(self, topics: Any = "t") -> None:
        self.listener = Listener()
        self.log = self.listener.calls
        self.view = TopicView({"t": 4, "u": 2})
        self.asked: list[Any] = []
        self.changes: dict[str, Any] = {}
        self.config = config()
        self.watch = TopicWatch(1_000)
        self.coordinator = self.make_coordinator()
        self.coordinator.subscription = TopicSubscription(topics)
        self.coordinator.member = self
        self.coordinator.listener = ListenerCalls(self.listener)

    def make_coordinator(self) -> CoordinatorT:
        """Return the coordinator under test."""
        raise NotImplementedError

    def snapshot(self) -> MemberSnapshot:
        return MemberSnapshot.of(self.config, view(**self.changes), 0)

    def request_rejoin(self, reason: str) -> None:
        self.log.append(("rejoin", reason))

    def commit_before_join(self) -> None:
        self.log.append(("commit", "all"))

    def commit_before_revocation(self, given: Collection[TopicPartition]) -> None:
        self.log.append(("commit", len(given)))

    def lags(self, given: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        raise AssertionError("not asked for lags")

    def take(self, given: Collection[TopicPartition]) -> None:
        self.log.append(("take", [f"{each.topic}-{each.partition}" for each in sorted(given)]))

    def release(self, given: Collection[TopicPartition]) -> None:
        self.log.append(("release", [f"{each.topic}-{each.partition}" for each in sorted(given)]))

    def describe(self, topics: Collection[str] | None) -> TopicView:
        self.asked.append(topics)
        return self.view

    def deliver(self, generation: int, names: tuple[str, ...], protocol: str, again: bool) -> None:
        """Deliver an assignment, or deliver it again, and forget what was logged before."""
        self.log.clear()
        if not again:
            self.changes["assignment_epoch"] = self.changes.get("assignment_epoch", 0) + 1
        share: dict[str, list[int]] = {}
        for topic, number in partitions(*names):
            share.setdefault(topic, []).append(number)
        data = encode_assignments({ME: Assignment(share)})[ME]
        self.coordinator.on_join_complete(generation, ME, protocol, data)
