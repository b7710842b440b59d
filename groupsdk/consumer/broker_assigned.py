"""The callbacks of a consumer that uses the consumer protocol (KIP-848)."""

from collections.abc import Callable, Mapping

from groupsdk.assignment import Assignment
from groupsdk.consumer.partition_owner import FirstError, PartitionOwner
from groupsdk.consumer_membership.subscription import HeartbeatSubscription
from groupsdk.subscriptions import decode_assignment
from groupsdk.types import NO_GENERATION, Generation, GroupMembers, ProtocolMetadata


class BrokerAssignedCoordinator(PartitionOwner):
    """Implements `GroupCallbacks` for a consumer that uses the consumer protocol.

    The broker assigns, so no plan is computed here. An assignment is applied in steps: partitions that are not in it
    are committed and revoked, and then new ones are added. The member acknowledges it to the group's coordinator once
    this has returned.
    """

    _generation_told: Generation = NO_GENERATION

    def metadata(self) -> list[ProtocolMetadata]:
        """Return the subscribed topics, including those matched by client-side patterns, and the broker-side pattern."""
        subscription = self._subscribed()
        if subscription.has_patterns:
            view = self._topics.describe(None)
            subscription.match(view.partition_counts, view.internal)
        topics = frozenset(subscription.topics)
        return HeartbeatSubscription(topics, subscription.broker_pattern).protocols()

    def on_join_prepare(self, generation: int, member_id: str) -> None:
        """Drop all partitions as lost: the member is about to join.

        Args:
            generation: not used.
            member_id: not used.
        """
        self._left = False
        self._lose(self.owned)

    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> Mapping[str, bytes]:
        """Refuse: in the consumer protocol no member assigns.

        Args:
            leader_id: not used.
            protocol: not used.
            members: not used.

        Raises:
            AssertionError: always.
        """
        raise AssertionError("a member of the consumer protocol is asked for no plan")

    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        """Apply an assignment: revoke the partitions that are not in it, then add the new ones.

        Where the user's code raises, all of it is done nevertheless, and the first exception is raised at the end;
        the second delivery, which that causes, then finds nothing to do but to acknowledge. Where it closes the
        consumer, nothing more is taken up.

        Args:
            generation: the member epoch.
            member_id: this member's id.
            protocol: not used.
            assignment: the assignment, encoded; empty: no partitions.
        """
        delivery = self._delivery(generation, member_id)
        errors = FirstError()
        if self._completed != delivery:
            share = decode_assignment(assignment) if assignment else Assignment()
            assigned = frozenset(share)
            revoked, added = self.owned - assigned, assigned - self.owned
            steps: list[Callable[[], object]] = []
            if revoked:
                steps.append(lambda: self._revoke(revoked))
            steps.append(lambda: self._take_up(assigned, added, delivery))
            for step in steps:
                if not self._left:
                    errors.keep(step)
            self._generation_told = self._member().snapshot().generation
        self._tell(errors)
        errors.raise_first()

    def tell_epoch(self) -> None:
        """Tell the listener about a new member epoch that leaves the assignment unchanged.

        A listener that uses the generation as a fencing token must not miss it.
        """
        generation = self._member().snapshot().generation
        if self._completed is None or generation == self._generation_told or generation.is_reset:
            return
        self._generation_told = generation
        if not self._left:
            self.listener.generation_changed(generation)
