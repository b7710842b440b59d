"""Keep the books of one kind of work through a leader's rounds: what was, what is, and what is to be."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle
from typing import Generic, TypeVar

from groupsdk.utf16 import utf16_key
from groupsdk.wire.connect_protocol import ConnectorTaskId


ItemT = TypeVar("ItemT", str, ConnectorTaskId)
Loads = dict[str, list[ItemT]]
"""Items by member."""


class Share(Generic[ItemT]):
    """Connectors or tasks, shared out by their number as Kafka's class does.

    A round is `begin`, `compare`, perhaps `return_lost`, `level` and `revoke_surplus`, then `hand_out` and
    `finish`.

    Args:
        in_order: sorts items.
    """

    def __init__(self, in_order: Callable[[Iterable[ItemT]], list[ItemT]]) -> None:
        self.previous: set[ItemT] = set()
        """What the last round gave out or held back, whoever has it."""
        self.revocation_failed = False
        self.configured: Sequence[ItemT] = ()
        self.active: set[ItemT] = set()
        self.lost: list[ItemT] = []
        self.next: Loads[ItemT] = {}
        """What each member has when the round is over."""
        self.given: Loads[ItemT] = {}
        """What of it is new."""
        self.revoked: Loads[ItemT] = {}
        self._in_order: Callable[[Iterable[ItemT]], list[ItemT]] = in_order
        self._previously_revoked: set[ItemT] = set()
        self._reported: dict[str, Sequence[ItemT]] = {}
        self._created: list[ItemT] = []
        self._surplus: Loads[ItemT] = {}

    def begin(
        self, configured: Sequence[ItemT], reported: dict[str, Sequence[ItemT]], known: bool
    ) -> None:
        """Take the members' reports."""
        self.configured = configured
        self._reported = reported
        self.active = set().union(*reported.values())
        if not known:
            self.previous = set()
        self.revocation_failed = not self._previously_revoked.isdisjoint(self.active)
        self._previously_revoked = set()

    def start_from_reports(self) -> None:
        """Take what the members hold for what was given out."""
        self.previous = set(self.active)

    def compare(self) -> None:
        """Find what is deleted, doubly owned, lost and new, and begin the next round's loads."""
        previous, active = self.previous, self.active
        gone: set[ItemT] = set()
        if not previous and not active:
            self.lost, self._created = [], list(self.configured)
        else:
            configured = set(self.configured)
            deleted = previous - configured
            gone = deleted | self._duplicated()
            self.lost = self._in_order(previous - active - deleted)
            created = configured - previous - active
            self._created = [each for each in self.configured if each in created] if created else []
        self.revoked = {}
        if not gone.isdisjoint(active):
            for member, items in self._reported.items():
                taken = [each for each in items if each in gone]
                if taken:
                    self.revoked[member] = taken
        self.next = {
            member: [each for each in items if each not in gone]
            if member in self.revoked
            else list(items)
            for member, items in self._reported.items()
        }
        self.given = {member: [] for member in self._reported}
        self._surplus = {}

    def _duplicated(self) -> set[ItemT]:
        if sum(map(len, self._reported.values())) == len(self.active):
            return set()
        counts = Counter(each for items in self._reported.values() for each in items)
        return {each for each, count in counts.items() if count > 1}

    def return_lost(self, candidates: Sequence[str]) -> None:
        """Give what was lost to the candidates in turn."""
        for member, item in zip(cycle(candidates), self.lost, strict=False):
            self._give(member, item)

    def level(self, member_count: int, reassigned: bool) -> bool:
        """Find what members have above their share; return whether there is any.

        Args:
            member_count: how many members there are.
            reassigned: what `hand_out` will be told.
        """
        least, extra = divmod(len(self.configured), member_count)
        sizes = Counter(map(len, self.next.values()))
        if sizes[least + 1] == extra and sizes[least] + sizes[least + 1] == member_count:
            return False
        granted = 0
        for member, items in self.next.items():
            size = len(items)
            if size <= least:
                continue
            most = least
            if granted < extra:
                granted += 1
                most = least + 1
                if size == most:
                    continue
            self._surplus[member] = items[: size - most]
        return bool(self._surplus)

    def revoke_surplus(self) -> None:
        """Take from each member the first of its items, down to its share."""
        for member, items in self._surplus.items():
            self.revoked.setdefault(member, []).extend(items)
            del self.next[member][: len(items)]
            if self.given[member]:  # of what was lost; it stays nowhere in this round
                gone = set(items)
                self.given[member] = [each for each in self.given[member] if each not in gone]

    def hand_out(self, reassigned: bool) -> None:
        """Give what is new, and where `reassigned` what was lost, to those with the least."""
        items = self._fresh(reassigned)
        if not items:
            return
        loads = sorted((len(load), utf16_key(member), member) for member, load in self.next.items())
        upto, level, size, done = 0, loads[0][0], len(loads), 0
        while done < len(items):
            # the front of the queue: all with as little as the first
            while upto < size and loads[upto][0] <= level:
                upto += 1
            if upto == size:
                # all of them, to the end
                for place, (_, _, member) in enumerate(loads):
                    part = items[done + place :: size]
                    self.next[member].extend(part)
                    self.given[member].extend(part)
                return
            # as many as there are members in front, or fewer at the end
            part = items[done : done + upto]
            done += upto
            for (_, _, member), item in zip(loads, part, strict=False):
                self.next[member].append(item)
                self.given[member].append(item)
            level += 1

    def _fresh(self, reassigned: bool) -> list[ItemT]:
        return self._created + self.lost if reassigned else self._created

    def finish(self) -> None:
        """Remember what is out, for the next round."""
        self._previously_revoked = set().union(*self.revoked.values())
        self.previous = set().union(*self.next.values()) - self._previously_revoked
        self.previous.update(self.lost)

    def _give(self, member: str, item: ItemT) -> None:
        self.next[member].append(item)
        self.given[member].append(item)
