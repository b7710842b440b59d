"""Replay what the workers wrote, say what counts and what does not, and judge the whole.

A shard's results are one partition of a topic, so their order is the same for all who read them. Two kinds
of records are in it:

- a *fence*: "from here on the shard is mine, under this epoch". It holds when its epoch is greater than that of the fence
  before it.
- a *count*: the words of one unit. It counts only if it carries epoch and member of the fence that holds at its place in
  the log. A count of anybody else comes from a worker that had lost the shard and did
  not know it yet: it is ignored.

A new owner first writes its fence, then reads up to it: what counts before the fence is done, and whatever
its predecessor still writes after it is ignored. No unit is lost, and none counts twice.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields as dataclass_fields


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the results topic; a fence where `unit` is None."""

    shard: int
    epoch: int
    """Of the owner's lease."""
    member: str
    """The member id, which no two workers share."""
    unit: int | None = None
    """Which text was counted."""
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    """Word to number of occurrences."""

    def to_bytes(self) -> bytes:
        """Write the record as JSON."""
        fields = {each.name: getattr(self, each.name) for each in dataclass_fields(self)}
        return json.dumps(fields).encode()

    @classmethod
    def of(cls, value: bytes) -> "Record":
        """Read a record."""
        return cls(**json.loads(value))

    @property
    def owner(self) -> tuple[int, str]:
        """Who wrote it, and under which epoch."""
        return self.epoch, self.member


class ShardLedger:
    """What one shard's log says, as far as it has been read."""

    def __init__(self, shard: int) -> None:
        self.shard = shard
        self.next_offset = 0
        self.done: set[int] = set()
        """The units that count."""
        self.counts: Counter[str] = Counter()
        """The words of all records that count, so a unit that counts twice shows here."""
        self.twice: list[int] = []
        """Units that counted again."""
        self.ignored: list[Record] = []
        """Counts that a worker wrote after it had lost the shard."""
        self._fence: tuple[int, str] = (-1, "")

    def replay(self, offset: int, record: Record) -> None:
        """Take in the next record of the log."""
        self.next_offset = offset + 1
        if record.unit is None:
            if record.epoch > self._fence[0]:
                self._fence = record.owner
        elif record.owner != self._fence:
            self.ignored.append(record)
        else:
            if record.unit in self.done:
                self.twice.append(record.unit)
            self.done.add(record.unit)
            self.counts.update(record.counts)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The counts of the log beside the truth."""

    counted: int
    """Words that the workers counted."""
    expected: int
    """Words that there are."""
    lost: int
    """Units without a count."""
    twice: int
    """Units with more than one."""
    ignored: int
    """Counts of workers that had lost the shard."""
    saved: int
    """Those of them that would have counted twice, had they not been ignored."""
    wrong_words: tuple[str, ...]
    """Words whose number differs from the truth."""

    @property
    def right(self) -> bool:
        """Tell whether every word of every text was counted exactly once."""
        return not (self.lost or self.twice or self.wrong_words) and self.counted == self.expected


def judge(ledgers: Iterable[ShardLedger], truth: Sequence[Mapping[str, int]]) -> Verdict:
    """Compare what the ledgers hold with the words of each unit, counted in one process."""
    expected: Counter[str] = Counter()
    for unit in truth:
        expected.update(unit)
    counted: Counter[str] = Counter()
    done: set[int] = set()
    twice = ignored = saved = 0
    for ledger in ledgers:
        counted.update(ledger.counts)
        twice += len(ledger.twice) + len(done & ledger.done)
        done |= ledger.done
        ignored += len(ledger.ignored)
        saved += sum(record.unit in ledger.done for record in ledger.ignored)
    return Verdict(
        counted=counted.total(),
        expected=expected.total(),
        lost=len(set(range(len(truth))) - done),
        twice=twice,
        ignored=ignored,
        saved=saved,
        wrong_words=tuple(sorted(w for w in counted | expected if counted[w] != expected[w])),
    )
