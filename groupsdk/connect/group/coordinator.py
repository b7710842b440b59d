"""The group membership of a Connect worker: `ConnectCoordinator` (Kafka's `WorkerCoordinator`)."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from groupsdk.clock import Clock, SystemClock
from groupsdk.connect.group.assignors import EagerAssignor, IncrementalCooperativeAssignor
from groupsdk.connect.group.work import NO_WORK, ClusterAssignment, StandbyRecord, Work
from groupsdk.connect.store.config_backing_store import ClusterConfigState
from groupsdk.drivers.threads.member import AbstractCoordinator
from groupsdk.errors import ConfigError
from groupsdk.lazy_imports import override
from groupsdk.settings.config import MemberConfig
from groupsdk.snapshot import log_member
from groupsdk.types import Generation, GroupMembers, ProtocolMetadata
from groupsdk.wire.connect_protocol import (
    CONFIG_MISMATCH,
    CONNECT_PROTOCOL_TYPE,
    ConnectAssignment,
    WorkerState,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)


logger = logging.getLogger(__name__)

VERSIONS: Final = {"default": 0, "compatible": 1, "sessioned": 2}
MODES: Final = {
    "eager": ("default",),
    "compatible": ("compatible", "default"),
    "sessioned": ("sessioned", "compatible", "default"),
}
"""`connect.protocol` to what a worker offers, by preference."""

_MARGIN_MS = 5_000


@dataclass(frozen=True, slots=True)
class MembershipView:
    """The place of a worker in its group at one moment."""

    generation: Generation | None
    """The generation and member id while the worker is a stable member; otherwise None."""
    leader_url: str | None = None
    """The leader's URL; "" if it serves no HTTP, None while the leader is not known."""
    is_leader: bool = False


class RebalanceListener(Protocol):
    """Carries out assignments. Called within `poll` and `close`, on the thread that calls these."""

    def on_assigned(self, assignment: ConnectAssignment, generation: int) -> None:
        """Receive the whole assignment: kept, new and revoked work.

        If work is revoked, or `delay_ms` is not 0, a rebalance has to be requested: see `ConnectCoordinator`.
        """
        ...

    def on_revoked(self, work: Work) -> None:
        """Stop this work, and return when it has stopped."""
        ...


class ConnectCoordinator(AbstractCoordinator):
    """The group membership of one worker: its metadata, and the handling of assignments.

    Nothing of the work runs here; the listener does it. Without the group no work runs: when the group's
    coordinator stays unknown for longer than the heartbeat interval, everything is revoked, so that it has
    stopped before the group can give it to others. `before` returns what was given out so far, for a worker that becomes the leader;
    without it, the new leader assigns the work of a lost one at once, as Kafka's does.

    The caller requests the rebalances that move work on, or work stays unassigned. Kafka: `DistributedHerder`.

    - After an assignment that revokes work, once that work has stopped: others get it in the next round.
    - `delay_ms` after an assignment that has one: until then the work of a lost worker is held back.

    `ConnectWorker` does both. Others can let `Herder` (`groupsdk.connect.group.herder`) decide when::

        class OwnWorker:
            def __init__(self, settings, configs, max_delay_ms):
                self.running = Work()
                self._configs, self._herder, self._clock = configs, Herder(), SystemClock()
                self.group = ConnectCoordinator(
                    settings, listener=self, configs=configs, max_delay_ms=max_delay_ms
                )

            def on_assigned(self, assignment, generation):
                self._herder.assigned(assignment, generation, self._clock.now_ms())

            def on_revoked(self, work):
                self.running = self.running.minus(work)
                self._herder.revoked(work)

            def poll(self):
                self.group.poll(0.05)
                while step := self._herder.step(self._configs(), self._clock.now_ms()):
                    match step:
                        case ReadConfigs():  # `configs` always returns the newest here
                            self._herder.configs_read(True)
                        case Rejoin(reason):
                            self.group.request_rejoin(reason)
                        case Reconcile(work):
                            self.running = work
    """

    protocol_type = CONNECT_PROTOCOL_TYPE

    def __init__(
        self,
        settings: Mapping[str, Any] | MemberConfig,
        /,
        *,
        listener: RebalanceListener,
        configs: Callable[[], ClusterConfigState],
        mode: str = "sessioned",
        max_delay_ms: int = 300_000,
        url: str = "",
        before: Callable[[], Work] | None = None,
        standbys: Callable[[], StandbyRecord] | None = None,
        clock: Clock | None = None,
    ) -> None:
        config = MemberConfig.given(settings, {})
        if config.group_instance_id is not None:
            raise ConfigError(
                "group.instance.id is not supported: a group of Connect workers has no static members"
            )
        if mode not in MODES:
            raise ConfigError(f"connect.protocol must be one of {', '.join(MODES)}, not {mode!r}")
        self._config = config
        self._time = clock or SystemClock()
        self._listener = listener
        self._configs = configs
        self._offered = MODES[mode]
        self._chosen = self._offered[0]
        self._max_delay_ms = max_delay_ms
        self._url = url
        self._before = before
        self._standbys = standbys
        self._assignments: Mapping[str, Work] | None = None
        self._incremental = IncrementalCooperativeAssignor(max_delay_ms)
        self._snapshot = ClusterConfigState()
        self._assignment: ConnectAssignment | None = None
        self._completed_generation = -1
        self._unknown_since_ms = self._time.now_ms()
        self._nudged = False
        self._slice_ms = max(20, min(500, config.heartbeat_interval_ms // 4))
        self.margin_ms = _margin_ms(config)
        """How long before the end of the session work is given up, so that it has stopped by then."""
        super().__init__(config, clock=clock)

    @override
    def metadata(self) -> list[ProtocolMetadata]:
        self._snapshot = self._configs()
        held = self._assignment
        held = None if held is None or held.failed else held
        state = WorkerState(self._url, self._snapshot.offset, held)
        return [
            ProtocolMetadata(name, encode_metadata(state, VERSIONS[name])) for name in self._offered
        ]

    @override
    def on_join_prepare(self, generation: int, member_id: str) -> None:
        if generation == -1 or not member_id:
            self.revoke_everything("out of the group")
        elif self._chosen == "default":
            self.revoke_everything("an eager rebalance")

    @override
    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> dict[str, bytes]:
        version = VERSIONS[protocol]
        states = {member: decode_metadata(data) for member, data in members.items()}
        offset = max(state.offset for state in states.values())
        if self._snapshot.offset < offset:
            self._snapshot = self._configs()
            # where it is ahead of all, all are to catch up with it
            offset = max(offset, self._snapshot.offset)
        head = ConnectAssignment(leader=leader_id, leader_url=states[leader_id].url, offset=offset)
        if self._snapshot.offset < offset:
            self._log(
                logging.INFO, "configurations at %d, others at %d", self._snapshot.offset, offset
            )
            failed = encode_assignment(replace(head, error=CONFIG_MISMATCH), version)
            return dict.fromkeys(members, failed)
        given = self._assign(protocol, states)
        self._assignments = given.held
        return {member: _encoded(head, given, member, version) for member in members}

    def _assign(self, protocol: str, states: Mapping[str, WorkerState]) -> ClusterAssignment:
        configured = self._snapshot.work()
        if protocol == "default":
            return EagerAssignor().assign(configured, states, self._snapshot.weights())
        return self._incremental.assign(
            configured,
            {member: _held(state) for member, state in states.items()},
            last_completed_generation=self._completed_generation,
            generation=self.generation().generation_id,
            now_ms=self._time.now_ms(),
            before=self._before() if self._before and self._incremental.is_new else None,
            weights=self._snapshot.weights(),
            standbys=None if self._standbys is None else self._standbys().standbys,
        )

    @override
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        new = decode_assignment(assignment)
        self._chosen = protocol
        if new.leader != member_id:
            # what it knew as a leader is of the past
            self._assignments = None
            self._incremental = IncrementalCooperativeAssignor(self._max_delay_ms)
        revoked = Work(new.revoked_connectors, new.revoked_tasks)
        if protocol != "default":
            old = self._assignment
            if revoked:
                self._listener.on_revoked(revoked)
            kept = NO_WORK if old is None else Work(old.connectors, old.tasks).minus(revoked)
            whole = kept.plus(Work(new.connectors, new.tasks))
            new = replace(new, connectors=whole.connectors, tasks=whole.tasks)
        # what was revoked is not reported as held, nor once more as revoked
        self._assignment = replace(new, revoked_connectors=(), revoked_tasks=(), delay_ms=0)
        self._completed_generation = generation
        self._listener.on_assigned(new, generation)
        self._nudged = True
        if new.failed:
            self.request_rejoin("the leader lacks configurations")

    @override
    def on_leave_prepare(self) -> None:
        self.revoke_everything("leaving the group")

    @override
    def poll(self, timeout: float = 0.0) -> bool:
        """Poll the membership; revoke everything if the group's coordinator is lost for too long.

        See `AbstractCoordinator.poll`. Returns early when an assignment came, and after `wakeup`.
        """
        now_ms = self._time.now_ms()
        until_ms = now_ms + int(timeout * 1000)
        while True:
            left_ms = max(0, min(self._slice_ms, until_ms - now_ms))
            active = super().poll(left_ms / 1000)
            now_ms = self._time.now_ms()
            self._revoke_what_is_lost(now_ms)
            if self._nudged or now_ms >= until_ms:
                self._nudged = False
                return active

    @override
    def wakeup(self) -> None:
        self._nudged = True
        super().wakeup()

    def holds_for(self, margin_ms: int) -> bool:
        return self._groupsdk_member.holds_for(margin_ms)

    def held_until_ms(self) -> int | None:
        return self._groupsdk_member.held_until_ms()

    def out_of_touch(self) -> str | None:
        snapshot = self.snapshot()
        if snapshot.coordinator is None:
            return snapshot.trouble or "the group coordinator is unknown"
        if not self.holds_for(self.margin_ms):
            return snapshot.trouble or "the group coordinator does not respond"
        return None

    def rebalance_metrics(self) -> dict[str, float | str]:
        measured, snapshot = self.metrics(), self.snapshot()
        if not measured:
            return {}
        # NaN before the first
        longest, average = (measured[f"rebalance-latency-{which}"] for which in ("max", "avg"))
        seconds = measured["last-rebalance-seconds-ago"]
        return {
            "connect-protocol": self.protocol,
            "leader-name": self.leader_url or "",
            "epoch": snapshot.generation.generation_id,
            "completed-rebalances-total": measured["rebalance-total"],
            "rebalancing": float(snapshot.rejoin_pending),
            "rebalance-max-time-ms": longest,
            "rebalance-avg-time-ms": average,
            "time-since-last-rebalance-ms": seconds * 1000 if seconds >= 0 else -1.0,
        }

    def _revoke_what_is_lost(self, now_ms: int) -> None:
        if not self.holds_work:
            self._unknown_since_ms = now_ms
            return
        if self._groupsdk_handle.view().coordinator is not None:
            self._unknown_since_ms = now_ms
        unknown_ms = now_ms - self._unknown_since_ms
        if unknown_ms >= self._config.heartbeat_interval_ms:
            why = f"the group coordinator has been unknown for {unknown_ms} ms"
        elif not self.holds_for(self.margin_ms):
            why = "the group coordinator does not respond, and the session is about to expire"
        else:
            return
        self.revoke_everything(why)
        self.request_rejoin(why)

    def revoke_everything(self, why: str) -> None:
        held, self._assignment = self._assignment, None
        if held is not None and not held.failed:
            work = Work(held.connectors, held.tasks)
            if work:
                self._log(logging.INFO, "revoking %d items: %s", len(work), why)
                self._listener.on_revoked(work)

    @property
    def holds_work(self) -> bool:
        """Whether the current assignment contains any work."""
        held = self._assignment
        return held is not None and bool(held.connectors or held.tasks)

    @property
    def assignments(self) -> Mapping[str, Work] | None:
        return self._assignments

    def view(self) -> MembershipView:
        held, generation = self._assignment, self._groupsdk_handle.generation_if_stable()
        if held is None or generation is None:
            return MembershipView(generation)
        return MembershipView(generation, held.leader_url, generation.member_id == held.leader)

    @property
    def is_leader(self) -> bool:
        return self.view().is_leader

    @property
    def protocol(self) -> str:
        """The protocol last chosen by the group; before that, the first one offered."""
        return self._chosen

    @property
    def leader_url(self) -> str | None:
        return self.view().leader_url

    def _log(self, level: int, message: str, *arguments: object) -> None:
        log_member(logger, level, self.snapshot, message, *arguments)


def _margin_ms(config: MemberConfig) -> int:
    # two heartbeats may get lost before
    spare_ms = config.session_timeout_ms - 2 * config.heartbeat_interval_ms
    # a worker that polls holds its work for the poll interval only, where that is shorter
    return max(0, min(_MARGIN_MS, spare_ms * 2 // 3, config.poll_interval_ms // 2))


def _held(state: WorkerState) -> Work:
    held = state.assignment
    return NO_WORK if held is None else Work(held.connectors, held.tasks)


def _encoded(head: ConnectAssignment, given: ClusterAssignment, member: str, version: int) -> bytes:
    assigned, revoked = given.assigned[member], given.revoked.get(member, NO_WORK)
    return encode_assignment(
        replace(
            head,
            connectors=assigned.connectors,
            tasks=assigned.tasks,
            revoked_connectors=revoked.connectors,
            revoked_tasks=revoked.tasks,
            delay_ms=given.delay_ms,
        ),
        version,
    )


class WorkerMembership(Protocol):
    """The worker's membership: a `ConnectCoordinator`, or a `LocalGroup`."""

    def poll(self, timeout: float = 0.0) -> bool:
        """Take part in the group for up to `timeout` seconds. Return whether this worker is an active member."""
        ...

    def wakeup(self) -> None:
        """Let a waiting `poll` return early. Thread-safe."""
        ...

    def request_rejoin(self, reason: str) -> None:
        """Ask for a rebalance, with a `reason` for the log and for the coordinator (KIP-800)."""
        ...

    def revoke_everything(self, why: str) -> None:
        """Have the listener stop all work and drop the assignment; `why` is for the log."""
        ...

    def leave_group(self, reason: str) -> None:
        """Revoke all work and leave the group with a `reason`; the next `poll` joins again."""
        ...

    def holds_for(self, margin_ms: int) -> bool:
        """Return whether the work is this worker's for at least `margin_ms` milliseconds longer. Thread-safe."""
        ...

    def held_until_ms(self) -> int | None:
        """Return until when the work is this worker's, in milliseconds of the clock; None if it is not. Thread-safe."""
        ...

    def out_of_touch(self) -> str | None:
        """Return why this worker has lost contact with its group; None if it has not."""
        ...

    def rebalance_metrics(self) -> Mapping[str, float | str]:
        """Return `connect-worker-rebalance-metrics` by name; empty where there is no group."""
        ...

    def view(self) -> MembershipView:
        """Return the place of this worker in its group, read at once. Thread-safe."""
        ...

    def close(self, timeout: float = 30.0) -> None:
        """Revoke all work and leave the group; waits at most `timeout` seconds for the coordinator."""
        ...

    @property
    def margin_ms(self) -> int:
        """How long before the session's end work has to be given up, in milliseconds."""
        ...

    @property
    def protocol(self) -> str:
        """The rebalance protocol in use; "" without a group."""
        ...

    @property
    def assignments(self) -> Mapping[str, Work] | None:
        """The work of each member, by id, if this worker led the last rebalance; else None."""
        ...


OpenGroup = Callable[[RebalanceListener, Callable[[], ClusterConfigState]], WorkerMembership]
