"""Callbacks of a member to which the broker assigns partitions."""

from typing import Any

from groupsdk.assignment.subscriptions import decode_assignment
from groupsdk.member.consumer.heartbeat_fields import HeartbeatSubscription
from groupsdk.types import GroupMembers


class Callbacks:
    """Takes up whatever it is handed."""

    protocol_type = "consumer"

    def __init__(self, *topics: str, pattern: str | None = None) -> None:
        self.subscription = HeartbeatSubscription(frozenset(topics), pattern)
        self.owned: set[int] = set()
        self.lost = 0
        """How often it was told to give everything up."""
        self.losses = 0
        """How often of these it had something."""
        self.left = False

    def metadata(self) -> Any:
        return self.subscription.protocols()

    def on_join_prepare(self, generation: int, member_id: str) -> None:
        self.lost += 1
        self.losses += bool(self.owned)
        self.owned = set()

    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> dict[str, bytes]:
        raise AssertionError("the broker assigns")

    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        self.owned = {partition for _, partition in decode_assignment(assignment)}

    def on_leave_prepare(self) -> None:
        self.left = True
