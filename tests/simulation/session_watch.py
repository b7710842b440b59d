"""Check that members are expelled when they may be, and no later than they must be (invariants 5 and 6)."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from groupsdk.broker.coordinator.classic.group import ClassicGroup
from groupsdk.broker.coordinator.group_status import GroupState
from groupsdk.wire.schema import Request
from tests.simulation.observed_shard import GroupSnapshot


_NEVER: Final = 0
Fail = Callable[[int, str], None]


class Phase(NamedTuple):
    """The time at which a group entered a state, and how long it may stay in it."""

    since_ms: int
    timeout_ms: int


class SessionWatch:
    """The times at which the coordinator heard of each member, certainly and possibly."""

    def __init__(self, fail: Fail, bucket_ms: int, identify: Callable[[str], str]) -> None:
        self._fail = fail
        self._bucket_ms = bucket_ms
        self._identify = identify
        self._heard: dict[str, int] = {}
        self._touched: dict[str, int] = {}
        self._loaded_ms = 0
        self._phase = Phase(_NEVER, 0)
        self._generation = Phase(_NEVER, 0)

    def loaded(self, group: ClassicGroup | None, now_ms: int) -> None:
        """Start over: the new coordinator gives every member a new session."""
        self._loaded_ms = now_ms
        self._heard = {} if group is None else dict.fromkeys(group.members, now_ms)
        self._touched = dict(self._heard)

    def asked(self, request: Request[Any], now_ms: int) -> None:
        """Take note of what may count as a sign of life."""
        member_id = getattr(request, "member_id", "")
        if member_id in self._touched:
            self._touched[member_id] = now_ms
        instance_id = getattr(request, "group_instance_id", None)
        if instance_id is not None:
            # whatever comes of it, the process that has the instance id lives
            for each in self._touched:
                if self._identify(each) == instance_id:
                    self._touched[each] = now_ms

    def heard(self, member_id: str, now_ms: int) -> None:
        """Take note of what counts as a sign of life."""
        self._heard[member_id] = self._touched[member_id] = now_ms

    def forget(self, member_id: str) -> None:
        """Take note of a member that is gone."""
        self._heard.pop(member_id, None)
        self._touched.pop(member_id, None)

    def replaced(self, member_id: str) -> list[str]:
        """Forget and return the members whose place a static member took."""
        process = self._identify(member_id)
        gone = [
            each for each in self._heard if each != member_id and self._identify(each) == process
        ]
        for each in gone:
            self.forget(each)
        return gone

    def expelled(self, member_id: str, before: GroupSnapshot, now_ms: int) -> str:
        """Judge an expulsion; return its reason."""
        session_ms, parked = before.members[member_id]
        silent_ms = now_ms - self._heard.get(member_id, self._loaded_ms)
        if before.state is GroupState.PREPARING_REBALANCE:
            phase, missing = self._phase, not parked
        else:
            phase, missing = self._generation, member_id in before.pending_syncs
        waited_ms = now_ms - phase.since_ms
        if silent_ms < session_ms and not (missing and waited_ms >= phase.timeout_ms):
            self._fail(
                5,
                f"{member_id} is expelled {silent_ms} ms after it was heard of, in {before.state}"
                f" since {waited_ms} ms",
            )
        self.forget(member_id)
        return "session expired" if silent_ms >= session_ms else "did not rejoin"

    def entered(self, group: ClassicGroup, now_ms: int) -> None:
        """Take note of the state that the group is in.

        Has to be called before the next request is handled: a member that joins later does not prolong the phase.
        """
        if group.state_timestamp_ms == self._phase.since_ms:
            return
        self._phase = Phase(group.state_timestamp_ms, group.rebalance_timeout_ms)
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._generation = self._phase
            # a new generation waits again for all of its members, including absent static ones
            self._touched.update(dict.fromkeys(group.members, now_ms))

    def check(self, group: ClassicGroup, now_ms: int) -> None:
        """Check that nobody is waited for who must have been given up."""
        self.entered(group, now_ms)
        if group.state is GroupState.COMPLETING_REBALANCE:
            since_ms = max(group.state_timestamp_ms, self._loaded_ms)
            if now_ms - since_ms > group.rebalance_timeout_ms:
                self._fail(6, f"waits for assignments since {now_ms - since_ms} ms")
        for member in group.members.values():
            if member.join is not None or member.sync is not None:
                continue
            silent_ms = now_ms - self._touched.get(member.member_id, now_ms)
            if silent_ms > member.session_timeout_ms + self._bucket_ms:
                self._fail(5, f"{member.member_id} is kept though silent for {silent_ms} ms")
