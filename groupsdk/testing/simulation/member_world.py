"""What a run has whose members are processes with our own machines: start, replace, blame, and wait until all is well."""

from collections.abc import Sequence
from typing import Generic, TypeVar

from typing_extensions import override

from groupsdk.broker.log.errors import StorageError
from groupsdk.testing.simulation.broker_world import AFTERMATH_MS, BrokerWorld
from groupsdk.testing.simulation.member_process import MemberProcess
from groupsdk.types import GroupMembershipOperation


MemberT = TypeVar("MemberT", bound=MemberProcess)


class MemberWorld(BrokerWorld, Generic[MemberT]):
    """One run with members."""

    settle_step_ms = 5_000
    """How long to wait at a time for all to be well."""

    def __init__(self, seed: int, *, harsh: bool = False) -> None:
        super().__init__(seed, harsh=harsh)
        self.members: list[MemberT] = []
        self.starting = 0
        """How many processes are about to start."""

    def start_like(self, member: MemberT) -> None:
        """Start a process in the place of one that is over, with the same instance id."""
        raise NotImplementedError

    def not_converged(self) -> tuple[int, str] | None:
        """Return the invariant that is broken if the run ends now, and why; None if the group has converged."""
        raise NotImplementedError

    def check_log(self) -> None:
        """Replay the log from its start and compare."""
        raise NotImplementedError

    def closing(self, member: MemberT, operation: GroupMembershipOperation) -> None:
        """Take note that a member is about to close."""

    def pausing(self, duration_ms: int) -> None:
        """Take note that some process stands still for so long."""

    @property
    def is_void(self) -> bool:
        """Whether the run is over by rule, though its time is not."""
        return False

    @property
    @override
    def connected(self) -> Sequence[MemberT]:
        return self.members

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
