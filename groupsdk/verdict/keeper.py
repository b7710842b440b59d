"""Remember the last hour of groups that are watched, and judge them at each look. Pure."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from groupsdk.admin.descriptions import GroupDescription, Member
from groupsdk.admin.watching import ClusterView, WatchedGroup
from groupsdk.assignment import TopicPartition
from groupsdk.history.explain.changes import Cause
from groupsdk.verdict.judge import judge
from groupsdk.verdict.observation import (
    KnownLog,
    Observation,
    Obstacle,
    Past,
    PastGeneration,
    PastMembership,
    Sample,
    Thresholds,
)
from groupsdk.verdict.values import GroupVerdict


_KEPT_MS: Final = 3_600_000
_STEP_MS: Final = 30_000
"""The least time between two samples that are kept."""
_KEPT: Final = _KEPT_MS // _STEP_MS
_NOTHING: Final = KnownLog()
_KEPT_ENDED: Final = 200
"""How many ended memberships and generations of a group are kept."""


class WatchedPast:
    """The memberships that a watcher has seen begin and end; shorter ones than its interval are missing."""

    def __init__(self, since_ms: int) -> None:
        self._since_ms = since_ms
        self._seq = -1
        self._open: dict[str, PastMembership] = {}
        self._ended: deque[PastMembership] = deque(maxlen=_KEPT_ENDED)
        self._generations: deque[PastGeneration] = deque(maxlen=_KEPT_ENDED)

    def note(self, at_ms: int, group: GroupDescription) -> None:
        """Take the next look."""
        members = {each.member_id: each for each in group.members}
        if self._seq >= 0 and members.keys() == self._open.keys():
            return
        is_first = self._seq < 0
        self._seq += 1
        instances = {each.instance_id for each in group.members if each.instance_id}
        gone = self._open.keys() - members.keys()
        new = members.keys() - self._open.keys()
        for member_id in sorted(gone):
            open_one = self._open.pop(member_id)
            replaced = open_one.instance_id is not None and open_one.instance_id in instances
            self._ended.append(
                replace(
                    open_one,
                    end_ms=at_ms,
                    last_seq=self._seq - 1,
                    reason=str(Cause.STATIC_REPLACED if replaced else Cause.UNKNOWN),
                )
            )
        for member_id in sorted(new):
            self._open[member_id] = _membership(
                members[member_id], self._seq, None if is_first else at_ms
            )
        self._generations.append(
            PastGeneration(
                seq=self._seq,
                at_ms=at_ms,
                cause=str(Cause.JOIN if new else Cause.UNKNOWN),
                members=len(members),
                assignor=group.assignor,
            )
        )

    def past(self) -> Past:
        return Past(
            since_ms=self._since_ms,
            generations=tuple(self._generations),
            memberships=(*self._ended, *self._open.values()),
        )


def _membership(member: Member, seq: int, start_ms: int | None) -> PastMembership:
    return PastMembership(
        client_id=member.client_id,
        client_host=member.host,
        instance_id=member.instance_id,
        first_seq=seq,
        last_seq=seq,
        start_ms=start_ms,
    )


@dataclass(slots=True)
class _Past:
    members_past: WatchedPast
    began_ms: int
    """When the first look was."""
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=_KEPT))
    members: frozenset[tuple[str, int]] = frozenset()
    settled_ms: int | None = None
    empty_ms: int | None = None
    total: int = 0
    """The sum of the committed offsets."""
    committed: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """The committed offset of each partition with lag, and since when it is the same."""

    def since(self, seen_ms: int | None, logged_ms: int | None) -> int | None:
        """Return since when something is as it is: as the log says, where it was so at the first look already."""
        is_older = seen_ms is not None and seen_ms <= self.began_ms and logged_ms is not None
        return logged_ms if is_older else seen_ms


class VerdictKeeper:
    """Judges groups look by look: holds some numbers of each for an hour, and of each partition with lag.

    Belongs to one thread or event loop.
    """

    def __init__(self, thresholds: Thresholds | None = None) -> None:
        self._thresholds = thresholds or Thresholds()
        self._past: dict[str, _Past] = {}

    def observe(
        self,
        view: ClusterView,
        obstacles: Mapping[str, Iterable[Obstacle]] | None = None,
        *,
        known: KnownLog = _NOTHING,
    ) -> dict[str, GroupVerdict]:
        """Take the next view and return the verdict over each of its groups, by name.

        `known` is what the log tells of them: what was before the first look, and between looks.
        """
        verdicts = {}
        for each in view.groups:
            group_id = each.description.group_id
            past = self._past.setdefault(group_id, _Past(WatchedPast(view.at_ms), view.at_ms))
            log = known.groups.get(group_id)
            # a view with an error, or of a poll that waits, repeats the groups of the one before
            if view.error is None and view.asking_since_ms is None:
                _note(past, view.at_ms, each)
            verdicts[group_id] = judge(
                Observation(
                    group_id=group_id,
                    at_ms=view.at_ms,
                    group=each.description,
                    lag=each.lag,
                    samples=tuple(past.samples),
                    past=log.past if log is not None else past.members_past.past(),
                    settled_ms=past.since(past.settled_ms, log.changed_ms if log else None),
                    empty_ms=past.since(past.empty_ms, log.emptied_ms if log else None),
                    state_ms=each.since_ms,
                    stalled={part: since for part, (_, since) in past.committed.items()},
                    retention_ms=known.retention_ms,
                    obstacles=tuple((obstacles or {}).get(group_id, ())),
                ),
                self._thresholds,
            )
        for gone in self._past.keys() - verdicts.keys():
            del self._past[gone]
        return verdicts


def _note(past: _Past, at_ms: int, watched: WatchedGroup) -> None:
    group = watched.description
    members = _members(group)
    if past.settled_ms is None or members != past.members:
        past.settled_ms, past.members = at_ms, members
    total = sum(each.committed or 0 for each in watched.lag)
    # a consumer without membership, which assigns itself, commits while the group is empty
    if group.members:
        past.empty_ms = None
    elif past.empty_ms is None or total != past.total:
        past.empty_ms = at_ms
    past.total = total
    past.members_past.note(at_ms, group)
    if not past.samples or at_ms - past.samples[-1].at_ms >= _STEP_MS:
        past.samples.append(_sample(at_ms, watched))
    past.committed = {
        part: (committed, since_ms if before == committed else at_ms)
        for each in watched.lag
        if each.lag and (committed := each.committed) is not None
        for part in (TopicPartition(each.topic, each.partition),)
        for before, since_ms in (past.committed.get(part, (-1, at_ms)),)
    }


def _members(group: GroupDescription) -> frozenset[tuple[str, int]]:
    return frozenset((each.member_id, hash(each.assignment.partitions)) for each in group.members)


def _sample(at_ms: int, watched: WatchedGroup) -> Sample:
    known = [each for each in watched.lag if each.committed is not None]
    return Sample(
        at_ms,
        len(watched.description.members),
        sum(each.lag or 0 for each in known) if known else None,
        sum(each.committed or 0 for each in known) if known else None,
    )
