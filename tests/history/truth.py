"""Read from a coordinator's log what happened to each generation of each group: what causes are held against."""

import gzip
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from groupsdk.history.explain.changes import Cause
from tests.history.sample import DATA


REJOINED: Final = frozenset(
    {
        *(Cause.SUBSCRIPTION_CHANGE, Cause.TOPIC_GROWTH),
        *(Cause.COOPERATIVE_FOLLOWUP, Cause.REJOIN),
        *(Cause.TOPIC_DELETED, Cause.WORK_CHANGE),
    }
)
"""What it may be where the log says only that members came again."""

_JOINS: Final = r"Static member with groupInstanceId=\S+ and unknown member id joins group (?P<group>\S+) in \S+ state"
_AGAIN: Final = (
    r"Static member with instance id \S+ re-joins the consumer group using the \S+ protocol"
)
_MODERN: Final = r"\[GroupId (?P<group>\S+)\] "
_STREAMS: Final = r"\[GroupId (?P<group>\S+)\]\[MemberId \S+\] "
_MEMBER: Final = r"(?:Static m|M)ember (?P<member>\S+) (?:with instance id \S+ )?"

_LINES: Final = tuple(
    (what, re.compile(pattern))
    for what, pattern in (
        (
            "reason",
            r"Preparing to rebalance group (?P<group>\S+) in .*? \(reason: (?P<member>.*)\)\.?$",
        ),
        ("done", r"Stabilized group (?P<group>\S+) generation (?P<generation>\d+) with"),
        ("done", r"Group (?P<group>\S+) with generation (?P<generation>\d+) is now empty"),
        ("done", _MODERN + r"Bumped group epoch to (?P<generation>\d+) with"),
        ("done", _STREAMS + r"Bumped streams group epoch to (?P<generation>\d+) with"),
        # of an epoch that members' ends begin the coordinator says no more than this
        ("planned", _MODERN + r"Computed a new target assignment for epoch (?P<generation>\d+)"),
        ("undone", r"\[GroupId=(?P<group>\S+)\] Unload(?:ing|ed) group metadata"),
        ("undone", r"Loaded (?:classic|consumer) group (?P<group>\S+) with"),
        ("failed", r"Member (?P<member>\S+) in group (?P<group>\S+) has failed, removing it"),
        (
            "failed",
            r"Group (?P<group>\S+) removed dynamic members who haven't joined: (?P<member>.*)",
        ),
        ("failed", r"Group (?P<group>\S+) removed members who haven't sent .*?: (?P<member>.*)"),
        ("failed", _MODERN + r"Member (?P<member>\S+) fenced from the group because"),
        (
            "left",
            r"\[Group(?:Id)? (?P<group>\S+)\] (?:Dynamic m|Static m|M)ember (?P<member>\S+) .*?has left group",
        ),
        ("failed", _MODERN + r"Streams member (?P<member>\S+) fenced from the group because"),
        ("left", _MODERN + _MEMBER + "left the (?:consumer|share) group"),
        ("left", _STREAMS + _MEMBER + "left the streams group"),
        ("came", r"Pending dynamic member with id (?P<member>\S+) joins group (?P<group>\S+) in"),
        ("came", _JOINS + r"\. Created a new member id (?P<member>\S+) for"),
        ("came", _MODERN + _MEMBER + "joins the (?:consumer|share) group"),
        (
            "came",
            r"\[GroupId (?P<group>\S+)\]\[MemberId (?P<member>\S+)\] Member joins the streams group",
        ),
        ("replaced", _JOINS + r"\. Replacing previously mapped member (?P<member>\S+) with"),
        ("replaced", _MODERN + _AGAIN + r"\. Created .* existing member (?P<member>\S+)\."),
    )
)


@dataclass(slots=True)
class Truth:
    """What happened to a group since the generation before."""

    group: str
    generation: int = -1
    reasons: list[str] = field(default_factory=list)
    came: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    replaced: set[str] = field(default_factory=set)
    loaded: bool = False
    """Whether there was no coordinator for a time."""

    @property
    def causes(self) -> frozenset[Cause]:
        """What it may rightly be said to have come of."""
        found = {
            cause
            for cause, members, word in (
                (Cause.JOIN, self.came, "Adding new member"),
                (Cause.LEAVE, self.left, "LeaveGroup"),
                (Cause.EXPIRY, self.failed, "expiration"),
                (Cause.STATIC_REPLACED, self.replaced, "static member"),
            )
            if members or any(word in reason for reason in self.reasons)
        }
        if found & {Cause.LEAVE, Cause.EXPIRY}:
            # the coordinator does not hear why
            found.add(Cause.POLL_TIMEOUT)
        if Cause.JOIN in found and found & {Cause.LEAVE, Cause.EXPIRY}:
            found.add(Cause.CLIENT_RESTART)
            if self.loaded:
                found.add(Cause.COORDINATOR_RESTART)
        came_again = any(
            reason.startswith(("Leader", "Updating metadata")) for reason in self.reasons
        )
        return frozenset(found | REJOINED if came_again or not found else found)


def truths(lines: Iterable[str]) -> Iterator[Truth]:
    """Give what happened, one generation after the other in the order of the log."""
    under_way: dict[str, Truth] = {}
    for line in lines:
        found = _read(line.rstrip())
        if found is None:
            continue
        what, match = found
        group = match["group"]
        now = under_way.setdefault(group, Truth(group))
        if what == "undone":
            # the group will be loaded as it was: what was not finished did not happen
            under_way[group] = Truth(group, loaded=True)
        elif what == "planned" and not (now.left or now.failed):
            continue
        elif what in ("done", "planned"):
            now.generation = int(match["generation"])
            yield under_way.pop(group)
        elif what == "reason":
            now.reasons.append(match["member"])
        else:
            getattr(now, what).update(re.findall(r"[^\s\[\],]+", match["member"]))


def _read(line: str) -> tuple[str, re.Match[str]] | None:
    for what, pattern in _LINES:
        match = pattern.search(line)
        if match is not None:
            return what, match
    return None


@dataclass(frozen=True, slots=True)
class Judged:
    """One generation: what it was said to come of, and what it came of."""

    group: str
    generation: int
    said: str
    confidence: float
    causes: frozenset[Cause]
    reasons: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Whether it was said rightly."""
        return self.said in self.causes


class Truths:
    """All that a coordinator's log says, to look up."""

    def __init__(self, log: Path) -> None:
        self._of: dict[tuple[str, int], list[Truth]] = {}
        opened = gzip.open if log.suffix == ".gz" else open
        with opened(log, "rt", encoding="utf-8") as lines:
            for truth in truths(lines):
                self._of.setdefault((truth.group, truth.generation), []).append(truth)

    @classmethod
    def of(cls, name: str) -> Self:
        """Read what the coordinator of a recorded log said."""
        return cls(DATA / name / "coordinator-log.txt.gz")

    def end(self, group: str, member: str, generation: int, missing: int = 0) -> frozenset[Cause]:
        """Return why a member is not in a generation: a member that comes back under its id ends several times."""
        truths = [
            truth
            for number in range(generation - missing, generation + 1)
            for truth in self._of.get((group, number), [])
        ]
        found = {Cause.LEAVE for truth in truths if member in truth.left}
        found |= {Cause.EXPIRY for truth in truths if member in truth.failed}
        return frozenset(found | {Cause.POLL_TIMEOUT} if found else found)

    def judge(self, rows: Iterable[Any]) -> list[Judged]:
        """Hold rows of the table `generations` against it; those that the log does not mention are left out."""
        return [judged for row in rows if (judged := self._judge(row)) is not None]

    def _judge(self, row: Any) -> Judged | None:
        group, last = row["group_id"], row["generation"]
        found = []
        # what stands in no record happened all the same, and shows in the next one
        for generation in range(last - row["missing_before"], last + 1):
            incarnations = self._of.get((group, generation), [])
            found += incarnations[row["incarnation"] :][:1] or incarnations[-1:]
        if not found or row["primary_cause"] == Cause.CREATED:
            return None
        return Judged(
            group,
            last,
            row["primary_cause"],
            row["confidence"],
            frozenset().union(*(truth.causes for truth in found)),
            tuple(reason for truth in found for reason in truth.reasons),
        )
