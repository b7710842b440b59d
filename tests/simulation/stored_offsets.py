"""Read a group's committed offsets out of its log, those of open transactions among them."""

from collections.abc import Mapping
from typing import NamedTuple

from groupsdk.testing.simulation.work import CommitStamp, TopicPartition


class Pending(NamedTuple):
    """An offset that waits for the end of its transaction."""

    offset: int
    position: int
    """Where in the log it is: the later one of a partition counts, whenever the transactions end."""


class StoredOffsets:
    """The offsets of one group, worked out without the coordinator's help."""

    def __init__(self) -> None:
        self.stable: dict[TopicPartition, int] = {}
        """What is to be served."""
        self.pending: dict[int, dict[TopicPartition, Pending]] = {}
        """By producer id."""
        self.since_ms: dict[int, int] = {}
        """When each of these transactions took its first offset."""
        self.stamps: dict[TopicPartition, CommitStamp | None] = {}
        """Who committed what is stable."""
        self._positions: dict[TopicPartition, int] = {}
        self._count = 0

    def store(
        self,
        place: TopicPartition,
        offset: int,
        stamp: CommitStamp | None,
        producer_id: int | None,
        now_ms: int,
    ) -> None:
        """Take a record in; one of a transaction waits for its end."""
        self._count += 1
        if producer_id is None:
            self._settle(place, offset, self._count)
            self.stamps[place] = stamp
            return
        self.pending.setdefault(producer_id, {})[place] = Pending(offset, self._count)
        self.since_ms.setdefault(producer_id, now_ms)

    def remove(self, place: TopicPartition) -> None:
        """Take a tombstone in, which drops what is pending as well."""
        self.stable.pop(place, None)
        self.stamps.pop(place, None)
        for producer_id, offsets in list(self.pending.items()):
            offsets.pop(place, None)
            if not offsets:
                self._close(producer_id)

    def end(self, producer_id: int, *, committed: bool) -> Mapping[TopicPartition, int]:
        """End a producer's transaction; return the offsets that it leaves, where later ones have not taken their place."""
        offsets = self.pending.get(producer_id, {})
        self._close(producer_id)
        left = {
            place: each.offset
            for place, each in offsets.items()
            if committed and each.position > self._positions.get(place, 0)
        }
        for place, offset in left.items():
            self._settle(place, offset, offsets[place].position)
            self.stamps.pop(place, None)
        return left

    @property
    def unstable(self) -> set[TopicPartition]:
        """The partitions whose offset an open transaction may still change."""
        return {place for offsets in self.pending.values() for place in offsets}

    def _settle(self, place: TopicPartition, offset: int, position: int) -> None:
        self.stable[place] = offset
        self._positions[place] = position

    def _close(self, producer_id: int) -> None:
        self.pending.pop(producer_id, None)
        self.since_ms.pop(producer_id, None)
