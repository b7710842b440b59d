"""Explain why a partition is where it is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from assignors.quality import racks_of
from groupsdk.assignment import TopicPartition
from groupsdk.assignment.plan import Plan, owners
from groupsdk.lazy_imports import override
from groupsdk.printable import printable


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a partition is where it is; as text, one sentence a line.

    Attributes:
        member_id: the member that was given it; None: it is not assigned.
        owner: the member that owned it by the subscriptions; None: it had no owner.
        reasons: sentences, the most telling first.
    """

    partition: TopicPartition
    member_id: str | None
    owner: str | None
    reasons: tuple[str, ...]

    @override
    def __str__(self) -> str:
        name = f"{self.partition.topic}-{self.partition.partition}"
        what = (
            f"{name} is with {self.member_id!r}." if self.member_id else f"{name} is with nobody."
        )
        return "\n".join(map(printable, [what, *self.reasons]))


def explain(plan: Plan, partition: tuple[str, int]) -> Explanation:
    """Explain why a partition is where it is, from the assignor's arguments and result.

    The assignor's internal reasoning is not visible; the explanation is valid for any assignor. The partition is topic and
    number, or a `TopicPartition`.
    """
    wanted = TopicPartition(*partition)
    holder = plan.holders().get(wanted)
    owner = owners(plan).get(wanted)
    case = _Case(plan, wanted, holder, owner)
    return Explanation(wanted, holder, owner, tuple(case.reasons()))


class _Case:
    def __init__(
        self, plan: Plan, partition: TopicPartition, holder: str | None, owner: str | None
    ) -> None:
        self._plan = plan
        self._partition = partition
        self._holder = holder
        self._owner = owner
        self._subscribers = sorted(
            member_id
            for member_id, subscription in plan.subscriptions.items()
            if partition.topic in subscription.topics
        )

    def reasons(self) -> Iterator[str]:
        topic, number = self._partition
        count = self._plan.cluster.partition_counts.get(topic)
        if count is None:
            yield f"The topic {topic!r} is not known, and nothing of it is assigned."
        elif not 0 <= number < count:
            yield f"The topic {topic!r} has {count} partitions, numbered from 0: this is none of them."
        elif not self._subscribers:
            yield f"Nobody subscribed to {topic!r}."
        elif self._holder is None:
            yield from self._withheld()
        elif self._holder not in self._subscribers:
            yield f"That is wrong: {self._holder!r} did not subscribe to {topic!r}."
        else:
            yield from self._given(self._holder)

    def _withheld(self) -> Iterator[str]:
        claimants = self._claimants()
        if not claimants:
            yield "That is wrong: nobody claims it, so it should have been given to a subscriber."
            return
        who = _listed([member_id for member_id, _ in claimants])
        yield (
            f"Claimed by {who}: in a cooperative rebalance it is given to another only in the next "
            "round, when nobody claims it any more."
        )

    def _given(self, holder: str) -> Iterator[str]:
        if self._owner == holder:
            yield "It stays where it was."
        elif self._owner is not None:
            yield from self._moved(holder, self._owner)
        else:
            yield from self._was_free()
        yield from self._racks(holder)
        yield from self._loads(holder)

    def _moved(self, holder: str, owner: str) -> Iterator[str]:
        yield f"It moved from {owner!r}, which owned it."
        before, after = self._owned_by(owner), self._load(owner)
        if after < before:
            yield f"{owner!r} owned {before} and now has {after}."
        if self._is_near(holder) and not self._is_near(owner):
            rack = self._plan.subscriptions[owner].rack_id
            yield f"{owner!r} is in rack {rack!r}, where no replica is."
        elif after >= before:
            yield f"Nothing that can be seen from outside made {owner!r} give it up: it lost no load by it."

    def _was_free(self) -> Iterator[str]:
        claimants = self._claimants()
        unsubscribed = [
            member_id
            for member_id, subscription in self._plan.subscriptions.items()
            if member_id not in self._subscribers
            and self._partition.partition
            in subscription.owned_partitions.get(self._partition.topic, ())
        ]
        if claimants:
            who = _listed([member_id for member_id, _ in claimants])
            yield f"Claimed by {who} in generation {claimants[0][1]} alike, so nobody was taken for its owner."
        elif unsubscribed:
            yield f"Its last owner, {_listed(unsubscribed)}, is not subscribed to the topic any more."
        else:
            yield "No member owned it: it is new, or its owner has left."

    def _racks(self, holder: str) -> Iterator[str]:
        racks = racks_of(self._plan.cluster, self._partition)
        rack = self._plan.subscriptions[holder].rack_id
        if not racks or not rack:
            return
        listed = ", ".join(sorted(racks))
        if rack in racks:
            yield f"{holder!r} is in rack {rack!r}, where a replica is ({listed})."
            return
        near = [member_id for member_id in self._subscribers if self._is_near(member_id)]
        if near:
            lightest = min(near, key=lambda member_id: (self._load(member_id), member_id))
            yield (
                f"{holder!r} is in rack {rack!r}, the replicas are in {listed}; of the {len(near)} "
                f"subscribers that are near, {lightest!r} has the least with {self._load(lightest)}."
            )
        else:
            yield f"{holder!r} is in rack {rack!r}; no subscriber is in a rack of the replicas ({listed})."

    def _loads(self, holder: str) -> Iterator[str]:
        others = [member_id for member_id in self._subscribers if member_id != holder]
        if not others:
            yield f"{holder!r} is the only subscriber of {self._partition.topic!r}."
            return
        loads = [self._load(member_id) for member_id in others]
        lightest = others[loads.index(min(loads))]
        mine = self._load(holder)
        yield (
            f"{holder!r} has {mine} in all; the {len(others)} other subscribers have "
            f"{min(loads)} to {max(loads)}."
        )
        if min(loads) + 1 < mine:
            yield f"Balance alone would rather have it with {lightest!r}."

    def _claimants(self) -> list[tuple[str, int]]:
        """Return the subscribed members that claim the partition, with their generations, the latest first."""
        topic, number = self._partition
        found = [
            (member_id, max(-1, self._plan.subscriptions[member_id].generation_id))
            for member_id in self._subscribers
            if number in self._plan.subscriptions[member_id].owned_partitions.get(topic, ())
        ]
        latest = max((generation_id for _, generation_id in found), default=-1)
        return [each for each in found if each[1] == latest]

    def _owned_by(self, member_id: str) -> int:
        return sum(map(len, self._plan.subscriptions[member_id].owned_partitions.values()))

    def _load(self, member_id: str) -> int:
        share = self._plan.assignment.get(member_id)
        return 0 if share is None else len(share)

    def _is_near(self, member_id: str) -> bool:
        return self._plan.subscriptions[member_id].rack_id in racks_of(
            self._plan.cluster, self._partition
        )


def _listed(member_ids: Sequence[str]) -> str:
    return ", ".join(map(repr, member_ids))
