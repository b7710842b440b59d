"""A run of the simulation: members and brokers under one clock, what may happen to them, and reports of broken invariants."""

from collections import deque
from random import Random
from typing import Any, Final, Generic, NoReturn, TypeVar
from uuid import NAMESPACE_OID, UUID, uuid5

from groupsdk.broker.catalogue import OFFSETS_TOPIC
from groupsdk.broker.coordinator.group.shard import GroupCoordinatorShard
from groupsdk.broker.log.errors import StorageError
from groupsdk.broker.settings.table import GroupConfig
from groupsdk.error_code import ErrorCode
from groupsdk.testing.simulation.broker_process import BrokerProcess
from groupsdk.testing.simulation.member_process import MemberProcess
from groupsdk.testing.simulation.timeline import START_MS, Timeline
from groupsdk.types import GroupMembershipOperation
from groupsdk.wire.messages.consumer_groups import Assignment, ConsumerGroupHeartbeatResponse
from groupsdk.wire.messages.groups import SyncGroupResponse
from groupsdk.wire.messages.offsets import OffsetCommitResponse
from groupsdk.wire.schema import Request, Response


MemberT = TypeVar("MemberT", bound=MemberProcess)
GROUP: Final = "g"
NODES: Final = 3
_NEXT_START_MS: Final = 500
_LOAD_MS: Final = {2: 300, 3: 2_500}
"""How long coordinators load, by the seed's remainder by 13, so that nothing is drawn for it; others load at once."""
AFTERMATH_MS: Final = 25_000
"""How long after a fault its consequences are tolerated."""


class InvariantError(AssertionError):
    """An invariant was broken; names the run and tells what led to it."""


class RunOverError(Exception):
    """The run is over by rule, though its time is not."""


class World(Generic[MemberT]):
    """One run: what happens in it follows from its seed.

    A kind of member has a world of its own, which says how its processes start and when all is well. It creates
    `group_settings` and `process`, and may check more of what it is told of.

    Args:
        harsh: let requests of a dropped connection be read long after those of the next one. Kafka's
            protocol has no answer to that but the fence, so then two members may believe in the same.
    """

    settle_step_ms = 5_000
    """How long to wait at a time for all to be well."""
    group_settings: GroupConfig
    process: BrokerProcess

    def __init__(self, seed: int, *, harsh: bool = False) -> None:
        self.seed = seed
        self.harsh = harsh
        self.random = Random(seed)
        self.timeline = Timeline()
        self.members: list[MemberT] = []
        self.starting = 0
        """How many processes are about to start."""
        self.durable_end = 0
        """Up to where the log was safe when the broker died last."""
        self.load_ms = _LOAD_MS.get(seed % 13, 0)
        """How long a coordinator takes to replay its log when it starts."""
        self.assignments = 0
        """How many assignments were handed to members."""
        self.commits = 0
        """How many commits were acknowledged."""
        self._trace: deque[str] = deque(maxlen=400)
        self._ids = 0
        self._disturbed_until_ms = 0
        self._stale_coordinator = 1
        self._outage_ms = 0
        self._failure: InvariantError | None = None

    def start(self) -> None:
        """Start the broker, once the world knows all its settings."""
        self.process.start()

    def start_like(self, member: MemberT) -> None:
        """Start a process in the place of one that is over, with the same instance id."""
        raise NotImplementedError

    def not_converged(self) -> tuple[int, str] | None:
        """Return the invariant that is broken if the run ends now, and why; None if the group has converged."""
        raise NotImplementedError

    def happened(self) -> None:
        """Check what must hold at every step."""
        raise NotImplementedError

    def make_shard(self, partition: int) -> GroupCoordinatorShard:
        """Return the state machine of one partition of `__consumer_offsets`."""
        return GroupCoordinatorShard(self.group_settings, self._new_id)

    def coordinator_lost(self) -> None:
        """Called when the coordinator has disappeared without notice."""

    def answered(self, request: Request[Any], response: Response) -> None:
        """Called with a response that is being sent."""
        match response:
            case OffsetCommitResponse():
                codes = {each.error_code for topic in response.topics for each in topic.partitions}
                self.commits += codes == {ErrorCode.NONE}
            case SyncGroupResponse(error_code=ErrorCode.NONE):
                self.assignments += 1
            case ConsumerGroupHeartbeatResponse(assignment=Assignment()):
                self.assignments += 1
            case _:
                pass

    def check_log(self) -> None:
        """Replay the log from its start and compare, where the world knows what it must say."""

    def closing(self, member: MemberT, operation: GroupMembershipOperation) -> None:
        """Called before a member closes."""

    def pausing(self, duration_ms: int) -> None:
        """Called before a process is paused."""

    @property
    def is_void(self) -> bool:
        """Whether the run is over by rule, though its time is not."""
        return False

    def coordinator(self) -> int | None:
        """Return what a lookup finds: sometimes the one that was it before."""
        node_id = self.process.coordinator(GROUP)
        if node_id is not None and self.random.random() < 0.1:
            return self._stale_coordinator
        if node_id is not None and not self.process.is_up(node_id):
            return None
        return node_id

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        self._trace.append(f"{self.timeline.now_ms() - START_MS:>7} {text}")

    def new_topic_id(self, name: str) -> UUID:
        """Return the id of a topic that is about to be created."""
        return uuid5(NAMESPACE_OID, f"{self.seed} {name} {self._new_id()}")

    def _new_id(self) -> str:
        self._ids += 1
        return str(self._ids)

    def disturb(self, duration_ms: int) -> None:
        """Note that for so long, and for what follows from it, no member can be blamed."""
        until_ms = self.timeline.now_ms() + duration_ms + AFTERMATH_MS
        self._disturbed_until_ms = max(self._disturbed_until_ms, until_ms)

    def excuse(self, member: MemberT, duration_ms: int) -> None:
        """Note that for so long, and for what follows from it, a member cannot be blamed."""
        until_ms = self.timeline.now_ms() + duration_ms + AFTERMATH_MS
        member.excused_until_ms = max(member.excused_until_ms, until_ms)

    def restart(self, member: MemberT, delay_ms: int) -> None:
        """Start a process in the place of one that is over, after a while."""

        def start() -> None:
            self.starting -= 1
            member.kill()
            self.start_like(member)

        self.starting += 1
        member.replaced = True
        self.timeline.after(delay_ms, start)

    def crash_coordinator(self, outage_ms: int) -> None:
        """Kill the broker; it starts again after the outage."""
        if self.process.alive:
            self._outage_ms = outage_ms
            self.process.kill()

    def lose_power(self, outage_ms: int, *, torn: int = 0, after_writes: int | None = None) -> None:
        """Let the machine lose power, now or after some more changes, keeping `torn` bytes that were not synced."""
        if not self.process.alive:
            return
        self._outage_ms = outage_ms
        if after_writes is None:
            self.process.lose_power(torn)
        else:
            self.process.lose_power_at(after_writes, torn)

    def process_died(self, why: str, durable_end: int | None) -> None:
        """Break all connections, as the broker is gone, and plan its return."""
        self.note(f"the broker {why}; on the disk: {durable_end}")
        if durable_end is not None:
            self.durable_end = durable_end
        self.coordinator_lost()
        self.disturb(self._outage_ms)
        for member in self.members:
            member.break_connection()
        self.timeline.after(self._outage_ms, self._start_process)

    def _start_process(self) -> None:
        self.note("the broker starts again")
        try:
            self.process.start()
        except StorageError as error:
            self.note(f"the broker cannot start: {error}")
            self._outage_ms = _NEXT_START_MS
            if self.process.alive:
                self.process.kill()
            else:
                self.process.files.kill()
                self.timeline.after(_NEXT_START_MS, self._start_process)

    def move_coordinator(self) -> None:
        """Have another node take over in good order."""
        old = self.process.coordinator(GROUP)
        others = [node for node in self.process.nodes if node != old and self.process.is_up(node)]
        if old is None or not others:
            return
        self._stale_coordinator = old
        new = self.random.choice(others)
        self.note(f"node {old} hands the group over to node {new}")
        self.disturb(0)
        self.process.move(OFFSETS_TOPIC, 0, new)

    def stop_coordinator(self, outage_ms: int) -> None:
        """Stop the node of the coordinator as a crash would; another one takes over at once."""
        node_id = self.process.coordinator(GROUP)
        up = [node for node in self.process.nodes if self.process.is_up(node)]
        if node_id not in up or len(up) < 2:
            return
        self.note(f"node {node_id} stops")
        self._stale_coordinator = node_id
        self.disturb(0)
        self.process.stop_node(node_id, lambda: self._break_connections_to(node_id))
        self.timeline.after(outage_ms, lambda: self.process.start_node(node_id))

    def _break_connections_to(self, node_id: int) -> None:
        for member in self.members:
            member.break_connection(node_id)

    def pause_broker(self, duration_ms: int) -> None:
        """Let nothing of the broker happen for so long."""
        self.note(f"the broker is paused for {duration_ms} ms")
        self.disturb(duration_ms)
        self.process.pause(duration_ms)

    def fill_disk(self, duration_ms: int) -> None:
        """Let nothing more fit onto the disk for so long."""
        self.note(f"the disk is full for {duration_ms} ms")
        self.disturb(duration_ms)
        self.process.files.capacity_bytes = self.process.files.total_bytes
        self.timeline.after(duration_ms, self._make_room)

    def _make_room(self) -> None:
        self.process.files.capacity_bytes = None

    def run(self, duration_ms: int) -> None:
        """Let time pass; a broken invariant ends the run."""
        try:
            self.timeline.run_until(self.timeline.now_ms() + duration_ms, self.stepped)
        except (InvariantError, RunOverError):
            raise
        except Exception as error:
            raise InvariantError(self.report(f"{type(error).__name__}: {error}")) from error

    def stepped(self) -> None:
        """Do what is to be done after every step."""
        if self._failure is not None:
            raise self._failure
        self.happened()

    def settle(self, at_most_ms: int) -> None:
        """Let time pass until all is well again; it has to be so in time (invariant 6)."""
        until_ms = self.timeline.now_ms() + at_most_ms
        while True:
            self.run(self.settle_step_ms)
            problem = self.not_converged()
            if problem is None or self.is_void:
                return
            if self.timeline.now_ms() < until_ms:
                continue
            if not self.helped_on(problem):
                self.fail(*problem)
            until_ms += at_most_ms

    def helped_on(self, problem: tuple[int, str]) -> bool:
        """Let something happen that ends what Kafka's protocol leaves as it is; return whether that was done."""
        return False

    def check_converged(self) -> None:
        """End the run with an error unless the group has converged."""
        problem = self.not_converged()
        if problem is not None:
            self.fail(*problem)

    def compact(self) -> None:
        """Compact the group's log, and check that it says the same as before (invariant 18)."""
        log = self.process.opened_log()
        if log is None:
            return
        try:
            self.process.run(lambda: log.compact(self.timeline.now_ms()))
        except StorageError as error:
            self.note(f"log: {error}")
        self.check_log()

    def fail(self, invariant: int, what: str) -> NoReturn:
        """End the run, as an invariant is broken."""
        # the broker goes on whatever happens to it: where this is caught, the next step raises it again
        self._failure = InvariantError(self.report(f"invariant {invariant}: {what}"))
        raise self._failure

    def report(self, what: str) -> str:
        """Tell what led to this, with the seed that leads to it again."""
        trace = "\n".join(self._trace)
        return f"{what}\nseed {self.seed}{' harsh' if self.harsh else ''}, what led to it:\n{trace}"
