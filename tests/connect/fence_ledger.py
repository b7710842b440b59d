"""A ledger that all owners of a task write to, and that refuses a smaller fencing token after a greater one."""

import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from groupsdk.clock import SystemClock


_LONGEST_LINE = 200


@dataclass(frozen=True, slots=True)
class Entry:
    """A line."""

    task: str
    worker: str
    token: int
    at_ms: int
    count: int
    warm: bool
    refused: bool


@dataclass(frozen=True, slots=True)
class Audit:
    """What a ledger shows."""

    writes: int
    handovers: int
    refused: list[Entry]
    """Writes of workers that were not the owner any more."""
    longest_gap_ms: int
    """The longest time between two writes of one of the tasks that were always there."""


class FenceLedger:
    """One file for each task; a write is one step, whoever else writes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def write(self, task: str, worker: str, token: int, count: int, *, warm: bool) -> bool:
        """Write a line; tells whether the token was great enough."""
        with (self.directory / f"{task}.ledger").open("a+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LONGEST_LINE))
            lines = file.read().splitlines()
            last = int(lines[-1].split()[5]) if lines else -1
            greatest = max(last, token)
            line = f"{worker} {token} {SystemClock().now_ms()} {count} {int(warm)} {greatest}\n"
            file.write(line.encode())
            return token >= last

    def entries(self, task: str) -> list[Entry]:
        """What was written for a task."""
        path = self.directory / f"{task}.ledger"
        found = []
        for line in path.read_text().splitlines() if path.exists() else ():
            worker, token, at_ms, count, warm, greatest = line.split()
            refused = int(token) < int(greatest)
            found.append(
                Entry(task, worker, int(token), int(at_ms), int(count), warm == "1", refused)
            )
        return found

    def tasks(self) -> Iterator[str]:
        """Of which tasks anything was written."""
        for path in sorted(self.directory.glob("*.ledger")):
            yield path.stem

    def owners(self, task_count: int, since_ms: int) -> dict[str, str]:
        """Who has written last for each of the first tasks, where that is not before a time."""
        last = {task: self.entries(task)[-1:] for task in map("t{}".format, range(task_count))}
        return {
            task: entry[0].worker
            for task, entry in last.items()
            if entry and entry[0].at_ms >= since_ms and not entry[0].refused
        }

    def audit(self, always: int) -> Audit:
        """Check that tokens tell owners apart and that states go on.

        Args:
            always: how many tasks there were all the time; the gaps of others mean nothing.

        Raises:
            AssertionError: two workers wrote under one token, or a state was lost.
        """
        writes, handovers, gap_ms, refused = 0, 0, 0, []
        for task in self.tasks():
            entries = self.entries(task)
            refused += [each for each in entries if each.refused]
            kept = [each for each in entries if not each.refused]
            writes += len(kept)
            for old, new in pairwise(kept):
                if int(task[1:]) < always:
                    gap_ms = max(gap_ms, new.at_ms - old.at_ms)
                if new.token == old.token:
                    assert new.worker == old.worker, (old, new)
                else:
                    handovers += 1
                # what was written last may not have been committed; nothing before it is done twice
                assert old.count <= new.count <= old.count + 1, (old, new)
        return Audit(writes, handovers, refused, gap_ms)
