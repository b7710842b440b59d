"""Model the committed offsets of a group: the offsets that the coordinator must serve."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Committed(NamedTuple):
    """The offset that must be served for a partition."""

    offset: int
    position: int
    """Its position in the log: the later one wins."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One acknowledged change, with its position in the log."""

    position: int
    """The end of the log right after it."""
    offsets: Mapping[int, int | None]
    """By partition; None if the offset was removed."""
    producer_id: int | None = None
    """The producer whose transaction it belongs to, if any."""
    ends: bool | None = None
    """For the end of a producer's transaction: whether it was committed."""


class OffsetModel:
    """The offsets of one group, computed from acknowledged requests alone."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.stable: dict[int, Committed] = {}
        """The offsets that must be served, by partition."""
        self.pending: dict[int, dict[int, Committed]] = {}
        """The offsets of open transactions, by producer id and partition."""
        self.count = 0
        """The number of acknowledged commits."""

    def add(self, entry: Entry) -> None:
        """Apply an acknowledged change."""
        self.entries.append(entry)
        self.count += 1
        self._apply(entry)

    def truncate(self, log_end: int) -> int:
        """Forget entries behind a log end, as they were lost; return their number."""
        kept = [entry for entry in self.entries if entry.position <= log_end]
        lost = len(self.entries) - len(kept)
        self.entries = kept
        self.stable, self.pending = {}, {}
        for entry in kept:
            self._apply(entry)
        return lost

    @property
    def end(self) -> int:
        """The end of the log as of the last entry."""
        return self.entries[-1].position if self.entries else 0

    def offsets(self) -> dict[int, int]:
        """Return the offsets that must be served, by partition."""
        return {partition: each.offset for partition, each in self.stable.items()}

    def unstable(self) -> set[int]:
        """Return the partitions that an open transaction may still change."""
        return {partition for offsets in self.pending.values() for partition in offsets}

    def _apply(self, entry: Entry) -> None:
        if entry.ends is not None:
            waiting = self.pending.pop(entry.producer_id or 0, {})
            if entry.ends:
                for partition, each in waiting.items():
                    self._settle(partition, each)
            return
        for partition, offset in entry.offsets.items():
            if offset is None:
                self.stable.pop(partition, None)
                for offsets in self.pending.values():
                    offsets.pop(partition, None)
                continue
            committed = Committed(offset, entry.position)
            if entry.producer_id is None:
                self._settle(partition, committed)
            else:
                self.pending.setdefault(entry.producer_id, {})[partition] = committed

    def _settle(self, partition: int, committed: Committed) -> None:
        known = self.stable.get(partition)
        # of one batch, the last one counts
        if known is None or known.position <= committed.position:
            self.stable[partition] = committed
