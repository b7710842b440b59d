"""Groups of shard workers in virtual time: their deciding parts, their members' machines, and a group coordinator.

The user's code takes its time, raises and hangs; processes are paused, cut off, killed, replaced and drained; the
coordinator moves and dies. After every step no shard may have two holders, by each process's own clock.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from typing_extensions import override

from groupsdk.broker.settings.table import BrokerConfig, GroupConfig
from groupsdk.errors import MemberClosedError
from groupsdk.member import events
from groupsdk.member.actions import AssignGroup, Call, CompleteJoin, PrepareJoin
from groupsdk.member.classic.membership import ClassicMembership
from groupsdk.shards.callbacks import AsyncShardCallbacks, EpochStoreError
from groupsdk.shards.config import ShardConfig
from groupsdk.shards.membership import ShardMembership
from groupsdk.shards.owner import Callback
from groupsdk.shards.steps import (
    Ask,
    Beside,
    Drive,
    LeaveGroup,
    Outcome,
    Pause,
    Step,
    Steps,
    StoreCall,
)
from groupsdk.shards.types import Lease
from groupsdk.snapshot import MemberSnapshot
from groupsdk.testing.simulation.broker_process import BrokerProcess
from groupsdk.testing.simulation.member_process import CallerBehavior, MemberProcess
from groupsdk.testing.simulation.world import GROUP, NODES, World
from groupsdk.types import GroupMembershipOperation, ProtocolMetadata


T = TypeVar("T")
RELEASE_MS: Final = 4_000
_RETENTION_MINUTES: Final = 1
_REFRESH_MS: Final = 10_000
_LOOK_MS: Final = 20


class OddError(Exception):
    """What the user's code raises."""


class Work(AsyncShardCallbacks):
    """The user's code of one process, as `AsyncShardCallbacks`; what it works on, it has been told to."""

    def __init__(self, world: "ShardWorld", name: str) -> None:
        self.told: dict[str, int] = {}
        """What was gained, and neither released nor lost since, with the number of the call."""
        self.lost = 0
        self._gains = 0
        self._world = world
        self._name = name

    @override
    def shards(self) -> list[str]:
        if self._world.random.random() < self._world.list_raises:
            raise OddError("no list")
        return list(self._world.listed)

    @override
    def on_shards_gained(self, leases: Sequence[Lease]) -> None:
        self._world.gained(self._name, leases)
        self._gains += 1
        self.told.update(dict.fromkeys((lease.name for lease in leases), self._gains))

    def asked(self, names: Sequence[str]) -> dict[str, int]:
        """Begin to release; return what is released when that ends."""
        self._world.releases(names)
        return {name: self.told[name] for name in names if name in self.told}

    def released(self, asked: Mapping[str, int]) -> None:
        """Have released all of this that was not lost and gained once more meanwhile."""
        for name, gain in asked.items():
            if self.told.get(name) == gain:
                del self.told[name]
                self._world.released(name)

    @override
    def on_shards_lost(self, names: Sequence[str]) -> None:
        self.lost += len(names)
        for name in names:
            self.told.pop(name, None)


class ShardMember(MemberProcess):
    """One process with shards."""

    def __init__(
        self, world: "ShardWorld", name: str, config: ShardConfig, behavior: CallerBehavior
    ) -> None:
        self.code = Work(world, name)
        self.shard_config = config
        self.drains = False
        self.hangs = 0.0
        """How likely a release is to take longer than it may."""
        self.closed = False
        self._due_ms = 0
        self.part = ShardMembership(
            config,
            self.code,
            self,
            world,
            lambda: self.clock_ms,
            lambda: world.date_s,
        )
        super().__init__(
            world, name, config.member, behavior, partial(ClassicMembership, config.member)
        )

    # What its deciding part sees of its member.

    def snapshot(self) -> MemberSnapshot:
        return MemberSnapshot.of(self.config, self.view, self.clock_ms)

    def request_rejoin(self, reason: str, *, hand_over: bool = False) -> None:
        if not self.closed:
            self._post(events.RejoinRequested(reason, hand_over))

    def expect_rebalance(self, for_ms: int) -> None:
        if not self.closed:
            self._post(events.RebalanceExpected(for_ms))

    def held_until_ms(self) -> int | None:
        return None if self.closed else self.view.held_until_ms

    # What the world asks.

    @override
    def believes(self) -> frozenset[str]:
        """Return nothing to commit; see `holds` for what it works on."""
        return frozenset()

    def holds(self) -> dict[str, int]:
        """Return the shards that it would work on if it ran now, by its own clock, with their epochs."""
        if not self.alive:
            return {}
        return {
            lease.name: lease.epoch
            for lease in self.part.owner.holdings.owned.values()
            if lease.held()
        }

    def drain(self) -> None:
        """Have it drain."""
        self.drains = True
        self.part.drain()

    # The user's code, and the steps of its deciding part.

    @override
    def _gives_up(self) -> None:
        """Leave without a word to the user: `leave` and `close` below say it."""

    @override
    def leave(self) -> None:
        if not self._busy and not self.closed:
            self._busy = True
            self._play(self.part.leaving(60_000), self._left)

    @override
    def close(self, operation: GroupMembershipOperation) -> None:
        if self._busy or self.closed:
            self.kill()  # a process that ends in the middle of a callback
            return
        self._busy = True

        def end(_: None) -> None:
            self.closed = True
            self._post(events.CloseRequested(operation, 3_000, "enough"))

        self._play(self.part.leaving(60_000), end)

    def _left(self, _: None) -> None:
        self._post(events.LeaveRequested("enough for now"))

        def end(_: None) -> None:
            self._busy = False

        self._play(self.part.stand_down(), end)

    @override
    def _tick(self) -> None:
        if self.part.owner.blocked or self.part.owner.drained:
            # its poll waits, and shows no sign of life
            self._timeline.after(self.behavior.tick_ms, self._tick)
            self._poll()
            return
        super()._tick()
        if not self._absent:
            self._poll()

    def _poll(self) -> None:
        if self.alive and not self._paused and not self._absent and not self.closed:
            self._busy = True
            self._play(self.part.poll(0), self._polled)

    def _polled(self, _: object) -> None:
        self._busy = False
        self._step()
        due_ms = self.part.due_ms(self.clock_ms)
        if due_ms is not None and due_ms != self._due_ms:
            self._due_ms = due_ms  # a poll that waits returns then
            self._later(due_ms - self.clock_ms, self._poll)

    @override
    def _step(self) -> None:
        if not (isinstance(self.view.call, PrepareJoin) and self.part.holds_up):
            super()._step()

    @override
    def _perform(self, call: Call, raises: bool, duration_ms: int) -> None:
        steps: Steps[Any]
        match call:
            case PrepareJoin():
                generation = call.generation
                if not call.run_callback:
                    self._later(duration_ms, lambda: self._finish(call, raises))
                    return
                steps = self.part.join_prepared(generation.generation_id, generation.member_id)
            case AssignGroup():
                if call.skip:
                    self._finish(call, False)
                    return
                steps = self.part.assignment_performed(call.generation.generation_id, call.members)
            case CompleteJoin():
                self.part.join_completed(
                    call.generation.generation_id, call.generation.member_id, call.assignment
                )
                self._finish(call, False)
                self._later(0, self._poll)
                return

        def done(result: Any) -> None:
            self._plan = result
            self._finish(call, False)

        self._play(steps, done, lambda: self._finish(call, True))

    @override
    def _answer(self, call: Call) -> events.CallerEvent:
        match call:
            case PrepareJoin():
                offer = tuple(
                    ProtocolMetadata(name, data) for name, data in self.part.metadata().items()
                )
                return events.JoinPrepared(call.call_id, "shards", offer)
            case AssignGroup():
                plan: Mapping[str, bytes] = {} if call.skip else self._plan
                return events.GroupAssigned(call.call_id, plan)
            case CompleteJoin():
                return events.JoinDelivered(call.call_id)

    def _play(
        self,
        steps: Steps[T],
        done: Callable[[T], None],
        failed: Callable[[], None] | None = None,
        outcome: Outcome | None = None,
    ) -> None:
        """Carry out steps, one after the other, however long each takes."""
        try:
            step = next(steps) if outcome is None else steps.send(outcome)
        except StopIteration as end:
            done(end.value)
            return
        except (OddError, EpochStoreError, MemberClosedError) as error:
            self._world.note(f"{self.name}: raised {type(error).__name__}")
            if failed is None:
                self._busy = False
            else:
                failed()
            return
        self._carry_out(step, lambda result: self._play(steps, done, failed, result))

    def _carry_out(self, step: Step, then: Callable[[Outcome], None]) -> None:
        random = self._random
        match step:
            case Drive():
                then(Outcome(self.active))
            case Ask(call) | StoreCall(call):
                slow = random.random() < self.behavior.slow
                outcome = _outcome(call, raises=random.random() < self.behavior.raises)
                duration_ms = self.behavior.slow_ms if slow else random.choice((0, 0, 1, 20))
                if slow:
                    self.late_until_ms = self._timeline.now_ms() + self.behavior.slow_ms + 25_000
                if duration_ms:
                    self._later(duration_ms, lambda: then(outcome))
                else:
                    then(outcome)
            case Beside():
                self._start_beside(step)
                then(Outcome())
            case Pause(timeout_ms):
                self._pause_until(self._timeline.now_ms() + timeout_ms, then)
            case LeaveGroup(reason):

                def leave(_: None) -> None:
                    self._world.note(f"{self.name} leaves: {reason}")
                    self._post(events.LeaveRequested(reason))
                    then(Outcome())

                self._play(self.part.leaving(60_000), leave)

    def _pause_until(self, at_ms: int, then: Callable[[Outcome], None]) -> None:
        now_ms = self._timeline.now_ms()
        if self.part.has_news or now_ms >= at_ms:
            then(Outcome())
        else:
            self._later(min(_LOOK_MS, at_ms - now_ms), lambda: self._pause_until(at_ms, then))

    def _start_beside(self, step: Beside) -> None:
        random, call = self._random, step.call
        hangs = call.callback is Callback.RELEASE and random.random() < self.hangs
        slow = random.random() < 0.3
        duration_ms = RELEASE_MS * 2 if hangs else random.choice((500, 2_000) if slow else (0, 5))
        raises = random.random() < self.behavior.raises

        asked = self.code.asked(call.names) if call.callback is Callback.RELEASE else {}

        def end() -> None:
            if not raises:
                self.code.released(asked)
            outcome = _outcome(step.run, raises=raises)
            self.part.ended(call, outcome.error)
            self._later(random.choice((0, 50)), self._poll)

        self._later(duration_ms, end)


def _outcome(call: Callable[[], object], *, raises: bool) -> Outcome:
    if raises:
        if isinstance(call, partial) and call.func.__name__ == "on_shards_lost":
            call()  # it is not called again
        return Outcome(error=OddError("odd"))
    try:
        return Outcome(call())
    except (OddError, EpochStoreError) as error:
        return Outcome(error=error)


class ShardWorld(World[ShardMember]):
    """One run: what happens in it follows from its seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.listed = [f"s{number}" for number in range(self.random.randrange(1, 12))]
        self.list_raises = 0.0
        self.date_s = 1_000_000
        """The date that leaders see; it may go back."""
        self.standbys = self.random.choice((0, 0, 1))
        self._recorded = 0
        self._store_fails = 0.0
        self._owners: dict[str, tuple[int, str]] = {}
        self._releases: dict[str, list[int]] = {}
        self.gaps: list[tuple[int, int]] = []
        """How long each release took, and for how long the shard had no owner then, in milliseconds."""
        delay_ms = self.random.choice((0, 100, 3_000))
        retention: dict[str, Any] = {
            "group_initial_rebalance_delay_ms": delay_ms,
            "offsets_retention_minutes": _RETENTION_MINUTES,
            "offsets_retention_check_interval_ms": 20_000,
        }
        self.group_settings = GroupConfig(**retention)
        config = BrokerConfig.of(offsets_topic_num_partitions=1, **retention)
        self.process = BrokerProcess(
            self.timeline, self, config, {}, nodes=NODES, as_bytes=False, many_connections=False
        )
        self.start()

    # The store of incarnations.

    def advance(self, group_id: str, at_least: int) -> int:
        """Return and record the next number."""
        if self.random.random() < self._store_fails:
            raise EpochStoreError("not now")
        self._recorded = max(self._recorded + 1, at_least)
        return self._recorded

    # What happens to members.

    def add(
        self, behavior: CallerBehavior | None = None, *, hangs: float = 0.0, **settings: Any
    ) -> ShardMember:
        """Start a process."""
        name = f"p{len(self.members)}"
        config = ShardConfig.of(
            {
                "bootstrap_servers": "broker-1",
                "group_id": GROUP,
                "session_timeout_ms": 6_000,
                "heartbeat_interval_ms": 2_000,
                "rebalance_timeout_ms": 8_000,
                "request_timeout_ms": 4_000,
                "release_timeout_ms": RELEASE_MS,
                "shards_refresh_ms": _REFRESH_MS,
                "standbys": self.standbys,
                **settings,
            }
        )
        member = ShardMember(self, name, config, behavior or CallerBehavior())
        member.hangs = hangs
        self.members.append(member)
        self.note(f"{name} starts, {config.member.group_instance_id or 'dynamic'}")
        return member

    @override
    def start_like(self, member: ShardMember) -> None:
        config = member.shard_config.member
        static = config.group_instance_id
        self.add(
            member.behavior,
            hangs=member.hangs,
            rebalance_timeout_ms=config.rebalance_timeout_ms,
            session_timeout_ms=config.session_timeout_ms,
            **({"group_instance_id": static} if static else {}),
        )

    def gained(self, name: str, leases: Iterable[Lease]) -> None:
        """Check that the epochs of each shard rise from one owner to the next (invariant 52)."""
        for lease in leases:
            epoch, owner = self._owners.get(lease.name, (-1, ""))
            same = owner == self._place_of(name)
            if lease.epoch < epoch or (lease.epoch == epoch and not same):
                self.fail(
                    52, f"{name} gains {lease.name} under {lease.epoch}, after {owner} had {epoch}"
                )
            self._owners[lease.name] = (lease.epoch, self._place_of(name))
            times = self._releases.pop(lease.name, [])
            if times[1:]:
                self.gaps.append((times[1] - times[0], self.timeline.now_ms() - times[1]))

    @property
    def generation(self) -> int:
        """The latest generation that a living process has heard of."""
        return max(each.view.generation.generation_id for each in self.members if each.alive)

    def releases(self, names: Iterable[str]) -> None:
        """Note that the release of shards begins."""
        self._releases |= {name: [self.timeline.now_ms()] for name in names}

    def released(self, name: str) -> None:
        """Note that the release of a shard has ended."""
        if name in self._releases:
            self._releases[name].append(self.timeline.now_ms())

    def _place_of(self, name: str) -> str:
        """Return the instance id of a static process, which several are in turn, else its name."""
        member = self.members[int(name[1:])] if int(name[1:]) < len(self.members) else None
        static = None if member is None else member.config.group_instance_id
        return static or name

    # What must hold.

    @override
    def happened(self) -> None:
        """Check that no shard has two holders (invariant 51)."""
        holders: dict[str, tuple[ShardMember, int]] = {}
        for member in self.members:
            for shard, epoch in member.holds().items():
                other = holders.setdefault(shard, (member, epoch))
                if other[0] is not member:
                    self.fail(
                        51,
                        f"{other[0].name} holds {shard} under {other[1]}, and {member.name} under {epoch}",
                    )

    @override
    def not_converged(self) -> tuple[int, str] | None:
        if self.starting:
            return 53, "a process is yet to start"
        working = [
            each for each in self.members if each.alive and not each.closed and not each.drains
        ]
        for member in self.members:
            if member.alive and member.drains and not member.part.owner.drained:
                return 55, f"{member.name} drains and has not left"
        if not working:
            return None
        owned = sorted(shard for member in working for shard in member.holds())
        if owned != sorted(self.listed):
            return 53, f"{owned} are held, not {sorted(self.listed)}"
        counts = sorted(len(member.holds()) for member in working)
        if counts[-1] - counts[0] > 1:
            return 53, f"the shares are {counts}"
        for member in working:
            if member.holds().keys() != member.code.told.keys():
                return (
                    54,
                    f"{member.name} works on {sorted(member.code.told)}, and holds {member.holds()}",
                )
        return None


Fault = Callable[[ShardWorld, ShardMember], None]


def _drain(world: ShardWorld, member: ShardMember) -> None:
    others = [each for each in world.members if each.alive and not each.drains and not each.closed]
    if others == [member] or member.drains or member.replaced or member.closed:
        return
    world.note(f"{member.name} drains")
    member.drain()


def _change_list(world: ShardWorld, _: ShardMember) -> None:
    kept = [each for each in world.listed if world.random.random() < 0.7]
    new = [f"n{world.random.randrange(1000)}" for _ in range(world.random.randrange(3))]
    world.listed = sorted({*kept, *new}) or ["last"]
    world.note(f"the list is {world.listed}")


def _refresh(world: ShardWorld, member: ShardMember) -> None:
    _change_list(world, member)
    if not member.closed:
        member.part.request_refresh()


def _break_list(world: ShardWorld, _: ShardMember) -> None:
    world.note("the list cannot be had for a while")
    world.list_raises = 1.0
    world.timeline.after(
        world.random.choice((500, 8_000)), lambda: setattr(world, "list_raises", 0.0)
    )


def _turn_back_date(world: ShardWorld, _: ShardMember) -> None:
    world.date_s -= world.random.choice((10, 100_000))
    world.note(f"the date goes back to {world.date_s}")


def _forget_group(world: ShardWorld, _: ShardMember) -> None:
    """End all processes, and start as many when the group is long forgotten."""
    world.note("all end, and come back when the group is forgotten")
    for member in world.members:
        if member.alive and not member.replaced:
            member.kill()
            world.restart(member, 150_000)
    world.run(160_000)


OWN_FAULTS: Final[tuple[Fault, ...]] = (
    _drain,
    _drain,
    _change_list,
    _refresh,
    _break_list,
    _turn_back_date,
)
FORGET: Final = _forget_group
