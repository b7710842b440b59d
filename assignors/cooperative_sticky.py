"""The assignor `cooperative-sticky`: members keep their partitions during a rebalance."""

from collections.abc import Collection, Mapping

from assignors.base import has_own_methods, names_wrong_arguments
from assignors.sticky.ownership import OrderedPartitions
from assignors.sticky.plan import MutablePlans, StickyPlan, fairest_once, without_collector
from assignors.sticky.user_data import encode_generation, read_generation
from groupsdk.assignment import (
    Assignment,
    Cluster,
    GroupAssignment,
    GroupSubscription,
    Partitions,
    RebalanceProtocol,
)


_NO_GENERATION = -1


class CooperativeStickyAssignor:
    """Assigns as `sticky` does, but moves partitions in two rounds (KIP-429).

    Takes the place of `org.apache.kafka.clients.consumer.CooperativeStickyAssignor` in members and in the leader:
    name and user data are the same. In the first round no member is given a partition that another member still
    claims, rightly or not; its owner, missing it in its own assignment, gives it up and rejoins. The second round
    assigns these partitions, and changes nothing else: there is never a third.

    Args:
        moves_before_racks: as with `StickyAssignor`.
        pause_collector: as with `StickyAssignor`.
    """

    def __init__(self, *, moves_before_racks: bool = False, pause_collector: bool = True) -> None:
        self.__moves_before_racks = moves_before_racks
        self.__pause_collector = pause_collector
        self.__generation_id = _NO_GENERATION

    @property
    def name(self) -> str:
        return "cooperative-sticky"

    @property
    def version(self) -> int:
        return 0

    @property
    def supported_protocols(self) -> frozenset[RebalanceProtocol]:
        """Both protocols, so that a group can migrate from an eager assignor one member at a time."""
        return frozenset({RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER})

    @property
    def takes_claims(self) -> bool:
        """Whether `assign_claims` assigns as `assign` does: not in a subclass that overrides a part of that."""
        return has_own_methods(type(self), CooperativeStickyAssignor)

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Return the generation of this member's last assignment, for leaders that read it only from user data."""
        return encode_generation(self.__generation_id)

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        """Store the generation, to report it at the next join; subscriptions list the owned partitions."""
        self.__generation_id = generation_id

    @names_wrong_arguments
    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        """Assign, as the leader; a partition that moves between members is in neither's assignment.

        Owned partitions are read from the subscriptions; the generation from there or from the user data.

        Raises:
            TypeError: an argument is of a wrong type; the error names it.
            ValueError: a number of partitions is out of bounds.
        """
        with without_collector(pause=self.__pause_collector):
            claims = {
                member_id: subscription.owned_partitions
                for member_id, subscription in subscriptions.items()
            }
            generations = {
                member_id: subscription.generation_id
                if subscription.generation_id >= 0
                else read_generation(subscription.user_data, member_id)
                for member_id, subscription in subscriptions.items()
            }
            holdings = self.assign_claims(cluster, subscriptions, claims, generations)
            return {member_id: Assignment(holding) for member_id, holding in holdings.items()}

    def assign_claims(
        self,
        cluster: Cluster,
        subscriptions: GroupSubscription,
        claims: Mapping[str, Partitions],
        generations: Mapping[str, int],
        made: MutablePlans | None = None,
    ) -> Mapping[str, OrderedPartitions]:
        """Assign as `assign` does, to members that own the claims; see `StickyAssignor.assign_claims`."""
        with without_collector(pause=self.__pause_collector):
            plan = fairest_once(
                cluster,
                subscriptions,
                claims,
                generations,
                made,
                moves_first=self.__moves_before_racks,
            )
            return _withhold(plan, claims)


def _withhold(
    plan: StickyPlan, claims: Mapping[str, Partitions]
) -> Mapping[str, OrderedPartitions]:
    """Withhold partitions that another member still claims: it may read them until it has the new assignment.

    Stale claims count too. Such a member has missed a rebalance and does not know that it lost anything, so
    that it may be at work as well as anybody.
    """
    lost = _lost(plan, claims)
    if not lost:
        return plan.holdings
    result = dict(plan.holdings)
    disputed = lost.keys() & plan.disputed
    # Any other partition that is lost was reassigned, so only members that were given some can have it.
    suspects = plan.holdings if disputed else plan.added
    for member_id in suspects:
        holding, added = plan.holdings[member_id], plan.added.get(member_id, {})
        left = {}
        for topic in (lost.keys() & added.keys()) | (disputed & holding.keys()):
            gone = lost[topic]
            if not gone.isdisjoint(holding[topic] if topic in disputed else added[topic]):
                left[topic] = tuple([each for each in holding[topic] if each not in gone])
        if left:
            merged = holding | left
            result[member_id] = {topic: numbers for topic, numbers in merged.items() if numbers}
    return result


def _lost(plan: StickyPlan, claims: Mapping[str, Partitions]) -> dict[str, set[int]]:
    """Find what members claim and are not given, by topic: all that somebody else could be given of it."""
    lost = {topic: set(numbers) for topic, numbers in plan.revoked.items()}
    if plan.disputed:
        for member_id, claim in claims.items():
            holding = plan.holdings[member_id]
            for topic in claim.keys() & plan.disputed:
                if gone := set(claim[topic]).difference(holding.get(topic, ())):
                    lost.setdefault(topic, set()).update(gone)
    return lost
