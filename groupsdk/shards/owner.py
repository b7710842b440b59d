"""The shards of one worker: what it was given, works on, gives up and has lost. Without I/O and without a clock.

`Owner` is told what the group decides and what the user's code has done; `next_action` returns what is to be done about
it, one step at a time. Times are milliseconds of the member's clock.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from groupsdk.settings.config import MemberConfig
from groupsdk.shards.config import ShardConfig
from groupsdk.shards.types import Lease


class ShardState(Enum):
    """How far a shard of this worker is."""

    GONE = "gone"
    """The worker has nothing to do with it."""
    GIVEN = "given"
    """The group gave it to the worker; `on_shards_gained` has not been called for it."""
    GAINING = "gaining"
    """`on_shards_gained` was called, and has not returned or has raised."""
    HELD = "held"
    """The worker works on it."""
    TAKEN = "taken"
    """The group takes it back; `on_shards_released` is to be called, for the first time or again."""
    RELEASING = "releasing"
    """`on_shards_released` is running."""
    LOST = "lost"
    """It may be another's; `on_shards_lost` is to be called."""


class Trigger(Enum):
    """What happens to a shard."""

    GIVE = "the group gives it to this worker"
    TELL = "on_shards_gained is called"
    ACCEPT = "on_shards_gained returned"
    TAKE = "the group takes it back"
    RELEASE = "on_shards_released is called"
    FINISH = "on_shards_released returned"
    FAIL = "on_shards_released raised"
    LOSE = "the membership, or the time to release it, is over"
    TELL_LOSS = "on_shards_lost is called"


TRANSITIONS: Final[Mapping[tuple[ShardState, Trigger], ShardState]] = {
    (ShardState.GONE, Trigger.GIVE): ShardState.GIVEN,
    (ShardState.GIVEN, Trigger.TELL): ShardState.GAINING,
    # the user's code has never heard of it
    (ShardState.GIVEN, Trigger.TAKE): ShardState.GONE,
    (ShardState.GIVEN, Trigger.LOSE): ShardState.GONE,
    (ShardState.GAINING, Trigger.TELL): ShardState.GAINING,
    (ShardState.GAINING, Trigger.ACCEPT): ShardState.HELD,
    (ShardState.GAINING, Trigger.TAKE): ShardState.TAKEN,
    (ShardState.GAINING, Trigger.LOSE): ShardState.LOST,
    (ShardState.HELD, Trigger.TAKE): ShardState.TAKEN,
    (ShardState.HELD, Trigger.LOSE): ShardState.LOST,
    (ShardState.TAKEN, Trigger.RELEASE): ShardState.RELEASING,
    (ShardState.TAKEN, Trigger.LOSE): ShardState.LOST,
    (ShardState.RELEASING, Trigger.FINISH): ShardState.GONE,
    (ShardState.RELEASING, Trigger.FAIL): ShardState.TAKEN,
    (ShardState.RELEASING, Trigger.LOSE): ShardState.LOST,
    (ShardState.LOST, Trigger.TELL_LOSS): ShardState.GONE,
}
"""All transitions; a trigger that is not here for a state changes nothing."""

KEPT: Final = frozenset({ShardState.GIVEN, ShardState.GAINING, ShardState.HELD})
"""The states of shards that the worker owns until it is told otherwise."""
GOING: Final = frozenset({ShardState.TAKEN, ShardState.RELEASING})
"""The states of shards that the worker still owns, and is giving up."""


class StandbyState(Enum):
    """How far a shard is that this worker stands by for."""

    PREPARING = "preparing"
    """`on_standby_gained` is running."""
    READY = "ready"
    """It has returned."""
    ENDING = "ending"
    """`on_standby_released` is running."""


class Callback(Enum):
    """A callback of the user's that runs beside `poll`, by its name."""

    RELEASE = "on_shards_released"
    PREPARE = "on_standby_gained"
    END = "on_standby_released"


@dataclass(frozen=True, slots=True)
class TellGained:
    """Call `on_shards_gained`; report `gained` or `gaining_failed`."""

    leases: tuple[Lease, ...]
    """What was gained, by name."""


@dataclass(frozen=True, slots=True)
class TellLost:
    """Call `on_shards_lost`, once, whatever comes of it."""

    names: tuple[str, ...]
    """What was lost, sorted."""


@dataclass(frozen=True, slots=True)
class CallBeside:
    """Run a callback beside poll; report `finished` with its id."""

    call_id: int
    """Counts such calls."""
    callback: Callback
    """Which one."""
    names: tuple[str, ...]
    """The shards, sorted."""


@dataclass(frozen=True, slots=True)
class Rejoin:
    """Request a rebalance."""

    reason: str
    """For the log and for the coordinator."""


@dataclass(frozen=True, slots=True)
class Leave:
    """Leave the group."""

    reason: str
    """For the log and for the coordinator."""


Action = TellGained | TellLost | CallBeside | Rejoin | Leave
"""All that `Owner.next_action` returns."""


@dataclass(slots=True)
class _Owned:
    """One shard of this worker."""

    lease: Lease
    given_ms: int
    state: ShardState = ShardState.GONE
    release_by_ms: int = 0
    """When it has to be released; counts in `GOING`."""
    call_id: int = 0
    """The last call of `on_shards_released` for it."""
    retry: "_Retry" = field(default_factory=lambda: _Retry())


@dataclass(slots=True)
class _Retry:
    """When user code that raised is called again: at once after the first time, then later and later."""

    failures: int = 0
    at_ms: int = 0

    def failed(self, now_ms: int, member: MemberConfig) -> None:
        if self.failures:
            wait_ms = member.retry_backoff_ms << min(self.failures - 1, 31)
            self.at_ms = now_ms + min(wait_ms, member.retry_backoff_max_ms)
        self.failures += 1


@dataclass(frozen=True, slots=True)
class Claims:
    """What a worker says of its shards when it joins."""

    held: Mapping[str, int]
    """What it keeps unless told otherwise: shard to epoch."""
    releasing: Mapping[str, int]
    """What it is giving up: shard to epoch."""
    standbys: Mapping[str, bool]
    """What it stands by for: shard to whether it is ready."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a worker owns, as any thread may read it; replaced whenever it changes."""

    leases: tuple[Lease, ...] = ()
    """What it works on, by name: gained, and not asked to stop."""
    owned: Mapping[str, Lease] = field(default_factory=dict)
    """The same, and what it is told of at present or is giving up."""
    releasing: tuple[str, ...] = ()
    """What it is giving up, sorted."""
    standbys: Mapping[str, bool] = field(default_factory=dict)
    """What it stands by for: shard to whether it is ready."""
    until_ms: int | None = None
    """When the worker holds nothing any more, unless a release has ended by then; None: no release runs."""

    def holds(self, lease: Lease, now_ms: int) -> bool:
        """Return whether a lease is in force, as far as the worker itself decides it."""
        mine = self.owned.get(lease.name)
        if mine is None or mine.epoch != lease.epoch or mine.holder != lease.holder:
            return False
        return self.until_ms is None or now_ms < self.until_ms


NOTHING: Final = Holdings()
"""The holdings of a worker outside of its group."""


class Owner:
    """The state machine of what one worker owns and stands by for.

    Not thread-safe: the thread or task that polls calls it; `holdings` is for all others.

    Args:
        held: what a `Lease` asks whether it is in force.
    """

    def __init__(self, config: ShardConfig, held: Callable[[Lease], bool]) -> None:
        self.holdings = NOTHING
        self.drained = False
        """Whether the worker has given up everything and left because it was to drain."""
        self._config = config
        self._held = held
        self._owned: dict[str, _Owned] = {}
        self._standbys: dict[str, StandbyState] = {}
        self._wanted_standbys: frozenset[str] = frozenset()
        self._standby_retries: dict[str, _Retry] = {}
        self._calls: dict[int, CallBeside] = {}
        self._call_count = 0
        self._expelled_by: frozenset[int] = frozenset()
        """The calls that must return before the worker joins again."""
        self._steps: list[Rejoin | Leave] = []
        self._told: TellGained | None = None
        self.draining = False
        """Whether the worker gives up everything in order to leave."""
        self._drain_known = False
        self._leave_by_ms: int | None = None
        """When a drained worker leaves even if callbacks of standbys still run; None: it is not drained, or has left."""
        self._leaving = False
        """Whether the worker gives up everything because its user has it leave."""
        self.expelled = False
        """Whether the worker leaves, or has left, because a release took too long."""

    # What the group decides.

    def assigned(
        self, owned: Mapping[str, int], standbys: Iterable[str], holder: str, now_ms: int
    ) -> None:
        """Take up an assignment.

        What the worker holds and the assignment lacks is released. What it is releasing already is not its own again
        before it was released, even if the assignment names it.

        Args:
            owned: shard to epoch.
        """
        self._leaving = self.expelled = False
        for name, mine in self._owned.items():
            if owned.get(name) != mine.lease.epoch:
                self._take(mine, now_ms)
        self._forget_gone()
        for name, epoch in owned.items():
            if name not in self._owned:
                lease = Lease(name, epoch, holder, self._held)
                mine = self._owned[name] = _Owned(lease, now_ms)
                self._move(mine, Trigger.GIVE)
            # its owner needs no standby; what that has warmed up is the owner's now
            if name in self._standbys and self._standbys[name] is StandbyState.READY:
                del self._standbys[name]
        self._wanted_standbys = frozenset(standbys) - owned.keys()
        self._end_standbys_if_drained(now_ms)
        self._publish()

    def lose(self) -> None:
        """Take note that others may own what this worker had; its standbys stay warm."""
        for mine in self._owned.values():
            self._move(mine, Trigger.LOSE)
        self._forget_gone()
        self._publish()

    # What this worker decides.

    def give_up(self, now_ms: int) -> None:
        """Release everything, and end all standbys, as the worker is about to leave."""
        self._leaving = True
        for mine in self._owned.values():
            self._take(mine, now_ms)
        self._forget_gone()
        self._wanted_standbys = frozenset()
        self._publish()

    def drain(self) -> None:
        """Have everything moved to others, and leave then."""
        self.draining = True

    def asked(self) -> None:
        """Take note that the rebalance of a `Rejoin` was requested."""
        self._steps = [each for each in self._steps if not isinstance(each, Rejoin)]

    def left(self) -> None:
        """Take note that the worker has left the group."""
        self._steps = []
        self._leave_by_ms = None
        self.drained = self.draining and self._drain_known

    def said(self) -> None:
        """Take note that the worker has told the group what it claims, and whether it drains."""
        self._drain_known = self.draining

    @property
    def claims(self) -> Claims:
        """What the worker says when it joins."""
        by_state: tuple[dict[str, int], dict[str, int]] = ({}, {})
        for name, mine in self._owned.items():
            if mine.state in KEPT or mine.state in GOING:
                by_state[mine.state in GOING][name] = mine.lease.epoch
        return Claims(*by_state, self._readiness())

    @property
    def owns_anything(self) -> bool:
        """Whether the group counts on this worker for any shard."""
        return bool(self.holdings.owned)

    @property
    def blocked(self) -> bool:
        """Whether the worker was expelled for a release that has still not returned, and must not join."""
        return not self._expelled_by.isdisjoint(self._calls)

    @property
    def is_releasing(self) -> bool:
        """Whether a worker that is about to leave has to wait for `on_shards_released`."""
        return any(mine.state in GOING for mine in self._owned.values())

    @property
    def stands_by(self) -> bool:
        """Whether a callback of a standby runs or is to run; nobody else waits for that."""
        return bool(self._standbys)

    def releases_since(self, told_ms: int) -> bool:
        """Return whether anything is still to be released that was taken at this time or later."""
        late_ms = told_ms + self._config.release_timeout_ms
        return any(
            mine.state in GOING and mine.release_by_ms >= late_ms for mine in self._owned.values()
        )

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing to do, and no time at which there will be."""
        return (
            not self._steps
            and not self._calls
            and self._leave_by_ms is None
            and self._wanted_standbys == self._standbys.keys()
            and all(mine.state is ShardState.HELD for mine in self._owned.values())
        )

    # What is to be done.

    def next_action(self, now_ms: int) -> Action | None:
        """Return the next thing to do, and count it as begun; None: nothing now."""
        self._expel_if_overdue(now_ms)
        self._leave_if_ready(now_ms)
        return (
            self.loss_to_tell()
            or self._step()
            or self._call_to_make(now_ms)
            or self._gain_to_tell(now_ms)
        )

    def loss_to_tell(self) -> TellLost | None:
        """Return what the user is to be told as lost, and count it as told; None: nothing."""
        names = [name for name, mine in self._owned.items() if mine.state is ShardState.LOST]
        if not names:
            return None
        for name in names:
            self._move(self._owned[name], Trigger.TELL_LOSS)
        self._forget_gone()
        return TellLost(tuple(sorted(names)))

    def due_ms(self, now_ms: int) -> int | None:
        """Return when `next_action` has something to do next though nothing is reported until then; None: never."""
        timeout_ms = self._config.release_timeout_ms
        times = [retry.at_ms for retry in self._standby_retries.values()]
        if self._leave_by_ms is not None:
            times.append(self._leave_by_ms)
        for mine in self._owned.values():
            if mine.state in GOING:
                times += [mine.release_by_ms, mine.retry.at_ms]
            elif mine.state is not ShardState.HELD:
                times += [mine.given_ms + timeout_ms, mine.retry.at_ms]
        return min((at_ms for at_ms in times if at_ms > now_ms), default=None)

    # What the user's code did.

    def gained(self) -> None:
        """Take note that `on_shards_gained` has returned."""
        told, self._told = self._told, None
        for lease in () if told is None else told.leases:
            mine = self._owned.get(lease.name)
            if mine is not None and mine.lease == lease:
                self._move(mine, Trigger.ACCEPT)
        self._publish()

    def gaining_failed(self, now_ms: int) -> None:
        """Take note that `on_shards_gained` has raised: it is called again with the same shards."""
        told, self._told = self._told, None
        for lease in () if told is None else told.leases:
            mine = self._owned.get(lease.name)
            if mine is not None and mine.lease == lease:
                mine.retry.failed(now_ms, self._config.member)

    def finished(self, call_id: int, now_ms: int, *, raised: bool) -> None:
        """Take note that a callback which ran beside poll has ended."""
        call = self._calls.pop(call_id, None)
        if call is None:
            return
        if call.callback is Callback.RELEASE:
            self._released(call, now_ms, raised=raised)
        else:
            self._standby_changed(call, now_ms, raised=raised)
        self._publish()

    # Details.

    def _move(self, mine: _Owned, trigger: Trigger) -> bool:
        """Make the transition, and return whether there is one."""
        state = TRANSITIONS.get((mine.state, trigger))
        if state is None:
            return False
        mine.state = state
        return True

    def _take(self, mine: _Owned, now_ms: int) -> None:
        if self._move(mine, Trigger.TAKE):
            mine.release_by_ms = now_ms + self._config.release_timeout_ms
            mine.retry = _Retry()

    def _forget_gone(self) -> None:
        for name in [name for name, each in self._owned.items() if each.state is ShardState.GONE]:
            del self._owned[name]

    def _expel_if_overdue(self, now_ms: int) -> None:
        late = [
            mine
            for mine in self._owned.values()
            if mine.state in GOING and now_ms >= mine.release_by_ms
        ]
        if not late:
            return
        self._expelled_by = frozenset(mine.call_id for mine in late)
        self.expelled = True
        names = sorted(mine.lease.name for mine in late)
        self.lose()
        timeout_ms = self._config.release_timeout_ms
        self._steps = [
            Leave(
                f"on_shards_released has not returned within {timeout_ms} ms for {_listed(names)}"
            )
        ]

    def _step(self) -> Rejoin | Leave | None:
        # what is being left needs nothing more; and a step stays until it is carried out, whatever interrupts that
        return None if self._leaving or not self._steps else self._steps[0]

    def _call_to_make(self, now_ms: int) -> CallBeside | None:
        running = self._running()
        taken = [
            name
            for name, mine in self._owned.items()
            if mine.state is ShardState.TAKEN and now_ms >= mine.retry.at_ms and name not in running
        ]
        if taken:
            call = self._call(Callback.RELEASE, taken)
            for name in taken:
                self._move(self._owned[name], Trigger.RELEASE)
                self._owned[name].call_id = call.call_id
            self._publish()
            return call
        ending = [
            name
            for name, state in self._standbys.items()
            if state is StandbyState.READY and name not in self._wanted_standbys
        ]
        if ending:
            return self._standby_call(Callback.END, ending, StandbyState.ENDING)
        wanted = [
            name
            for name in self._wanted_standbys
            if name not in self._standbys
            and name not in running
            and name not in self._owned
            and now_ms >= self._standby_retries.get(name, _Retry()).at_ms
        ]
        if wanted:
            return self._standby_call(Callback.PREPARE, wanted, StandbyState.PREPARING)
        return None

    def _standby_call(
        self, callback: Callback, names: list[str], state: StandbyState
    ) -> CallBeside:
        self._standbys.update(dict.fromkeys(names, state))
        self._publish()
        return self._call(callback, names)

    def _call(self, callback: Callback, names: Iterable[str]) -> CallBeside:
        self._call_count += 1
        call = CallBeside(self._call_count, callback, tuple(sorted(names)))
        self._calls[call.call_id] = call
        return call

    def _gain_to_tell(self, now_ms: int) -> TellGained | None:
        running = self._running()
        leases = []
        for name, mine in self._owned.items():
            if mine.state not in (ShardState.GIVEN, ShardState.GAINING):
                continue
            waits = name in running and now_ms < mine.given_ms + self._config.release_timeout_ms
            if not waits and now_ms >= mine.retry.at_ms:
                self._move(mine, Trigger.TELL)
                leases.append(mine.lease)
        if not leases:
            return None
        self._told = TellGained(tuple(sorted(leases, key=lambda lease: lease.name)))
        return self._told

    def _running(self) -> set[str]:
        """Return the shards for which a callback runs beside poll: no other is called for them meanwhile."""
        return {name for call in self._calls.values() for name in call.names}

    def _released(self, call: CallBeside, now_ms: int, *, raised: bool) -> None:
        released = 0
        for name in call.names:
            mine = self._owned.get(name)
            if mine is None or mine.call_id != call.call_id:
                continue  # lost meanwhile
            if raised:
                if self._leaving:  # and waits for no second attempt
                    self._move(mine, Trigger.LOSE)
                elif self._move(mine, Trigger.FAIL):
                    mine.retry.failed(now_ms, self._config.member)
            else:
                released += self._move(mine, Trigger.FINISH)
        self._forget_gone()
        if released and not self._end_standbys_if_drained(now_ms) and not self._leaving:
            self._steps.append(Rejoin(f"{released} shards are released"))

    def _end_standbys_if_drained(self, now_ms: int) -> bool:
        """End all standbys if the worker has nothing else any more; return whether it can leave at once."""
        if not self.draining or not self._drain_known or self._owned:
            return False
        self._wanted_standbys = frozenset()
        if self._leave_by_ms is None and not self.drained:
            self._leave_by_ms = now_ms + self._config.release_timeout_ms
        return not self._standbys

    def _leave_if_ready(self, now_ms: int) -> None:
        # while it leaves it does not join, and the next owners of its shards would wait for its standbys to end
        if self._leave_by_ms is None or (self._standbys and now_ms < self._leave_by_ms):
            return
        self._standbys.clear()
        self._steps = [Leave("drained")]

    def _standby_changed(self, call: CallBeside, now_ms: int, *, raised: bool) -> None:
        for name in call.names:
            if call.callback is Callback.PREPARE and not raised and name not in self._owned:
                self._standbys[name] = StandbyState.READY
                self._standby_retries.pop(name, None)
                continue
            self._standbys.pop(name, None)
            if call.callback is Callback.PREPARE and raised:
                self._standby_retries.setdefault(name, _Retry()).failed(now_ms, self._config.member)

    def _readiness(self) -> dict[str, bool]:
        return {
            name: state is StandbyState.READY
            for name, state in self._standbys.items()
            if state is not StandbyState.ENDING
        }

    def _publish(self) -> None:
        owned = {
            name: mine.lease
            for name, mine in sorted(self._owned.items())
            if mine.state in KEPT or mine.state in GOING
        }
        going = [mine for mine in self._owned.values() if mine.state in GOING]
        self.holdings = Holdings(
            tuple(
                lease for name, lease in owned.items() if self._owned[name].state is ShardState.HELD
            ),
            owned,
            tuple(sorted(mine.lease.name for mine in going)),
            self._readiness(),
            min((mine.release_by_ms for mine in going), default=None),
        )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if names[5:] else "")
