"""Play one process that is a member: its machine, its engine, its caller's thread, and what they may suffer."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any, Final

from groupsdk.broker.coordinator.runtime.scheduler import Timer
from groupsdk.drivers.caller import CallerSide, Raise, Run
from groupsdk.errors import DisconnectedError, FencedInstanceIdError
from groupsdk.member import actions, events
from groupsdk.member.machine import MembershipMachine
from groupsdk.member.membership import Membership
from groupsdk.settings.config import MemberConfig
from groupsdk.testing.simulation.network import Connection
from groupsdk.testing.simulation.work import Work
from groupsdk.types import NO_GENERATION, GroupMembershipOperation
from groupsdk.wire.schema import Request, Response


if TYPE_CHECKING:
    from groupsdk.testing.simulation.world import World


_CLOCKS_APART_MS: Final = 7_919


@dataclass
class CallerBehavior:
    """How a caller behaves: it polls every `tick_ms`; callbacks raise or take `slow_ms` with these probabilities."""

    tick_ms: int = 1_000
    raises: float = 0.0
    slow: float = 0.0
    slow_ms: int = 0


class MemberProcess:
    """One process. It may be paused as a whole, cut off, killed; its caller may be slow or raise."""

    def __init__(
        self,
        world: "World[Any]",
        name: str,
        config: MemberConfig,
        behavior: CallerBehavior,
        make_membership: Callable[[Random], Membership],
    ) -> None:
        self.name = name
        self.config = config
        self.behavior = behavior
        self.alive = True
        self.cut_off = False
        self.replaced = False
        """Whether another process is about to take its place."""
        self.excused_until_ms = 0
        """Until when it is no wonder that nothing is heard of it."""
        self.late_until_ms = 0
        """Until when it is no wonder that its caller is late for a rebalance."""
        self.started_ms = self.polled_ms = self.called_ms = world.timeline.now_ms()
        """When its caller polled last, and when its machine had something else to call last."""
        self.ahead_ms = _CLOCKS_APART_MS * (1 + len(name) + sum(name.encode()))
        """How far its own clock is ahead of the world's: no two processes have the same time."""
        self._world = world
        self._timeline = world.timeline
        self._random = world.random
        self.machine = MembershipMachine(make_membership(Random(self._random.random())))
        self.view = self.machine.view
        """What the engine has shown last."""
        self.work = Work(config.group_id, config.group_instance_id, self._random, self.feed)
        self._side = CallerSide()
        self._connection: Connection | None = None
        self._connections = 0
        self._timer: Timer | None = None
        self._wake_at_ms: int | None = None
        self._lookup: Timer | None = None
        self._paused = False
        self._unreachable: set[int] = set()
        self._waiting: list[events.Event] = []
        self._busy = False
        self._step_planned = False
        self.stuck_until_ms = 0
        self._timeline.after(0, self._tick)

    def believes(self) -> frozenset[Any]:
        """Return what the process would work on if it ran now, going by its own clock."""
        raise NotImplementedError

    @property
    def clock_ms(self) -> int:
        """The time on its own clock, in milliseconds."""
        return self._timeline.now_ms() + self.ahead_ms

    @property
    def active(self) -> bool:
        """Whether it is alive, and believes in a generation that it has joined."""
        view = self.view
        return self.alive and not view.joining and view.believes_at(self.clock_ms)

    @property
    def fenced(self) -> bool:
        """Whether another process has taken its `group.instance.id`."""
        failure = self.view.failure
        return failure is not None and isinstance(failure.error, FencedInstanceIdError)

    def pause(self, duration_ms: int) -> None:
        """Stop the whole process for a time; it gets what happened meanwhile afterwards."""
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
        """End the process without leaving the group."""
        self.alive = False
        if self._connection is not None:
            self._connection.close()

    def break_connection(self, node_id: int | None = None) -> None:
        """Break the connection if it is to this node; None for any node."""
        if self._connection is not None and node_id in (None, self._connection.node_id):
            self._connection.break_off()

    def cut_from(self, node_id: int, duration_ms: int) -> None:
        """Drop everything that it and one node send each other for a time."""
        self._unreachable.add(node_id)
        if self._connection is not None and self._connection.node_id == node_id:
            self._connection.blackhole = True
        self._timeline.after(duration_ms, lambda: self._unreachable.discard(node_id))

    def cut(self, duration_ms: int) -> None:
        """Drop everything that it sends or is sent for a time."""
        self.cut_off = True
        if self._connection is not None:
            self._connection.blackhole = True
        self._timeline.after(duration_ms, self._mend)

    def _mend(self) -> None:
        self.cut_off = False

    def stall(self, duration_ms: int) -> None:
        """Keep the caller from polling for a time; the machine continues."""
        self.stuck_until_ms = max(self.stuck_until_ms, self._timeline.now_ms() + duration_ms)
        self.late_until_ms = max(self.late_until_ms, self.stuck_until_ms + 25_000)

    def step_clock(self, by_ms: int) -> None:
        """Advance its clock, as on a machine that slept."""
        self.ahead_ms += by_ms
        self._wake(self._wake_at_ms)

    def rejoin(self) -> None:
        """Request a rebalance."""
        self._post(events.RejoinRequested("the metadata changed"))

    def leave(self) -> None:
        """Leave the group, unless a callback is running."""
        if not self._busy:
            self._gives_up()
            self._post(events.LeaveRequested("enough for now"))

    def close(self, operation: GroupMembershipOperation) -> None:
        """Close the member with this `operation`: leave the group or stay in it."""
        self._gives_up()
        self._post(events.CloseRequested(operation, 3_000, "enough"))

    def _gives_up(self) -> None:
        """Run `on_leave_prepare`."""
        raise NotImplementedError

    def _lost(self) -> None:
        """Record that the machine lost its generation, before the caller learns of it."""

    def _perform(self, call: actions.Call, raises: bool, duration_ms: int) -> None:
        """Run the user code for a call, and `_finish` it after `duration_ms`."""
        raise NotImplementedError

    def _answer(self, call: actions.Call) -> events.CallerEvent:
        """Return the event to post after the user code has run."""
        raise NotImplementedError

    def feed(self, event: events.Event) -> None:
        """Give the machine an event and carry out its actions; a paused process gets it later, a dead one never."""
        if not self.alive:
            return
        if self._paused:
            self._waiting.append(event)
            return
        for action in self.machine.handle(event, self.clock_ms):
            self._do(action)
        before, self.view = self.view, self.machine.view
        view = self.view
        if view.call is not before.call:
            self.called_ms = self._timeline.now_ms()
        if view.generation.is_reset and not before.generation.is_reset:
            self._lost()
        if (view.call is not None or view.failure is not None) and not self._step_planned:
            self._step_planned = True
            self._timeline.after(self._random.choice((0, 0, 1, 5)), self._planned_step)

    def _do(self, action: actions.Action) -> None:
        match action:
            case actions.FindCoordinator():
                self._lookup = self._timeline.after(self._random.choice((1, 5, 20)), self._look_up)
            case actions.StopLooking():
                self._stop_looking()
            case actions.Send(request_id, node, request):
                connection = self._connected_to(node)
                connection.send(request_id, self._as_sent(request, connection.number))
            case actions.Disconnect():
                if self._connection is not None:
                    self._connection.close()
                    self._connection = None
            case actions.Wake(at_ms):
                self._wake(at_ms)
            case actions.AnswerCaller(caller_request_id, answer):
                self.work.told(caller_request_id, answer)
            case actions.Stop():
                self.kill()

    def _wake(self, at_ms: int | None) -> None:
        self._wake_at_ms = at_ms
        if self._timer is not None:
            self._timer.cancel()
        if at_ms is not None:
            due_ms = max(at_ms - self.ahead_ms, self._timeline.now_ms())
            self._timer = self._timeline.at(due_ms, self._timer_fired)

    def _timer_fired(self) -> None:
        self._wake_at_ms = None
        self.feed(events.TimerFired())

    def _connected_to(self, node: actions.Node) -> Connection:
        connection = self._connection
        if connection is None or not connection.open or connection.node_id != node[0]:
            connection = self._connect(node)
        return connection

    def _as_sent(self, request: Request[Any], connection: int) -> Request[Any]:
        """Return a request as it is sent over a connection, the so manyth of the process."""
        return request

    def _connect(self, node: actions.Node) -> Connection:
        self._connections += 1
        connection = Connection(
            timeline=self._timeline,
            random=self._random,
            process=self._world.process,
            node_id=node.node_id,
            client_id=self.name,
            on_response=self._on_response,
            on_broken=lambda: self._on_broken(connection),
            number=self._connections,
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
            self.feed(events.CoordinatorFound(actions.Node(node_id, f"broker-{node_id}", 9092)))

    def _tick(self) -> None:
        """Poll now and then, as a worker does between two pieces of work."""
        if not self.alive or self._paused:
            return
        if not self._absent:
            self._post(events.Polled())
            self._step()
            if self.believes():
                self.work.step(self.view.generation)
        self._timeline.after(self.behavior.tick_ms, self._tick)

    @property
    def _absent(self) -> bool:
        return self._busy or self._timeline.now_ms() < self.stuck_until_ms

    def _planned_step(self) -> None:
        self._step_planned = False
        self._step()

    def _step(self) -> None:
        if not self.alive or self._paused or self._absent:
            return
        view = self.view
        step = self._side.step(replace(view, handled=self._side.posted_count), self.clock_ms)
        if isinstance(step, Raise):
            if step.report is not None:
                self._world.note(f"{self.name}: raised {step.error}")
                self._post(step.report)
        elif isinstance(step, Run):
            self._run(step.call)

    def _run(self, call: actions.Call) -> None:
        raises = self._random.random() < self.behavior.raises
        slow = self._random.random() < self.behavior.slow
        self._world.note(
            f"{self.name}: {type(call).__name__} {call.generation.generation_id}"
            f"{' slow' if slow else ''}{' raises' if raises else ''}"
        )
        self._busy = True
        if slow or raises:
            self.late_until_ms = self._timeline.now_ms() + self.behavior.slow_ms + 25_000
        duration_ms = self.behavior.slow_ms if slow else self._random.choice((0, 1, 20))
        self._perform(call, raises, duration_ms)
        self._world.happened()

    def _later(self, duration_ms: int, action: Callable[[], None]) -> None:
        def run() -> None:
            if self._paused:
                self._later(10, action)
            elif self.alive:
                action()

        self._timeline.after(duration_ms, run)

    def _finish(self, call: actions.Call, raises: bool) -> None:
        self._busy = False
        if raises:
            if not isinstance(call, actions.CompleteJoin):
                self._side.answered(call)
            self._post(events.CallFailed(call.call_id, "RuntimeError"))
            return
        self._side.answered(call)
        self._post(self._answer(call))
        self._step()

    def _post(self, event: events.CallerEvent) -> None:
        if isinstance(
            event,
            events.Polled | events.JoinPrepared | events.GroupAssigned | events.JoinDelivered,
        ):
            self.polled_ms = self._timeline.now_ms()
        self._side.posted()
        self.feed(event)

    @property
    def idle(self) -> bool:
        """Whether it was never started, or is over."""
        return not self.alive or self.view.generation == NO_GENERATION
