"""The start offset of each leader epoch of a partition (Kafka: LeaderEpochFileCache)."""

import logging
import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from groupsdk.broker.log.checkpoints import read_lines, write_lines
from groupsdk.broker.log.files import Files


logger = logging.getLogger(__name__)
FILE_NAME: Final = "leader-epoch-checkpoint"
_LINE: Final = re.compile(r"(\d{1,10}) (\d{1,19})")
UNDEFINED: Final = -1


class LeaderEpochs:
    """The leader epochs of one partition with their first offsets, stored in a file.

    The file is written when an epoch is added or dropped, not with every append."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._path = f"{directory}/{FILE_NAME}"
        self._epochs: list[int] = []
        self._starts: list[int] = []

    @property
    def entries(self) -> Sequence[tuple[int, int]]:
        """All (epoch, first offset), ascending."""
        return list(zip(self._epochs, self._starts, strict=True))

    @property
    def latest(self) -> int:
        """The newest leader epoch; -1 if none is known."""
        return self._epochs[-1] if self._epochs else UNDEFINED

    def load(self) -> None:
        """Read the file; no epochs are known if it is missing or incomplete."""
        for line in read_lines(self._files, self._path) or ():
            match = _LINE.fullmatch(line)
            if match is None:
                logger.warning("%s: ignored, line %r is not a leader epoch", self._path, line[:200])
                self._epochs, self._starts = [], []
                return
            self._add(int(match[1]), int(match[2]))

    def assign(self, epoch: int, offset: int) -> None:
        """Record the epoch of a batch about to be appended, and write the file if the epoch is new."""
        if epoch < 0 or (self._epochs and epoch == self._epochs[-1]):
            return
        before = self._epochs[:], self._starts[:]
        self._add(epoch, offset)
        self._save(before)

    def note(self, epoch: int, offset: int) -> bool:
        """Record the epoch of a batch found in the log, in memory only. Return whether that changed anything."""
        known = self._epochs and (epoch == self._epochs[-1] or offset < self._starts[-1])
        if epoch < 0 or known:
            return False
        self._add(epoch, offset)
        return True

    def truncate_end(self, offset: int) -> None:
        """Drop the epochs that start at or after an offset, the new end of the log."""
        before = self._epochs[:], self._starts[:]
        while self._starts and self._starts[-1] >= offset:
            self._starts.pop()
            self._epochs.pop()
        self._save(before)

    def truncate_start(self, offset: int) -> None:
        """Drop the epochs that end at or before an offset, the new start of the log."""
        keep = bisect_right(self._starts, offset) - 1
        if keep < 0 or (keep == 0 and self._starts[0] == offset):
            return
        before = self._epochs[:], self._starts[:]
        del self._epochs[:keep]
        del self._starts[:keep]
        self._starts[0] = offset
        self._save(before)

    def clear(self) -> None:
        """Drop all epochs, without writing the file."""
        self._epochs, self._starts = [], []

    def save(self) -> None:
        entries = zip(self._epochs, self._starts, strict=True)
        write_lines(self._files, self._path, (f"{epoch} {start}" for epoch, start in entries))

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch of an offset; -1 if unknown."""
        found = bisect_right(self._starts, offset) - 1
        return self._epochs[found] if found >= 0 else UNDEFINED

    def agree(self, epoch: int, offset: int) -> bool:
        """Return whether a batch with this epoch may be at this offset; True if either is unknown (epoch -1)."""
        return epoch == UNDEFINED or self.epoch_at(offset) in (UNDEFINED, epoch)

    def end_offset(
        self, epoch: int, log_end_offset: int, leader_epoch: int = UNDEFINED
    ) -> tuple[int, int]:
        """Return the largest known epoch at or below one, and the offset after its last record; (-1, -1) if unknown.

        Kafka: LeaderEpochFileCache.endOffsetFor. The leader's own epoch counts as known before its first batch:
        Kafka's leaders record it when they are elected.
        """
        if self.latest < epoch <= leader_epoch:
            known = epoch if epoch == leader_epoch or not self._epochs else self.latest
            return known, log_end_offset
        if epoch < 0 or not self._epochs:
            return UNDEFINED, UNDEFINED
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        following = bisect_right(self._epochs, epoch)
        if following == len(self._epochs):
            return UNDEFINED, UNDEFINED
        found = self._epochs[following - 1] if following else epoch
        return found, self._starts[following]

    def _add(self, epoch: int, offset: int) -> None:
        # entries at or after the new one were never written, or by a leader that has been replaced
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= offset):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(offset)

    def _save(self, before: tuple[list[int], list[int]]) -> None:
        if (self._epochs, self._starts) == before:
            return
        try:
            self.save()
        except Exception:
            self._epochs, self._starts = before
            raise
