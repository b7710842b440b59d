"""The broker side of a simulation run: faults, time, and reports of broken invariants."""

from collections import deque
from collections.abc import Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final, NoReturn
from uuid import NAMESPACE_OID, UUID, uuid5

from groupsdk.broker.catalogue import OFFSETS_TOPIC
from groupsdk.broker.coordinator.group.shard import GroupCoordinatorShard
from groupsdk.broker.coordinator.runtime.contract import LogRecord
from groupsdk.broker.log.errors import StorageError
from groupsdk.testing.simulation.broker_process import BrokerProcess
from groupsdk.testing.simulation.timeline import START_MS, Timeline
from groupsdk.wire.records.batch import batches
from groupsdk.wire.records.record import read_records
from groupsdk.wire.schema import Request, Response


if TYPE_CHECKING:
    from groupsdk.testing.simulation.member_process import MemberProcess


GROUP: Final = "g"
NODES: Final = 3
_NEXT_START_MS: Final = 500
AFTERMATH_MS: Final = 25_000
"""How long after a fault its consequences are tolerated."""


class InvariantError(AssertionError):
    """An invariant was broken; names the run and tells what led to it."""


class RunOverError(Exception):
    """The run is over by rule, though its time is not."""


class BrokerWorld:
    """One run: what happens in it follows from its seed."""

    process: BrokerProcess

    def __init__(self, seed: int, *, harsh: bool = False) -> None:
        self.seed = seed
        self.harsh = harsh
        self.random = Random(seed)
        self.timeline = Timeline()
        self.durable_end = 0
        """Up to where the log was safe when the broker died last."""
        self._trace: deque[str] = deque(maxlen=400)
        self._ids = 0
        self._disturbed_until_ms = 0
        self._stale_coordinator = 1
        self._outage_ms = 0
        self._failure: InvariantError | None = None

    @property
    def connected(self) -> Sequence["MemberProcess"]:
        """The members."""
        raise NotImplementedError

    def coordinator_lost(self) -> None:
        """Record that the coordinator disappeared without notice."""
        raise NotImplementedError

    def make_shard(self, partition: int) -> GroupCoordinatorShard:
        """Make the state machine of one partition of `__consumer_offsets`."""
        raise NotImplementedError

    def answered(self, request: Request[Any], response: Response) -> None:
        """Record a response that is being sent."""
        raise NotImplementedError

    def happened(self) -> None:
        """Check what must hold at every step."""
        raise NotImplementedError

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

    def new_topic_id(self, name: str) -> UUID:
        """Return the id of a topic that is about to be created."""
        return uuid5(NAMESPACE_OID, f"{self.seed} {name} {self._new_id()}")

    def _new_id(self) -> str:
        self._ids += 1
        return str(self._ids)

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

    def disturb(self, duration_ms: int) -> None:
        """Note that for so long, and for what follows from it, no member can be blamed."""
        until_ms = self.timeline.now_ms() + duration_ms + AFTERMATH_MS
        self._disturbed_until_ms = max(self._disturbed_until_ms, until_ms)

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
        for member in self.connected:
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
        for member in self.connected:
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

    def fail(self, invariant: int, what: str) -> NoReturn:
        # the broker goes on whatever happens to it: where this is caught, the next step raises it again
        self._failure = InvariantError(self.report(f"invariant {invariant}: {what}"))
        raise self._failure

    def report(self, what: str) -> str:
        """Tell what led to this, with the seed that leads to it again."""
        trace = "\n".join(self._trace)
        return f"{what}\nseed {self.seed}{' harsh' if self.harsh else ''}, what led to it:\n{trace}"
