"""Play a process that shares tasks by the classic protocol: what its user's code is told, works on and plans."""

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from typing_extensions import override

from groupsdk.member import events
from groupsdk.member.actions import AssignGroup, Call, CompleteJoin, PrepareJoin
from groupsdk.member.classic.membership import ClassicMembership
from groupsdk.settings.config import MemberConfig
from groupsdk.testing.simulation.member_process import CallerBehavior, MemberProcess
from groupsdk.types import Generation, ProtocolMetadata


if TYPE_CHECKING:
    from groupsdk.testing.simulation.classic_world import ClassicWorld


PROTOCOL = "even"
TOPIC = "work"
TASKS = tuple(range(5))


@dataclass
class Callbacks:
    """The callbacks that a member ran, checked against invariant 9.

    `prepared`: whether `on_join_prepare` ran for the current rebalance. `taken`: the generation and assignment of the last
    successful `on_join_complete`, `raised` those of one that raised. `log`: the calls so far, for the error.
    """

    prepared: bool = False
    lost: bool = False
    """Whether the member was expelled since `on_join_prepare` was called."""
    taken: tuple[Generation, bytes] | None = None
    raised: tuple[Generation, bytes] | None = None
    log: list[str] = field(default_factory=list)

    def on_prepare(self, generation: Generation) -> None:
        """Record an `on_join_prepare`."""
        lost = generation.generation_id == -1
        if self.prepared and not lost:
            raise AssertionError(
                f"invariant 9: on_join_prepare twice for one rebalance: {self.log}"
            )
        self.prepared, self.lost, self.taken, self.raised = True, False, None, None
        self.log.append(f"prepare {generation.generation_id}")

    def on_complete(self, generation: Generation, assignment: bytes, *, raises: bool) -> None:
        """Record an `on_join_complete`, which perhaps raised."""
        delivered = (generation, assignment)
        self.log.append(f"complete {generation.generation_id}{' raises' if raises else ''}")
        if self.raised is not None and self.raised[0] == generation and self.raised != delivered:
            raise AssertionError(f"invariant 9: redelivered with other bytes: {self.log}")
        if self.lost or not self.prepared:
            raise AssertionError(f"invariant 9: on_join_complete without prepare: {self.log}")
        if raises:
            self.raised = delivered
        else:
            self.prepared, self.taken, self.raised = False, delivered, None


class Member(MemberProcess):
    """One process with tasks."""

    def __init__(
        self, world: "ClassicWorld", name: str, config: MemberConfig, behavior: CallerBehavior
    ) -> None:
        self.callbacks = Callbacks()
        self._tasks_world = world
        super().__init__(world, name, config, behavior, partial(ClassicMembership, config))

    @override
    def believes(self) -> frozenset[int]:
        return frozenset(self.tasks())

    def tasks(self) -> bytes:
        """Return the same, as its assignment has it."""
        taken, view = self.callbacks.taken, self.view
        if not self.alive or taken is None or not view.believes_at(self.clock_ms):
            return b""
        generation, assignment = taken
        return assignment if generation == view.generation else b""

    @override
    def _gives_up(self) -> None:
        self.callbacks.taken = None

    @override
    def _lost(self) -> None:
        self.callbacks.lost = True

    @override
    def _perform(self, call: Call, raises: bool, duration_ms: int) -> None:
        if isinstance(call, PrepareJoin) and call.run_callback:
            self.callbacks.on_prepare(call.generation)
        elif isinstance(call, CompleteJoin):
            self._tasks_world.delivered(self, call.generation)
            self.callbacks.on_complete(call.generation, call.assignment, raises=raises)
            if not raises:
                self.work.assigned((TOPIC, task) for task in call.assignment)
        self._later(duration_ms, lambda: self._finish(call, raises))

    @override
    def _answer(self, call: Call) -> events.CallerEvent:
        match call:
            case PrepareJoin():
                offer = (ProtocolMetadata(PROTOCOL, self.name.encode()),)
                return events.JoinPrepared(call.call_id, "work", offer)
            case AssignGroup():
                plan = share_out(call.generation.generation_id, list(call.members))
                return events.GroupAssigned(call.call_id, plan)
            case CompleteJoin():
                return events.JoinDelivered(call.call_id)


def share_out(generation: int, members: list[str]) -> dict[str, bytes]:
    """Share the tasks out so that as many as possible change hands in each generation."""
    plan: dict[str, bytearray] = {member: bytearray() for member in members}
    for task in TASKS:
        plan[members[(task + generation) % len(members)]].append(task)
    return {member: bytes(tasks) for member, tasks in plan.items()}
