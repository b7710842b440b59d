"""A shard worker's part in its group: what it says, plans and does when, for threads and for asyncio. Without I/O."""

import logging
from collections import deque
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol

from groupsdk.member.state import IN_REBALANCE
from groupsdk.shards.callbacks import AsyncShardCallbacks, EpochStore
from groupsdk.shards.config import ShardConfig
from groupsdk.shards.handover import GroupPlan
from groupsdk.shards.leader import Leader
from groupsdk.shards.loads import SmoothedLoad
from groupsdk.shards.owner import (
    Callback,
    CallBeside,
    Leave,
    Owner,
    Rejoin,
    TellGained,
    TellLost,
)
from groupsdk.shards.plan import Plan
from groupsdk.shards.steps import (
    Ask,
    Beside,
    Drive,
    LeaveGroup,
    Outcome,
    Pause,
    Steps,
)
from groupsdk.shards.types import Lease, ShardError, check_name
from groupsdk.snapshot import MemberSnapshot, log_member
from groupsdk.wire.shards.protocol import (
    GREATEST_WEIGHT,
    PROTOCOL_NAME,
    MemberState,
    Progress,
    ShardAssignment,
    decode_assignment,
    decode_member,
    encode_member,
    role_digest,
)


logger = logging.getLogger(__name__)

_PAUSE_MS: Final = 1_000
_HOLDS_ALONE_MS: Final = 500
"""How long a worker that releases shards has the others wait for it, so that they gain the moment that it has."""
_HOLDS_BESIDE_MS: Final = 100
"""The same while others release shards, too, which are quicker perhaps, and would wait for this one."""
_SESSION_PART: Final = 4
"""A worker has others wait for at most this part of a session, as their leases run on meanwhile."""


class MemberSide(Protocol):
    """The member of the group that the worker is."""

    def snapshot(self) -> MemberSnapshot:
        """Return its state."""
        ...

    def request_rejoin(self, reason: str, *, hand_over: bool = False) -> None:
        """Request a rebalance, of a member that is not closed; see `RejoinRequested` for the ones in which shards change hands."""
        ...

    def expect_rebalance(self, for_ms: int) -> None:
        """Look out for a rebalance until there is one, and at most for so long."""
        ...

    def held_until_ms(self) -> int | None:
        """Return until when the group cannot reassign the member's work; None: it can already."""
        ...

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        ...


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """What one worker knows of its shards and of the group's, read at once: for people and for metrics."""

    group_id: str
    """The group."""
    member_id: str
    """The worker's member id; "" while there is none."""
    generation: int
    """The generation; -1 outside the group."""
    leads: bool
    """Whether this worker plans for the group."""
    owned: tuple[Lease, ...]
    """What it works on, by name; the same as `leases()` without regard to the clock."""
    releasing: tuple[str, ...]
    """What it is giving up, sorted."""
    standbys: Mapping[str, bool]
    """What it stands by for: shard to whether it is ready."""
    draining: bool
    """Whether it gives up everything in order to leave."""
    drained: bool
    """Whether it has done so, and left."""
    shard_count: int
    """How many shards the leader's list had in the last assignment."""
    unplaceable_count: int
    """How many of them nobody could be given."""
    error: str
    """Why the leader could not plan, so that everybody keeps what it has; "" if it could."""
    plan: Plan | None = field(default=None, repr=False)
    """What this worker planned last as the leader: targets, moves, imbalance, what is unplaceable and why; None if it
    does not lead, or has led only since it came back as a static member."""


class ShardMembership:
    """Decides for one worker; a driver carries its steps out, and is the only one to call it unless said otherwise.

    Args:
        now_ms: the member's clock, in milliseconds.
        now_s: the date, in seconds since 1970.
    """

    def __init__(
        self,
        config: ShardConfig,
        callbacks: AsyncShardCallbacks,
        member: MemberSide,
        store: EpochStore,
        now_ms: Callable[[], int],
        now_s: Callable[[], int],
    ) -> None:
        self._config = config
        self._callbacks = callbacks
        self._member = member
        self._now_ms = now_ms
        self.owner = Owner(config, self.held)
        self._role = MemberState(
            endpoint=config.endpoint,
            zone=config.zone,
            capabilities=frozenset(config.capabilities),
            capacity=float(config.capacity),
            max_shards=config.max_shards,
            instance_id=config.member.group_instance_id,
            client_id=config.member.client_id,
        )
        self.leader = Leader(config, lambda: callbacks.shards(), store, now_s)
        self._woken = False
        self._ended: deque[tuple[CallBeside, BaseException | None]] = deque()
        self._errors: deque[BaseException] = deque()
        self._loads: dict[str, SmoothedLoad] = {}
        self._progress = Progress(unbroken=False)
        self._counts = (0, 0, "")
        self._unplaceable: Mapping[str, str] = {}
        """What the last plan of this worker could give to nobody, and why."""
        self._refresh_wanted = False
        self._came_back = True
        self._drain_wanted = False
        self._lost_in_join = frozenset[str]()
        """What was claimed by the join that is under way, and lost since."""
        self._told_ms = self._holds_up_ms = 0
        self._stop_by_ms = 0
        """How long a worker that leaves waits for callbacks."""
        self._again_at_ms: int | None = None
        """When to join again, as the leader has said; None: when there is a reason."""

    # For any thread.

    def held(self, lease: Lease) -> bool:
        """Return whether a lease is in force, by this worker's own clock."""
        now_ms = self._now_ms()
        return self.owner.holdings.holds(lease, now_ms) and self._in_group(now_ms)

    def leases(self) -> tuple[Lease, ...]:
        """Return the leases to work under, by name; none once the clock shows that they may be another's."""
        holdings, now_ms = self.owner.holdings, self._now_ms()
        late = holdings.until_ms is not None and now_ms >= holdings.until_ms
        return () if late or not self._in_group(now_ms) else holdings.leases

    def lease(self, name: str) -> Lease | None:
        """Return the lease of a shard if this worker works on it, else None."""
        lease = self.owner.holdings.owned.get(name)
        if lease is None or name in self.owner.holdings.releasing or not self.held(lease):
            return None
        return lease

    def ended(self, call: CallBeside, error: BaseException | None) -> None:
        """Take note that a callback beside poll has ended; the driver then wakes the one that polls."""
        self._ended.append((call, error))

    def wake(self) -> None:
        """Have a waiting poll return; the driver then wakes it."""
        self._woken = True

    @property
    def has_news(self) -> bool:
        """Whether a callback beside poll has ended, so that there is something to do."""
        return bool(self._ended)

    def request_refresh(self) -> None:
        """Have the list of shards asked for soon, by whoever leads."""
        self._refresh_wanted = True
        if not self.leader.leads:
            self._rejoin("the list of shards may have changed")

    def drain(self) -> None:
        """Have everything moved to others, and leave then."""
        if not self._drain_wanted:
            self._drain_wanted = True
            self._rejoin("draining")

    def report_load(self, name: str, value: float) -> None:
        """Take in the load of a shard. Raises ShardError if the name or the value is not valid."""
        check_name(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ShardError(f"the load of shard {name!r} must be a number, not {value!r}")
        if not 0 <= value <= GREATEST_WEIGHT:
            raise ShardError(
                f"the load of shard {name!r} must be from 0 to {GREATEST_WEIGHT:g}, not {value!r}"
            )
        if name in self.owner.holdings.owned:
            load = self._loads.setdefault(name, SmoothedLoad())
            load.report(float(value), self._now_ms())

    def status(self) -> ShardStatus:
        """Return what the worker knows, read at once."""
        snapshot, holdings = self._member.snapshot(), self.owner.holdings
        planned = self.leader.last_plan
        count, unplaceable, error = self._counts
        return ShardStatus(
            group_id=snapshot.group_id,
            member_id=snapshot.member_id,
            generation=snapshot.generation.generation_id,
            leads=snapshot.is_leader,
            owned=holdings.leases,
            releasing=holdings.releasing,
            standbys=holdings.standbys,
            draining=self._drain_wanted,
            drained=self.owner.drained,
            shard_count=count,
            unplaceable_count=unplaceable,
            error=error,
            plan=None if planned is None else planned.plan,
        )

    # What the member asks and tells, see `GroupCallbacks`.

    def metadata(self) -> dict[str, bytes]:
        """Return what this worker says to the leader."""
        if self._drain_wanted:
            self.owner.drain()
        self._again_at_ms = None
        claims = self.owner.claims
        self._lost_in_join = frozenset()
        self.owner.said()
        loads = {
            name: load.value for name, load in self._loads.copy().items() if name in claims.held
        }
        state = replace(
            self._role,
            progress=self._progress,
            held=claims.held,
            releasing=claims.releasing,
            standbys=claims.standbys,
            loads=loads,
            draining=self.owner.draining,
        )
        return {PROTOCOL_NAME: encode_member(state)}

    def join_prepared(self, generation: int, member_id: str) -> Steps[None]:
        """Tell the user what is lost, before the member joins again; what it holds it keeps."""
        if generation == -1 or not member_id:
            self._lose("out of the group")
            self._came_back = True
            self.leader.follow()
            lost = self.owner.loss_to_tell()
            if lost is not None:
                (yield self._tell_lost(lost)).result()

    def assignment_performed(
        self, generation: int, members: Mapping[str, bytes]
    ) -> Steps[Mapping[str, bytes]]:
        """Plan as the leader of a new generation, and return each member's assignment as bytes."""
        states = {member: decode_member(data) for member, data in members.items()}
        planning = self.leader.plan(states, generation, self._now_ms())
        plan, error = yield from planning
        if error is not None:
            self._errors.append(error)
        self._progress = Progress(self.leader.incarnation, generation)
        self._log_plan(plan, len(states), error)
        return plan.encoded

    def join_completed(self, generation: int, member_id: str, assignment: bytes) -> None:
        """Take up an assignment; what comes of it is among the next steps of poll."""
        told = decode_assignment(assignment)
        now_ms = self._now_ms()
        self._progress = Progress(told.incarnation, generation)
        self._counts = (told.shard_count, told.unplaceable, told.error)
        self.leader.told_digest = told.shard_digest
        if not self._member.snapshot().is_leader:
            self.leader.follow()
        elif not self.leader.leads:
            self.leader.resumed(now_ms)
        self.owner.assigned(told.owned, told.standbys, member_id, now_ms)
        if self._came_back and self._config.member.group_instance_id is not None:
            reason = self._came_back_to(told)
            if reason is not None:
                self._rejoin(reason)
        self._came_back = False
        if told.pending and not self._lost_in_join <= told.owned.keys():
            self._rejoin("lost what the group waits for", hand_over=True)
        self._lost_in_join = frozenset()
        self._told_ms = now_ms
        alone = len(self.owner.holdings.releasing) >= told.pending
        self._holds_up_ms = min(
            _HOLDS_ALONE_MS if alone else _HOLDS_BESIDE_MS,
            self._config.member.session_timeout_ms // _SESSION_PART,
        )
        self._again_at_ms = None if told.again_ms is None else now_ms + told.again_ms
        if told.pending:
            # shards wait for their release, and then for everybody to join
            self._member.expect_rebalance(self._config.release_timeout_ms)
        for name in self._loads.keys() - self.owner.holdings.owned.keys():
            self._loads.pop(name, None)

    def _came_back_to(self, told: ShardAssignment) -> str | None:
        """Return why a static member that has come back to its assignment, without a rebalance, asks for one; None: it need not."""
        if told.pending:
            # it may have been the one to release them, before it lost everything or its process ended
            return f"came back while {told.pending} shards change hands"
        if told.error:
            # it may have been the leader, which would have planned as soon as it can
            return f"came back to a plan that failed: {told.error}"
        if self.owner.draining:
            return "draining"
        if told.role_digest != role_digest(self._role):
            return "came back with another zone, capacity or capabilities"
        return None

    def leaving(self, timeout_ms: int) -> Steps[None]:
        """Have the user stop everything, before the member leaves; what has not stopped in time is lost.

        What callbacks raise keeps no worker in the group. The callbacks of standbys begin, and `stand_down` waits for them
        once the member has left, so that the next owners do not.
        """
        self._stop_by_ms = self._now_ms()
        if self.owner.expelled:
            return  # everything is lost already, and standbys stay warm for when it joins again
        self._stop_by_ms += min(timeout_ms, self._config.release_timeout_ms)
        try:
            yield from self._stop_all()
        except BaseException:
            # a Ctrl-C: the worker has not left, and has to be given its shards again
            self._rejoin("leaving was interrupted")
            raise

    def stand_down(self) -> Steps[None]:
        """Wait for the callbacks of standbys, after the member has left; raise what any raised, if it is closed."""
        yield from self._act_until(lambda: not self.owner.stands_by)
        if self._member.closed:
            self._raise_first()

    def _stop_all(self) -> Steps[None]:
        now_ms = self._now_ms()
        if not self._in_group(now_ms):
            self._lose("out of the group")
        self.owner.give_up(now_ms)
        yield from self._act_until(lambda: not self.owner.is_releasing)
        self._lose("not released before leaving the group")
        self.leader.follow()
        yield from self._act_until(lambda: True)

    def _act_until(self, done: Callable[[], bool]) -> Steps[None]:
        """Do what is due until nothing is left to wait for, or the time to stop is over; errors are kept."""
        while True:
            try:
                yield from self._act()
            except Exception as error:  # noqa: BLE001  # raised when all has stopped
                self._errors.append(error)
                continue
            now_ms = self._now_ms()
            if now_ms >= self._stop_by_ms or done():
                return
            yield Pause(self._stop_by_ms - now_ms)

    # The driver's poll.

    def poll(self, timeout_ms: int) -> Steps[bool]:
        """Poll the member for so long, do what is due, and return early where the user was told something.

        Returns whether the member is active.
        """
        until_ms = self._now_ms() + timeout_ms
        self._woken = False
        active = False
        while True:
            told = yield from self._work_off()
            if self._member.closed:
                return False
            wait_ms = 0 if told else self._wait_ms(until_ms)
            if self.owner.blocked or self.owner.drained:
                active = False
                yield Pause(wait_ms)
            elif self.holds_up:
                active = self._member.snapshot().stable
                yield Pause(wait_ms)
            else:
                active = bool((yield Drive(wait_ms)).result())
            told = (yield from self._work_off()) or told
            if told or self._is_woken() or self._now_ms() >= until_ms:
                return active

    def activate(self, timeout_ms: int | None) -> Steps[bool]:
        """Join and wait until the member is in a stable generation, and do what is due; return whether it is."""
        until_ms = None if timeout_ms is None else self._now_ms() + timeout_ms
        self._woken = False
        while True:
            yield from self._work_off()
            now_ms = self._now_ms()
            left_ms = None if until_ms is None else max(0, until_ms - now_ms)
            active = False
            if self.owner.blocked:
                yield Pause(_PAUSE_MS if left_ms is None else min(left_ms, _PAUSE_MS))
            elif not self.owner.drained:
                active = bool((yield Drive(left_ms, until_active=True)).result())
            yield from self._work_off()
            over = until_ms is not None and self._now_ms() >= until_ms
            if active or over or self._is_woken() or self._member.closed or self.owner.drained:
                return active and not self.owner.blocked

    @property
    def holds_up(self) -> bool:
        """Whether the worker joins only when it has released what was just taken from it, though the others may wait.

        They gain it the moment that this one joins, and go on with all else meanwhile.
        """
        now_ms = self._now_ms()
        return now_ms < self._held_up_until_ms(now_ms)

    def due_ms(self, now_ms: int) -> int | None:
        """Return when poll has something to do next, as far as time decides; None: never."""
        held_up_ms = self._held_up_until_ms(now_ms)
        times = (self.owner.due_ms(now_ms), self.leader.due_ms(), self._again_at_ms, held_up_ms)
        return min((at_ms for at_ms in times if at_ms is not None and at_ms > now_ms), default=None)

    def idle(self) -> bool:
        """Return whether poll would find nothing to do but to poll the member."""
        now_ms = self._now_ms()
        due_ms = self.leader.due_ms()
        return (
            not self._ended
            and not self._errors
            and not self._refresh_wanted
            and self._again_at_ms is None
            and self.owner.is_quiet
            and (due_ms is None or now_ms < due_ms)
            and (not self.owner.owns_anything or self._in_group(now_ms))
        )

    # Details.

    def _is_woken(self) -> bool:
        return self._woken

    def _wait_ms(self, until_ms: int) -> int:
        now_ms = self._now_ms()
        due_ms = self.due_ms(now_ms)
        return max(0, (until_ms if due_ms is None else min(until_ms, due_ms)) - now_ms)

    def _held_up_until_ms(self, now_ms: int) -> int:
        if not self.owner.releases_since(self._told_ms) or not self._in_group(now_ms):
            return 0
        return self._told_ms + self._holds_up_ms

    def _in_group(self, now_ms: int) -> bool:
        until_ms = self._member.held_until_ms()
        return until_ms is not None and now_ms < until_ms

    def _work_off(self) -> Steps[bool]:
        """Do what is due; return whether the user was told of shards.

        Raises:
            BaseException: what the user's code has raised.
        """
        if self._drain_wanted:
            self.owner.drain()
        now_ms = self._now_ms()
        if self.owner.owns_anything and not self._in_group(now_ms):
            self._lose_by_clock()
        told = False if self._member.closed else (yield from self._act())
        self._raise_first()
        self._join_again()
        yield from self._lead()
        return told

    def _join_again(self) -> None:
        """Join again if the leader has said so, and the user has been told what there was to tell."""
        due = self._again_at_ms is not None and self._now_ms() >= self._again_at_ms
        if due and not self.owner.releases_since(self._told_ms):
            self._again_at_ms = None
            self._rejoin("shards change hands", hand_over=True)

    def _act(self) -> Steps[bool]:
        told = False
        while True:
            while self._ended:
                self._note_end(*self._ended.popleft())
            action = self.owner.next_action(self._now_ms())
            if action is None:
                return told
            told = isinstance(action, TellGained | TellLost) or told
            yield from self._carry_out(action)

    def _note_end(self, call: CallBeside, error: BaseException | None) -> None:
        if error is not None:
            self._log(logging.WARNING, "%s raised %s", call.callback.value, type(error).__name__)
            self._errors.append(error)
        self.owner.finished(call.call_id, self._now_ms(), raised=error is not None)

    def _carry_out(
        self, action: TellGained | TellLost | CallBeside | Rejoin | Leave
    ) -> Steps[None]:
        match action:
            case TellGained(leases):
                self._log(logging.INFO, "gains %d shards", len(leases))
                outcome = yield Ask(partial(self._callbacks.on_shards_gained, leases))
                if outcome.error is not None:
                    self.owner.gaining_failed(self._now_ms())
                else:
                    self.owner.gained()
                outcome.result()
            case TellLost():
                (yield self._tell_lost(action)).result()
            case CallBeside(_, callback, names):
                if callback is Callback.RELEASE:
                    self._log(logging.INFO, "releases %d shards", len(names))
                function = getattr(self._callbacks, callback.value)
                started = yield Beside(action, partial(function, names))
                if started.error is not None:
                    self.owner.finished(action.call_id, self._now_ms(), raised=True)
                started.result()
            case Rejoin(reason):
                self._rejoin(reason, hand_over=True)
                self.owner.asked()
            case Leave(reason):
                level = logging.WARNING if self.owner.expelled else logging.INFO
                self._log(level, "leaves: %s", reason)
                (yield LeaveGroup(reason)).result()
                self.owner.left()
                self._break_off()

    def _tell_lost(self, lost: TellLost) -> Ask:
        return Ask(partial(self._callbacks.on_shards_lost, lost.names))

    def _lose(self, why: str) -> None:
        self._break_off()
        count = len(self.owner.holdings.owned)
        if count:
            self._log(logging.WARNING, "lost %d shards: %s", count, why)
        self.owner.lose()

    def _lose_by_clock(self) -> None:
        why = "the session is over by this worker's own clock"
        lost = frozenset(self.owner.holdings.owned)
        self._lose(why)
        if self._member.snapshot().state in IN_REBALANCE:
            # the join that waits for others has claimed all this, and its answer may give it back
            self._lost_in_join |= lost
        else:
            self._rejoin(why)

    def _rejoin(self, reason: str, *, hand_over: bool = False) -> None:
        if not self._member.closed:  # or it needs none
            self._member.request_rejoin(reason, hand_over=hand_over)

    def _break_off(self) -> None:
        """Take note that the group may go on without this worker, and begin another incarnation."""
        self._progress = replace(self._progress, unbroken=False)

    def _raise_first(self) -> None:
        if self._errors:
            raise self._errors.popleft()

    def _lead(self) -> Generator[Ask, Outcome, None]:
        leader, now_ms = self.leader, self._now_ms()
        wanted, self._refresh_wanted = self._refresh_wanted, False
        if wanted:
            leader.refresh_soon()
        due_ms = leader.due_ms()
        if due_ms is None or now_ms < due_ms or not self._member.snapshot().stable:
            return
        reason, error = yield from leader.check(now_ms)
        if reason is not None:
            self._rejoin(reason)
        if error is not None:
            raise error

    def _log_plan(self, planned: GroupPlan, count: int, error: BaseException | None) -> None:
        plan = planned.plan
        for warning in (self.leader.warning, *planned.warnings):
            if warning:
                self._log(logging.WARNING, "%s", warning)
        if error is not None:
            self._log(
                logging.WARNING,
                "could not plan for %d members, and lets them keep what they have: %s: %s",
                count,
                type(error).__name__,
                error,
            )
            return
        self._log(
            logging.INFO,
            "planned %d shards for %d members: %d moves, imbalance %.3f, %d unplaceable, %d bytes",
            len(plan.targets),
            count,
            plan.moves,
            plan.imbalance,
            len(plan.unplaceable),
            planned.bytes,
        )
        if plan.unplaceable and plan.unplaceable != self._unplaceable:
            self._log(logging.WARNING, "%s", plan.describe_unplaceable())
        self._unplaceable = plan.unplaceable

    def _log(self, level: int, message: str, *arguments: object) -> None:
        log_member(logger, level, self._member.snapshot, message, *arguments)
