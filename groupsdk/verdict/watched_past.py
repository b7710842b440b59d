"""Note who comes and goes in a group from look to look, for those who cannot read its log. Pure."""

from collections import deque
from dataclasses import replace
from typing import Final

from groupsdk.admin.descriptions import GroupDescription, Member
from groupsdk.history.explain.changes import Cause
from groupsdk.verdict.observation import Past, PastGeneration, PastMembership


_KEPT: Final = 200
"""How many ended memberships and generations of a group are kept."""


class WatchedPast:
    """The memberships that a watcher has seen begin and end; shorter ones than its interval are missing."""

    def __init__(self, since_ms: int) -> None:
        self._since_ms = since_ms
        self._seq = -1
        self._open: dict[str, PastMembership] = {}
        self._ended: deque[PastMembership] = deque(maxlen=_KEPT)
        self._generations: deque[PastGeneration] = deque(maxlen=_KEPT)

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
