"""Run members, brokers and faults under one clock, and check what must hold at every step."""

from collections import defaultdict, deque
from collections.abc import Iterator
from random import Random
from typing import Any, Final, NoReturn

from groupsdk.broker.catalogue import OFFSETS_TOPIC
from groupsdk.broker.config import BrokerConfig
from groupsdk.broker.coordinators import PartitionCoordinatorLog
from groupsdk.broker.groups.config import GroupConfig
from groupsdk.broker.groups.group import ClassicGroup
from groupsdk.broker.groups.state import GroupState
from groupsdk.broker.log.errors import StorageError
from groupsdk.broker.runtime.contract import LogRecord
from groupsdk.broker.runtime.coordinator_runtime import Marker
from groupsdk.config import MemberConfig
from groupsdk.membership.state import MemberState
from groupsdk.testing.simulation.group_watch import TOPIC, GroupWatch
from groupsdk.testing.simulation.member import TASKS, Member, Temper
from groupsdk.testing.simulation.process import BrokerProcess
from groupsdk.testing.simulation.settled import unsettled
from groupsdk.testing.simulation.shard import ObservedShard
from groupsdk.testing.simulation.timeline import START_MS, Timeline
from groupsdk.wire.records.batch import batches
from groupsdk.wire.records.record import read_records
from groupsdk.wire.schema import Request, Response


GROUP: Final = "g"
NODES: Final = 3
BUCKET_MS: Final = 100
RETENTION_MINUTES: Final = 1
_AFTERMATH_MS: Final = 25_000
_GATHER_MS: Final = 5
"""For how long after a fault nobody is to be blamed for what follows from it."""


class InvariantError(AssertionError):
    """An invariant was broken; names the run and tells what led to it."""


class _LostTailError(Exception):
    """What was acknowledged is lost by rule: what members know of it is void, and the run is over."""


class Simulation:
    """One run: what happens in it follows from its seed.

    Args:
        seed: names the run.
        harsh: let requests of a dropped connection be read long after those of the next one. Kafka's
            protocol has no answer to that but the fence, so then only the fence is checked (invariants 3
            and 14), and what the broker does on its side.
    """

    def __init__(self, seed: int, *, harsh: bool = False) -> None:
        self.seed = seed
        self.harsh = harsh
        self.random = Random(seed)
        self.timeline = Timeline()
        self.members: list[Member] = []
        self.starting = 0
        """How many processes are about to start."""
        self.synced = self.random.random() < 0.5
        """Whether the log is synced with every append, so that a loss of power loses nothing."""
        self._trace: deque[str] = deque(maxlen=400)
        self._ids = 0
        self._disturbed_until_ms = 0
        self._accepted: dict[int, tuple[int, str]] = defaultdict(lambda: (-1, ""))
        self._processes: dict[str, str] = {}
        self._stale_coordinator = 1
        self.durable_end = 0
        """Up to where the log was safe when the broker died last."""
        self._outage_ms = 0
        self._failure: InvariantError | None = None
        delay_ms = self.random.choice((0, 100, 3_000))
        config = BrokerConfig.of(
            group_initial_rebalance_delay_ms=delay_ms,
            offsets_topic_num_partitions=1,
            offsets_topic_segment_bytes=2_000,
            offsets_retention_minutes=RETENTION_MINUTES,
            offsets_retention_check_interval_ms=20_000,
            log_flush_interval_messages=1 if self.synced else 2**63 - 1,
            log_flush_interval_ms=5_000,
            log_flush_scheduler_interval_ms=4_000,
            log_cleaner_min_cleanable_ratio=0.1,
        )
        self._groups = GroupConfig(
            group_initial_rebalance_delay_ms=delay_ms,
            offsets_retention_minutes=config.offsets_retention_minutes,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
            session_bucket_ms=BUCKET_MS,
            gather_ms=_GATHER_MS if seed & 2 else 0,
        )
        self.watch = GroupWatch(
            self,
            TASKS,
            bucket_ms=BUCKET_MS,
            retention_ms=RETENTION_MINUTES * 60_000,
            identify=self._identify,
        )
        self.process = BrokerProcess(
            self.timeline,
            self,
            config,
            {TOPIC: len(TASKS)},
            nodes=NODES,
            as_bytes=self.random.random() < 0.1,
            crowded=bool(seed & 1),
        )
        self.process.start()

    # What the members see of the world.

    def coordinator(self) -> int | None:
        """Return what a lookup finds: sometimes the one that was it before."""
        found = self.process.coordinator(GROUP)
        if found is not None and self.random.random() < 0.1:
            return self._stale_coordinator
        if found is not None and not self.process.is_up(found):
            return None
        return found

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        self._trace.append(f"{self.timeline.now_ms() - START_MS:>7} {text}")

    # What the broker's process needs.

    def make_shard(self, _partition: int) -> ObservedShard:
        """Make the coordinator of the group."""
        return ObservedShard(self._groups, self._new_id, GROUP, self.watch)

    def answered(self, request: Request[Any], response: Response) -> None:
        """Hold an answer that is being sent against what it promises."""
        self.watch.answered(request, response, self.timeline.now_ms())

    def log_end(self) -> int:
        """Return the end of the group's log; one that is not open yet is not opened for it."""
        log = self.process.opened_log()
        return 0 if log is None else log.log_end_offset

    def read_log(self, start: int) -> Iterator[LogRecord]:
        """Go through the group's log from an offset on."""
        log = self.process.opened_log()
        if log is not None and start < log.log_end_offset:
            data = log.read(start, log.size).data
            for _, position in batches(data):
                for record in read_records(data, position):
                    if record.key is not None and record.offset >= start:
                        yield LogRecord(record.key, record.value)

    def group_gone(self) -> None:
        """Let generations begin anew."""
        self._accepted.clear()
        for member in self.members:
            member.callbacks.last_delivered = -1

    def expelled(self, member_id: str, why: str) -> None:
        """Ask whether that had a reason on the member's side (invariant 5)."""
        member = next((m for m in self.members if m.view.generation.member_id == member_id), None)
        if member is None or self.harsh:
            return
        excused_ms = max(member.excused_until_ms, self._disturbed_until_ms)
        beating = member.view.state in (MemberState.STABLE, MemberState.COMPLETING_REBALANCE)
        if why != "session expired" or not beating:  # a caller that is late stops no heartbeat
            excused_ms = max(excused_ms, member.late_until_ms)
        if member.alive and self.timeline.now_ms() > excused_ms:
            self.fail(5, f"{member.name} was expelled ({why}) though nothing had happened to it")

    def _new_id(self) -> str:
        self._ids += 1
        return str(self._ids)

    def _identify(self, member_id: str) -> str:
        """Name the process behind a member id, or the instance that several are in turn."""
        return member_id.rpartition("-")[0]

    # What happens to members.

    def add(self, temper: Temper | None = None, **settings: object) -> Member:
        """Start a process."""
        name = f"p{len(self.members)}"
        config = MemberConfig.of(
            {
                "bootstrap_servers": "broker-1",
                "group_id": GROUP,
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

    def disturb(self, duration_ms: int) -> None:
        """Note that for so long, and for what follows from it, no member can be blamed."""
        until_ms = self.timeline.now_ms() + duration_ms + _AFTERMATH_MS
        self._disturbed_until_ms = max(self._disturbed_until_ms, until_ms)

    def excuse(self, member: Member, duration_ms: int) -> None:
        """Note the same for one member."""
        until_ms = self.timeline.now_ms() + duration_ms + _AFTERMATH_MS
        member.excused_until_ms = max(member.excused_until_ms, until_ms)

    # What happens to the broker.

    def crash_coordinator(self, outage_ms: int) -> None:
        """Kill the broker; it starts again after the outage."""
        if self.process.alive:
            self._outage_ms = outage_ms
            self.process.kill()

    def lose_power(self, outage_ms: int, *, torn: int = 0, after_writes: int | None = None) -> None:
        """Let the machine lose power, now or instead of one of the next writes.

        Args:
            outage_ms: when the broker starts again.
            torn: how many bytes are kept behind what was synced.
            after_writes: how many changes to the disk are still made.
        """
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
        self.watch.lost()
        self.disturb(self._outage_ms)
        for member in self.members:
            member.break_connection()
        self.timeline.after(self._outage_ms, self._start_process)

    def _start_process(self) -> None:
        self.note("the broker starts again")
        self.process.start()

    def move_coordinator(self) -> None:
        """Have another node take over in good order."""
        old = self.process.coordinator(GROUP)
        others = [each for each in self.process.nodes if each != old and self.process.is_up(each)]
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
        up = [each for each in self.process.nodes if self.process.is_up(each)]
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

    # Time.

    def run(self, duration_ms: int) -> None:
        """Let time pass.

        Raises:
            InvariantError: an invariant was broken, or something raised.
        """
        if self.watch.lost_tail:
            return
        try:
            self.timeline.run_until(self.timeline.now_ms() + duration_ms, self._stepped)
        except _LostTailError:
            return
        except InvariantError:
            raise
        except Exception as error:
            raise InvariantError(self.report(f"{type(error).__name__}: {error}")) from error

    def settle(self, at_most_ms: int) -> None:
        """Let time pass until all is well again; it has to be so in time."""
        until_ms = self.timeline.now_ms() + at_most_ms
        while True:
            self.run(5_000)
            problem = self.unsettled()
            if problem is None or self.watch.lost_tail:
                return
            if self.timeline.now_ms() >= until_ms:
                self.fail(*problem)

    # What must hold.

    @property
    def group(self) -> ClassicGroup | None:
        """The group as its coordinator has it."""
        return None if self.watch.shard is None else self.watch.shard.classic_group

    def _stepped(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self.watch.lost_tail:
            raise _LostTailError
        self.happened()

    def happened(self) -> None:
        """Check what must hold at every step."""
        if self.watch.lost_tail:
            return
        now_ms = self.timeline.now_ms()
        if self.process.paused_until_ms < now_ms:
            self.watch.check(now_ms)
        if self.harsh:
            self._check_fence()
            return
        owners: dict[int, Member] = {}
        group = self.group
        for member in self.members:
            tasks = member.tasks(now_ms)
            if not tasks:
                continue
            self._check_believer(member, group, now_ms)
            for task in tasks:
                other = owners.setdefault(task, member)
                if other is not member:
                    self.fail(4, f"{other.name} and {member.name} both believe in task {task}")

    def _check_believer(self, member: Member, group: ClassicGroup | None, now_ms: int) -> None:
        if now_ms >= member.polled_ms + member.config.poll_interval_ms:
            self.fail(22, f"{member.name} believes though its caller is stuck")
        generation = member.view.generation
        if group is None:
            if self.watch.shard is not None:
                self.fail(7, f"{member.name} believes in {generation} of a group that is not there")
            return
        in_group = generation.member_id in group.members
        if not in_group or group.generation_id != generation.generation_id:
            self.fail(
                7,
                f"{member.name} believes in generation {generation.generation_id}; the group is in"
                f" {group.generation_id} {'with' if in_group else 'without'} it",
            )

    def _check_fence(self) -> None:
        """Ask for everyone who believes whether the group would take a write (invariant 3)."""
        group = self.group
        if group is None or group.state is GroupState.COMPLETING_REBALANCE:
            return
        for member in self.members:
            generation = member.view.generation
            for task in member.believes():
                known = group.validate(generation.member_id, member.config.group_instance_id)
                if known or generation.generation_id != group.generation_id:
                    continue
                # A static member that restarts goes on with what it had, under another member id.
                write = (generation.generation_id, member.config.group_instance_id or member.name)
                before = self._accepted[task]
                if write[0] < before[0] or (write[0] == before[0] and write[1] != before[1]):
                    self.fail(
                        3, f"task {task}: the write of {write} was taken after that of {before}"
                    )
                self._accepted[task] = write

    def unsettled(self) -> tuple[int, str] | None:
        """Tell which invariant would be broken if all had to be well by now; None: all is well."""
        return unsettled(self)

    def check_settled(self) -> None:
        """Check that all is well."""
        problem = self.unsettled()
        if problem is not None:
            self.fail(*problem)

    def check_log(self) -> None:
        """Replay the log from its start and compare (invariants 13, 17 and 18)."""
        if not self.process.alive:
            return
        self.watch.check_served(13)
        fresh = ObservedShard(self._groups, self._new_id, GROUP, self.watch)
        for entry in PartitionCoordinatorLog(self.process.cluster, OFFSETS_TOPIC, 0).replay():
            if isinstance(entry, Marker):
                fresh.replay_marker(entry.producer, committed=entry.committed)
            else:
                for record in fresh.decode([entry.record]):
                    fresh.replay(record, entry.producer)
        self.watch.check_offsets(fresh, 18)
        self.watch.check_replayed(fresh)

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
        """End the run, as an invariant is broken.

        Raises:
            InvariantError: always.
        """
        # the broker goes on whatever happens to it: where this is caught, the next step raises it again
        self._failure = InvariantError(self.report(f"invariant {invariant}: {what}"))
        raise self._failure

    def report(self, what: str) -> str:
        """Tell what led to this, with the seed that leads to it again."""
        trace = "\n".join(self._trace)
        return f"{what}\nseed {self.seed}{' harsh' if self.harsh else ''}, what led to it:\n{trace}"
