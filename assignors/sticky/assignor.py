"""The assignor `sticky`: everything is given up for a rebalance, and nearly everything comes back."""

from collections.abc import Collection, Mapping

from assignors.base import has_own_methods, names_wrong_arguments
from assignors.sticky.ownership import OrderedPartitions
from assignors.sticky.plan import MutablePlans, fairest_once, without_collector
from assignors.sticky.user_data import ClaimReader, encode_claim, encode_claim_again
from groupsdk.assignment import (
    Assignment,
    Cluster,
    GroupAssignment,
    GroupSubscription,
    Partitions,
    RebalanceProtocol,
)


_FEW = 64
"""Up to this many members, layouts of claims are kept for the next call; with more, relearning them pays off."""


class StickyAssignor:
    """Assigns as fairly as possible, and moves as few partitions as that takes (KIP-54, KIP-341).

    Takes the place of `org.apache.kafka.clients.consumer.StickyAssignor` in members and in the leader: name
    and user data are the same. The assignments are not the same but at least as good: for any
    subscriptions the loads are the fairest that there are, and no assignment as fair keeps more partitions
    where they are (Java's class promises neither once subscriptions differ). See docs/sticky.md.

    Args:
        moves_before_racks: keep a partition with its owner although only other members are in the rack of
            one of its replicas. By default, and in Java, racks come first. Balance comes before both.
        pause_collector: switch Python's cyclic garbage collector off during `assign`, in the whole process. It
            takes up to a third of the time of a large assignment; False leaves it alone.
    """

    def __init__(self, *, moves_before_racks: bool = False, pause_collector: bool = True) -> None:
        self.__moves_before_racks = moves_before_racks
        self.__pause_collector = pause_collector
        self.__user_data: bytes | None = None
        self.__claimed: dict[str, tuple[int, ...]] | None = None
        self.__reader: ClaimReader | None = None

    @property
    def name(self) -> str:
        return "sticky"

    @property
    def version(self) -> int:
        """The version of Java's class, which it never raised; the user data tells its own by its length."""
        return 0

    @property
    def supported_protocols(self) -> frozenset[RebalanceProtocol]:
        return frozenset({RebalanceProtocol.EAGER})

    @property
    def takes_claims(self) -> bool:
        """Whether `assign_claims` assigns as `assign` does: not in a subclass that overrides a part of that."""
        return has_own_methods(type(self), StickyAssignor)

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Return this member's last assignment and its generation, encoded; None before the first one."""
        return self.__user_data

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        """Store a copy of this member's assignment, to claim it in the next rebalance."""
        if self.__user_data is not None and assignment.partitions == self.__claimed:
            self.__user_data = encode_claim_again(self.__user_data, generation_id)
            return
        self.__user_data = encode_claim(assignment.partitions, generation_id)
        # what it is compared with next time is the member's own: tuples, that nobody changes meanwhile
        self.__claimed = {topic: tuple(each) for topic, each in assignment.partitions.items()}

    @names_wrong_arguments
    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        """Assign the group's partitions, as the leader; see `PartitionAssignor.assign`.

        Members own what their user data claims; of several claims to a partition the one with the highest generation
        counts, and if two members have that, none. User data that cannot be parsed claims nothing.

        Raises:
            TypeError: an argument is of a wrong type; the error names it.
            ValueError: a number of partitions is out of bounds.
        """
        with without_collector(pause=self.__pause_collector):
            reader = self.__reader or ClaimReader()
            claims = {
                member_id: reader.read(subscription.user_data, member_id)
                for member_id, subscription in subscriptions.items()
            }
            few = len(claims) <= _FEW and reader.size <= _FEW
            self.__reader = reader if few else None
            holdings = self.assign_claims(
                cluster,
                subscriptions,
                {member_id: claim.partitions for member_id, claim in claims.items()},
                {member_id: claim.generation_id for member_id, claim in claims.items()},
            )
            return {member_id: Assignment(holding) for member_id, holding in holdings.items()}

    def assign_claims(
        self,
        cluster: Cluster,
        subscriptions: GroupSubscription,
        claims: Mapping[str, Partitions],
        generations: Mapping[str, int],
        made: MutablePlans | None = None,
    ) -> Mapping[str, OrderedPartitions]:
        """Assign as `assign` does, to members whose claims are known without their user data.

        A replay of many generations in one process need not encode and decode each of them.

        Args:
            claims: by member id: the last assignment that `on_assignment` received, or nothing. Not changed.
            generations: by member id: with which generation; -1 for a new member.
            made: the plans of other assignors for this cluster and these subscriptions, by their claims; this one's
                is added. `sticky` and `cooperative-sticky` mostly plan the same.
        """
        with without_collector(pause=self.__pause_collector):
            return fairest_once(
                cluster,
                subscriptions,
                claims,
                generations,
                made,
                moves_first=self.__moves_before_racks,
            ).holdings
