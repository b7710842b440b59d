"""The causes of rebalances, and their detection by comparing two generations."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from groupsdk.history.explain.timeline.member import Member, Partitions


class Cause(StrEnum):
    """Why a generation began. The most informative causes come first: the order decides the primary cause."""

    COORDINATOR_RESTART = "coordinator_restart"
    """Clients lost their memberships while the group had no coordinator, and rejoined; they were not restarted."""
    CLIENT_RESTART = "client_restart"
    """A member left or expired, and a new one has the same client id and host."""
    EXPIRY = "expiry"
    """The session of a member timed out."""
    POLL_TIMEOUT = "poll_timeout"
    """A member did not poll for `max.poll.interval.ms`, so that its client left the group by itself; its process lived."""
    LEAVE = "leave"
    """A member sent LeaveGroup."""
    JOIN = "join"
    """A new member joined."""
    SUBSCRIPTION_CHANGE = "subscription_change"
    """A member subscribed to other topics."""
    TOPIC_GROWTH = "topic_growth"
    """A topic has more partitions than before."""
    TOPIC_DELETED = "topic_deleted"
    """A topic that members subscribe to has no partitions any more."""
    WORK_CHANGE = "work_change"
    """There is other work: connectors or tasks of Connect, shards; in a share group partitions that became ready."""
    COOPERATIVE_FOLLOWUP = "cooperative_followup"
    """Members rejoined for the partitions that others revoked in the previous generation (KIP-429)."""
    REJOIN = "rejoin"
    """The same members rejoined with the same subscriptions: one requested it, or had lost its membership."""
    CREATED = "created"
    """The group's first record, which has no members yet."""
    STATIC_REPLACED = "static_replaced"
    """A static member rejoined under a new member id. That alone causes no rebalance, so any other cause takes precedence."""
    UNKNOWN = "unknown"
    """The log does not show the cause."""


_RANK: Final = {cause: rank for rank, cause in enumerate(Cause)}

CONFIDENCE: Final[Mapping[Cause, float]] = {
    Cause.COORDINATOR_RESTART: 0.8,
    Cause.CLIENT_RESTART: 0.8,
    Cause.EXPIRY: 0.8,
    Cause.POLL_TIMEOUT: 0.8,
    Cause.LEAVE: 0.8,
    Cause.JOIN: 0.95,
    Cause.SUBSCRIPTION_CHANGE: 0.9,
    Cause.TOPIC_GROWTH: 0.9,
    Cause.TOPIC_DELETED: 0.8,
    Cause.WORK_CHANGE: 0.9,
    Cause.COOPERATIVE_FOLLOWUP: 0.9,
    Cause.REJOIN: 0.7,
    Cause.CREATED: 1.0,
    Cause.STATIC_REPLACED: 0.95,
    Cause.UNKNOWN: 0.0,
}
"""The confidence, from 0 to 1, in a cause that was derived from the log alone."""

MISSING_FACTOR: Final = 0.5
"""The factor on the confidence if generations are missing between the two that are compared."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The differences between one generation and the next."""

    joined: tuple[str, ...] = ()
    """Member ids, including those that replace others."""
    gone: tuple[str, ...] = ()
    """Member ids, including those that were replaced."""
    replaced: Mapping[str, Cause] = field(default_factory=dict)
    """The member ids that are gone but have a successor, with the cause of the replacement."""
    resubscribed: tuple[str, ...] = ()
    """The ids of remaining members with another subscription."""
    causes: tuple[Cause, ...] = ()
    """Without the reasons why members without a successor are gone: those are derived from the commits."""

    @property
    def departed(self) -> tuple[str, ...]:
        """Ids of members that departed without a successor: they left, or their sessions timed out."""
        return tuple(member_id for member_id in self.gone if member_id not in self.replaced)


def compare(
    before: Mapping[str, Member],
    after: Mapping[str, Member],
    *,
    news: Cause | None = None,
    cooperative: bool = False,
) -> Changes:
    """Return the changes between two generations, and the causes that they show; `news`: what is new about the work itself.

    If it is `cooperative` members give up only what moves, so that a second rebalance may follow.
    """
    joined = tuple(member_id for member_id in after if member_id not in before)
    gone = tuple(member_id for member_id in before if member_id not in after)
    replaced = _replaced(before, after, joined, gone)
    resubscribed = tuple(
        member_id
        for member_id, member in after.items()
        if member_id in before
        # a member that is the same as before is mostly the same object
        and member is not before[member_id]
        and set(member.topics) != set(before[member_id].topics)
    )
    causes = set(replaced.values())
    if len(joined) > len(replaced):
        causes.add(Cause.JOIN)
    if resubscribed:
        causes.add(Cause.SUBSCRIPTION_CHANGE)
    if not joined and not gone and not resubscribed:
        if news is not None:
            causes.add(news)
        elif cooperative and withheld(before, after):
            causes.add(Cause.COOPERATIVE_FOLLOWUP)
        elif after:
            causes.add(Cause.REJOIN)
    return Changes(joined, gone, replaced, resubscribed, in_order(causes))


def in_order(causes: Collection[Cause]) -> tuple[Cause, ...]:
    """Sort causes so that the primary one comes first."""
    return tuple(sorted(set(causes), key=_RANK.__getitem__))


def _replaced(
    before: Mapping[str, Member],
    after: Mapping[str, Member],
    joined: Sequence[str],
    gone: Sequence[str],
) -> dict[str, Cause]:
    """Find the successors of departed members, one for each."""
    replaced: dict[str, Cause] = {}
    by_instance = {after[each].instance_id for each in joined if after[each].instance_id}
    by_client: dict[tuple[str, str], int] = {}
    for each in joined:
        member = after[each]
        if not member.instance_id:
            by_client[member.client] = by_client.get(member.client, 0) + 1
    for each in gone:
        member = before[each]
        if member.instance_id:
            if member.instance_id in by_instance:
                replaced[each] = Cause.STATIC_REPLACED
        elif by_client.get(member.client, 0) > 0:
            by_client[member.client] -= 1
            replaced[each] = Cause.CLIENT_RESTART
    return replaced


def withheld(before: Mapping[str, Member], after: Mapping[str, Member]) -> bool:
    """Return whether partitions owned on joining were assigned to nobody, since their owner had to revoke them first."""
    given = _places(member.assigned for member in before.values())
    owned = _places(member.owned for member in before.values())
    return not owned <= given or given < _places(member.assigned for member in after.values())


def deleted_topics(before: Mapping[str, Member], after: Mapping[str, Member]) -> set[str]:
    """Return the topics that members had partitions of and still subscribe to, and of which nobody has any now."""
    had, has = (
        {topic for member in members.values() for topic, _ in member.assigned}
        for members in (before, after)
    )
    return {topic for member in after.values() for topic in member.topics} & (had - has)


def lost_work(before: Mapping[str, Member], after: Mapping[str, Member]) -> bool:
    """Return whether there is less work than before."""
    return not _places(each.assigned for each in before.values()) <= _places(
        each.assigned for each in after.values()
    )


def _places(partitions: Iterable[Partitions]) -> set[tuple[str, int]]:
    return {(topic, number) for each in partitions for topic, numbers in each for number in numbers}
