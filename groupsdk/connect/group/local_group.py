"""The membership of a standalone worker, without a broker."""

import threading
from collections.abc import Callable

from groupsdk.connect.group.coordinator import MembershipView, RebalanceListener
from groupsdk.connect.group.work import NO_WORK
from groupsdk.connect.store.config_backing_store import ClusterConfigState
from groupsdk.limits import MAX_INT64
from groupsdk.types import Generation
from groupsdk.wire.connect_protocol import ConnectAssignment


_MEMBER = "standalone"


class LocalGroup:
    """A group of one that owns all configured work (`WorkerMembership`, which documents its methods).

    `first_generation` returns one greater than any before, so that fencing tokens grow.
    """

    margin_ms = 0

    def __init__(
        self,
        listener: RebalanceListener,
        configs: Callable[[], ClusterConfigState],
        first_generation: Callable[[], int] = lambda: 1,
    ) -> None:
        self._listener = listener
        self._configs = configs
        self._first_generation = first_generation
        self._generation = -1
        self._held = NO_WORK
        self._rejoin = threading.Event()
        self._rejoin.set()
        self._woken = threading.Event()

    def poll(self, timeout: float = 0.0) -> bool:
        """Assign everything if a rebalance is due; otherwise wait for `wakeup` or `request_rejoin`."""
        if not self._rejoin.is_set():
            self._woken.wait(timeout)
        self._woken.clear()
        if self._rejoin.is_set():
            self._rejoin.clear()
            self._rebalance()
        return True

    def _rebalance(self) -> None:
        joining = self._generation == -1
        self._generation = self._first_generation() if joining else self._generation + 1
        configs = self._configs()
        work = configs.work()
        gone = self._held.minus(work)
        if gone:
            self._listener.on_revoked(gone)
        self._held = work
        assignment = ConnectAssignment(
            leader=_MEMBER, offset=configs.offset, connectors=work.connectors, tasks=work.tasks
        )
        self._listener.on_assigned(assignment, self._generation)

    def wakeup(self) -> None:
        self._woken.set()

    def request_rejoin(self, reason: str) -> None:
        self._rejoin.set()
        self._woken.set()

    def revoke_everything(self, why: str) -> None:
        held, self._held = self._held, NO_WORK
        if held:
            self._listener.on_revoked(held)

    def leave_group(self, reason: str) -> None:
        self.revoke_everything(reason)
        self._rejoin.set()

    def holds_for(self, margin_ms: int) -> bool:
        return True

    def held_until_ms(self) -> int:
        return MAX_INT64

    def out_of_touch(self) -> None:
        return

    def rebalance_metrics(self) -> dict[str, float | str]:
        return {}

    def view(self) -> MembershipView:
        """Return that this worker leads, which it does from its first generation on; requests are not forwarded."""
        if self._generation == -1:
            return MembershipView(None)
        return MembershipView(Generation(self._generation, _MEMBER, "default"), "", is_leader=True)

    @property
    def assignments(self) -> None:
        return

    @property
    def protocol(self) -> str:
        return ""

    def close(self, timeout: float = 30.0) -> None:
        self.revoke_everything("the worker ends")
        self._generation = -1
