"""Play one process that is a member: its machine, its caller's thread, and what both may suffer."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Protocol

from groupsdk.broker.runtime.scheduler import Timer
from groupsdk.config import MemberConfig
from groupsdk.drivers.caller import CallerSide, Raise, Run
from groupsdk.errors import DisconnectedError, FencedInstanceIdError
from groupsdk.membership import events
from groupsdk.membership.actions import (
    Action,
    AnswerCaller,
    AssignGroup,
    Call,
    CompleteJoin,
    Disconnect,
    FindCoordinator,
    Node,
    PrepareJoin,
    Send,
    Stop,
    StopLooking,
    Wake,
)
from groupsdk.membership.machine import MembershipMachine
from groupsdk.testing.simulation.callbacks import Callbacks
from groupsdk.testing.simulation.network import Connection
from groupsdk.testing.simulation.process import BrokerProcess
from groupsdk.testing.simulation.timeline import Timeline
from groupsdk.testing.simulation.work import Work
from groupsdk.types import NO_GENERATION, GroupMembershipOperation, ProtocolMetadata
from groupsdk.wire.schema import Response


PROTOCOL = "even"
TASKS = tuple(range(5))


@dataclass
class Temper:
    """What a caller is like: how long its callbacks take, and how often they fail."""

    tick_ms: int = 1_000
    raises: float = 0.0
    slow: float = 0.0
    slow_ms: int = 0


class World(Protocol):
    """What a member needs to be told by the world around it."""

    timeline: Timeline
    random: Random
    harsh: bool

    process: BrokerProcess

    def coordinator(self) -> int | None:
        """Return what a lookup finds; None: it has to be repeated."""
        ...

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        ...

    def happened(self) -> None:
        """Check what must hold at every step."""
        ...


class Member:
    """One process. It may be paused as a whole, cut off, killed; its caller may be slow or raise."""

    def __init__(self, world: World, name: str, config: MemberConfig, temper: Temper) -> None:
        self.name = name
        self.config = config
        self.temper = temper
        self.alive = True
        self.cut_off = False
        self.replaced = False
        """Whether another process is about to take its place."""
        self.callbacks = Callbacks()
        self.excused_until_ms = 0
        """Until when it is no wonder that nothing is heard of it."""
        self.late_until_ms = 0
        """Until when it is no wonder that its caller is late for a rebalance."""
        self.polled_ms = world.timeline.now_ms()
        self._world = world
        self._timeline = world.timeline
        self._random = world.random
        self.machine = MembershipMachine(config, Random(self._random.random()))
        self.view = self.machine.view
        """What the engine has shown last."""
        self.work = Work("g", config.group_instance_id, self._random, self.feed)
        self._side = CallerSide()
        self._connection: Connection | None = None
        self._timer: Timer | None = None
        self._lookup: Timer | None = None
        self._paused = False
        self._unreachable: set[int] = set()
        self._waiting: list[events.Event] = []
        self._busy = False
        self._step_planned = False
        self.stuck_until_ms = 0
        self._timeline.after(0, self._tick)

    # What the user's code acts on.

    def believes(self) -> frozenset[int]:
        """Return the tasks that the process would work on if it ran now, going by its own clock."""
        return frozenset(self.tasks(self._timeline.now_ms()))

    def tasks(self, now_ms: int) -> bytes:
        """Return the same, as its assignment has it."""
        taken, view = self.callbacks.taken, self.view
        if not self.alive or taken is None or not view.believes_at(now_ms):
            return b""
        generation, assignment = taken
        return assignment if generation == view.generation else b""

    @property
    def active(self) -> bool:
        view = self.view
        return self.alive and not view.joining and view.believes_at(self._timeline.now_ms())

    @property
    def fenced(self) -> bool:
        failure = self.view.failure
        return failure is not None and isinstance(failure.error, FencedInstanceIdError)

    # What may happen to it.

    def pause(self, duration_ms: int) -> None:
        if self._paused or not self.alive:
            return
        self._paused = True
        self._timeline.after(duration_ms, self._resume)

    def _resume(self) -> None:
        self._paused = False
        if self._random.random() < 0.5:
            self._step()  # the caller's thread runs first, on what it knew before
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            self.feed(event)
            self._world.happened()
        self._tick()

    def kill(self) -> None:
        self.alive = False
        if self._connection is not None:
            self._connection.close()

    def break_connection(self, node_id: int | None = None) -> None:
        """Break the connection to a node, or to any."""
        if self._connection is not None and node_id in (None, self._connection.node_id):
            self._connection.break_off()

    def cut_from(self, node_id: int, duration_ms: int) -> None:
        """Let everything between it and one node vanish for so long."""
        self._unreachable.add(node_id)
        if self._connection is not None and self._connection.node_id == node_id:
            self._connection.blackhole = True
        self._timeline.after(duration_ms, lambda: self._unreachable.discard(node_id))

    def cut(self, duration_ms: int) -> None:
        """Let everything that it sends and is sent vanish for so long."""
        self.cut_off = True
        if self._connection is not None:
            self._connection.blackhole = True
        self._timeline.after(duration_ms, self._mend)

    def _mend(self) -> None:
        self.cut_off = False

    def stall(self, duration_ms: int) -> None:
        """Let the caller not come back for so long; the machine runs on."""
        self.stuck_until_ms = max(self.stuck_until_ms, self._timeline.now_ms() + duration_ms)
        self.late_until_ms = max(self.late_until_ms, self.stuck_until_ms + 25_000)

    def rejoin(self) -> None:
        self._post(events.RejoinRequested("the metadata changed"))

    def leave(self) -> None:
        if not self._busy:
            self.callbacks.taken = None  # on_leave_prepare
            self._post(events.LeaveRequested("enough for now"))

    def close(self, operation: GroupMembershipOperation) -> None:
        self.callbacks.taken = None
        self._post(events.CloseRequested(operation, 3_000, "enough"))

    # The engine.

    def feed(self, event: events.Event) -> None:
        if not self.alive:
            return
        if self._paused:
            self._waiting.append(event)
            return
        for action in self.machine.handle(event, self._timeline.now_ms()):
            self._do(action)
        before, self.view = self.view, self.machine.view
        view = self.view
        if view.generation.is_reset and not before.generation.is_reset:
            self.callbacks.lost = True
        if (view.call is not None or view.failure is not None) and not self._step_planned:
            self._step_planned = True
            self._timeline.after(self._random.choice((0, 0, 1, 5)), self._planned_step)

    def _do(self, action: Action) -> None:
        match action:
            case FindCoordinator():
                self._lookup = self._timeline.after(self._random.choice((1, 5, 20)), self._look_up)
            case StopLooking():
                self._stop_looking()
            case Send(request_id, node, request):
                self._connected_to(node).send(request_id, request)
            case Disconnect():
                if self._connection is not None:
                    self._connection.close()
                    self._connection = None
            case Wake(at_ms):
                self._wake(at_ms)
            case AnswerCaller(caller_request_id, answer):
                self.work.told(caller_request_id, answer)
            case Stop():
                self.kill()

    def _wake(self, at_ms: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if at_ms is not None:
            self._timer = self._timeline.at(at_ms, lambda: self.feed(events.TimerFired()))

    def _connected_to(self, node: Node) -> Connection:
        connection = self._connection
        if connection is None or not connection.open or connection.node_id != node[0]:
            connection = self._connect(node)
        return connection

    def _connect(self, node: Node) -> Connection:
        connection = Connection(
            self._timeline,
            self._random,
            self._world.process,
            node.node_id,
            self.name,
            self._on_response,
            lambda: self._on_broken(connection),
            harsh=self._world.harsh,
        )
        connection.blackhole = self.cut_off or node.node_id in self._unreachable
        self._connection = connection
        if not self._world.process.is_up(node.node_id):
            connection.break_off()
        return connection

    def _on_response(self, request_id: int, response: Response) -> None:
        self.feed(events.ResponseReceived(request_id, response))

    def _on_broken(self, connection: Connection) -> None:
        if self._connection is connection:
            self._connection = None
            self.feed(events.Disconnected(DisconnectedError("broken")))

    def _stop_looking(self) -> None:
        if self._lookup is not None:
            self._lookup.cancel()

    def _look_up(self) -> None:
        node_id = None if self.cut_off else self._world.coordinator()
        if not self.alive:
            return
        if node_id is None:
            self._lookup = self._timeline.after(200, self._look_up)
            self.feed(events.LookupDelayed(DisconnectedError("no coordinator yet")))
        else:
            self.feed(events.CoordinatorFound(Node(node_id, f"broker-{node_id}", 9092)))

    # The caller's thread.

    def _tick(self) -> None:
        """Poll now and then, as a worker does between two pieces of work."""
        if not self.alive or self._paused:
            return
        if not self._absent:
            self._post(events.Polled())
            self._step()
            if self.believes():
                self.work.step()
        self._timeline.after(self.temper.tick_ms, self._tick)

    @property
    def _absent(self) -> bool:
        return self._busy or self._timeline.now_ms() < self.stuck_until_ms

    def _planned_step(self) -> None:
        self._step_planned = False
        self._step()

    def _step(self) -> None:
        if not self.alive or self._paused or self._absent:
            return
        now_ms = self._timeline.now_ms()
        view = self.view
        step = self._side.step(replace(view, handled=self._side.posted_count), now_ms)
        if isinstance(step, Raise):
            if step.report is not None:
                self._world.note(f"{self.name}: raised {step.error}")
                self._post(step.report)
        elif isinstance(step, Run):
            self._run(step.call)

    def _run(self, call: Call) -> None:
        raises = self._random.random() < self.temper.raises
        slow = self._random.random() < self.temper.slow
        if isinstance(call, PrepareJoin) and call.run_callback:
            self.callbacks.on_prepare(call.generation)
        elif isinstance(call, CompleteJoin):
            self.callbacks.on_complete(call.generation, call.assignment, raises=raises)
            if not raises:
                self.work.assigned(call.generation, call.assignment)
        self._world.note(
            f"{self.name}: {type(call).__name__} {call.generation.generation_id}"
            f"{' slow' if slow else ''}{' raises' if raises else ''}"
        )
        self._busy = True
        self._world.happened()
        if slow or raises:
            self.late_until_ms = self._timeline.now_ms() + self.temper.slow_ms + 25_000
        duration_ms = self.temper.slow_ms if slow else self._random.choice((0, 1, 20))
        self._later(duration_ms, lambda: self._finish(call, raises))

    def _later(self, duration_ms: int, action: Callable[[], None]) -> None:
        def run() -> None:
            if self._paused:
                self._later(10, action)
            elif self.alive:
                action()

        self._timeline.after(duration_ms, run)

    def _finish(self, call: Call, raises: bool) -> None:
        self._busy = False
        if raises:
            if not isinstance(call, CompleteJoin):
                self._side.answered(call)
            self._post(events.CallFailed(call.call_id, "RuntimeError"))
            return
        self._side.answered(call)
        match call:
            case PrepareJoin():
                offer = (ProtocolMetadata(PROTOCOL, self.name.encode()),)
                self._post(events.JoinPrepared(call.call_id, "work", offer))
            case AssignGroup():
                plan = share_out(call.generation.generation_id, list(call.members))
                self._post(events.GroupAssigned(call.call_id, plan))
            case CompleteJoin():
                self._post(events.JoinDelivered(call.call_id))
        self._post(events.Polled())
        self._step()

    def _post(self, event: events.CallerEvent) -> None:
        if isinstance(event, events.Polled):
            self.polled_ms = self._timeline.now_ms()
        self._side.posted()
        self.feed(event)

    @property
    def idle(self) -> bool:
        """Whether it was never started, or is over."""
        return not self.alive or self.view.generation == NO_GENERATION


def share_out(generation: int, members: list[str]) -> dict[str, bytes]:
    """Share the tasks out so that as many as possible change hands in each generation."""
    plan: dict[str, bytearray] = {member: bytearray() for member in members}
    for task in TASKS:
        plan[members[(task + generation) % len(members)]].append(task)
    return {member: bytes(tasks) for member, tasks in plan.items()}
