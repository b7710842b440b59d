"""Run members, brokers and faults under one clock, and check what must hold at every step."""

from collections import defaultdict, deque
from random import Random
from typing import NoReturn

from groupsdk.config import MemberConfig
from groupsdk.membership.state import MemberState
from tests.simulation.coordinator import GroupModel
from tests.simulation.group import GroupState, Stored
from tests.simulation.member import TASKS, Member, Temper
from tests.simulation.network import Broker
from tests.simulation.timeline import Timeline


class InvariantError(AssertionError):
    """An invariant was broken; names the run and tells what led to it."""


class Simulation:
    """One run: what happens in it follows from its seed.

    Args:
        seed: names the run.
        harsh: let requests of a dropped connection be read long after those of the next one. Kafka's
            protocol has no answer to that but the fence, so then only the fence is checked (invariant 3).
    """

    def __init__(self, seed: int, *, harsh: bool = False) -> None:
        self.seed = seed
        self.harsh = harsh
        self.random = Random(seed)
        self.timeline = Timeline()
        self.stored = Stored()
        self.members: list[Member] = []
        self._brokers = [Broker(node_id) for node_id in range(3)]
        self._coordinator: int | None = 0
        self._stale_coordinator = 0
        self.starting = 0
        """How many processes are about to start."""
        self._ids = 0
        self._initial_delay_ms = self.random.choice((0, 100, 3_000))
        self._trace: deque[str] = deque(maxlen=400)
        self._disturbed_until_ms = 0
        self._accepted: dict[int, tuple[int, str]] = defaultdict(lambda: (-1, ""))
        self._load(0)

    # What the members see of the world.

    def coordinator(self) -> int | None:
        """Return what a lookup finds: sometimes the one that was it before."""
        if self._coordinator is not None and self.random.random() < 0.1:
            return self._stale_coordinator
        return self._coordinator

    def broker(self, node_id: int) -> Broker:
        return self._brokers[node_id]

    def note(self, text: str) -> None:
        self._trace.append(f"{self.timeline.now_ms - 1_000_000:>7} {text}")

    # What the group's coordinator tells.

    def written(self, stored: Stored) -> None:
        self.note(
            f"log: generation {stored.generation}, leader {stored.leader_id},"
            f" {[(m.member_id, list(m.assignment)) for m in stored.members]}"
        )
        before = self.stored
        if stored.generation < before.generation:
            self.fail(1, f"generation {stored.generation} after {before.generation}")
        if stored.generation == before.generation and stored.members:
            same = (stored.protocol_name, sorted(m.assignment for m in stored.members))
            if same != (before.protocol_name, sorted(m.assignment for m in before.members)):
                self.fail(1, f"generation {stored.generation} has two assignments")
        given = [task for member in stored.members for task in member.assignment]
        if stored.members and sorted(given) != list(TASKS):
            self.fail(2, f"generation {stored.generation} gives out {given}")
        self.stored = stored

    def expelled(self, member_id: str, why: str) -> None:
        self.note(f"group: {member_id} is out: {why}")
        member = next((m for m in self.members if m.view.generation.member_id == member_id), None)
        if member is None or why == "left" or self.harsh:
            return
        excused_ms = max(member.excused_until_ms, self._disturbed_until_ms)
        beating = member.view.state in (MemberState.STABLE, MemberState.COMPLETING_REBALANCE)
        if why != "session expired" or not beating:  # a caller that is late stops no heartbeat
            excused_ms = max(excused_ms, member.late_until_ms)
        if member.alive and self.timeline.now_ms > excused_ms:
            self.fail(5, f"{member.name} was expelled ({why}) though nothing had happened to it")

    # What happens.

    def add(self, temper: Temper | None = None, **settings: object) -> Member:
        name = f"p{len(self.members)}"
        config = MemberConfig.of(
            {
                "bootstrap_servers": "broker-0",
                "group_id": "g",
                "session_timeout_ms": 6_000,
                "heartbeat_interval_ms": 2_000,
                "rebalance_timeout_ms": 8_000,
                "request_timeout_ms": 4_000,
                **settings,
            }
        )
        member = Member(self, name, config, temper or Temper())
        self.members.append(member)
        self.note(f"{name} starts, {config.group_instance_id or 'dynamic'}")
        return member

    def crash_coordinator(self, outage_ms: int) -> None:
        """Kill the coordinator: what it did not write is lost, and another node takes over."""
        self._move(outage_ms, crash=True)

    def move_coordinator(self, outage_ms: int) -> None:
        """Have another node take over in good order."""
        self._move(outage_ms, crash=False)

    def _move(self, outage_ms: int, *, crash: bool) -> None:
        old = self._coordinator
        if old is None:
            return
        self.note(f"coordinator {old} {'crashes' if crash else 'hands over'}")
        broker = self._brokers[old]
        group, broker.group = broker.group, None
        self._coordinator, self._stale_coordinator = None, old
        if crash:
            broker.alive = False
            for member in self.members:
                member.break_connection_to(broker)
            self.timeline.after(outage_ms + 2_000, lambda: setattr(broker, "alive", True))
        if group is not None:
            group.unload(answer=not crash)
        self.disturb(outage_ms)
        self.timeline.after(outage_ms, lambda: self._load((old + 1) % len(self._brokers)))

    def _load(self, node_id: int) -> None:
        self.note(f"coordinator {node_id} takes over")
        self._coordinator = node_id
        self._brokers[node_id].alive = True
        self._brokers[node_id].group = GroupModel(
            self.timeline, self.stored, self, self._new_id, self._initial_delay_ms
        )

    def _new_id(self, prefix: str) -> str:
        self._ids += 1
        return f"{prefix}-{self._ids}"

    def disturb(self, duration_ms: int) -> None:
        """Note that for so long, and for what follows from it, no member can be blamed."""
        until_ms = self.timeline.now_ms + duration_ms + 25_000
        self._disturbed_until_ms = max(self._disturbed_until_ms, until_ms)

    def excuse(self, member: Member, duration_ms: int) -> None:
        until_ms = self.timeline.now_ms + duration_ms + 25_000
        member.excused_until_ms = max(member.excused_until_ms, until_ms)

    def run(self, duration_ms: int) -> None:
        try:
            self.timeline.run_until(self.timeline.now_ms + duration_ms, self.happened)
        except InvariantError:
            raise
        except Exception as error:
            raise InvariantError(self.report(f"{type(error).__name__}: {error}")) from error

    # What must hold.

    @property
    def group(self) -> GroupModel | None:
        return None if self._coordinator is None else self._brokers[self._coordinator].group

    def happened(self) -> None:
        """Check what must hold at every step."""
        if self.harsh:
            self._check_fence()
            return
        owners: dict[int, Member] = {}
        group = self.group
        for member in self.members:
            tasks = member.believes()
            if not tasks and member.callbacks.taken is None:
                continue
            if tasks and self.timeline.now_ms >= member.polled_ms + member.config.poll_interval_ms:
                self.fail(22, f"{member.name} believes though its caller is stuck")
            for task in tasks:
                other = owners.setdefault(task, member)
                if other is not member:
                    self.fail(4, f"{other.name} and {member.name} both believe in task {task}")
            if tasks and group is not None:
                generation = member.view.generation
                in_group = generation.member_id in group.members
                if not in_group or group.generation != generation.generation_id:
                    self.fail(
                        7,
                        f"{member.name} believes in generation {generation.generation_id}; the group is"
                        f" in {group.generation} {'with' if in_group else 'without'} it",
                    )

    def _check_fence(self) -> None:
        """Let everyone who believes write, and see which writes the group takes."""
        group = self.group
        if group is None:
            return
        for member in self.members:
            generation = member.view.generation
            for task in member.believes():
                if not group.accepts_commit(generation.member_id, generation.generation_id):
                    continue
                # A static member that restarts goes on with what it had, under another member id.
                write = (generation.generation_id, member.config.group_instance_id or member.name)
                before = self._accepted[task]
                if write[0] < before[0] or (write[0] == before[0] and write[1] != before[1]):
                    self.fail(
                        3, f"task {task}: the write of {write} was taken after that of {before}"
                    )
                self._accepted[task] = write

    def settle(self, at_most_ms: int) -> None:
        """Let time pass until all is well again; it has to be so in time."""
        until_ms = self.timeline.now_ms + at_most_ms
        while True:
            self.run(5_000)
            try:
                self.check_settled()
            except InvariantError:
                if self.timeline.now_ms >= until_ms:
                    raise
            else:
                return

    def check_settled(self) -> None:
        """Check that all is well."""
        if self.starting:
            self.fail(6, "a process is yet to start")
        living = [member for member in self.members if member.alive and not member.fenced]
        group = self.group
        if group is None:
            self.fail(6, "there is no coordinator")
        if not living:
            if group.state is not GroupState.EMPTY:
                self.fail(12, f"nobody lives, yet the group is {group.state.value}")
            return
        for member in living:
            if not member.active:
                view = member.view
                self.fail(6, f"{member.name} is not active: {view.state} call={view.call}")
        if group.state is not GroupState.STABLE:
            self.fail(6, f"the group is {group.state.value}")
        ids = {member.view.generation.member_id for member in living}
        if ids != set(group.members):
            self.fail(11, f"living {ids}, in the group {set(group.members)}")
        owned = sorted(task for member in living for task in member.believes())
        if owned != list(TASKS):
            self.fail(2, f"{owned} are worked on")

    def fail(self, invariant: int, what: str) -> NoReturn:
        raise InvariantError(self.report(f"invariant {invariant}: {what}"))

    def report(self, what: str) -> str:
        trace = "\n".join(self._trace)
        return f"{what}\nseed {self.seed}{' harsh' if self.harsh else ''}, what led to it:\n{trace}"
