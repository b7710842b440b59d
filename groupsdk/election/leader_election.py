"""Elect a leader among processes, without topics: `LeaderElection`."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from groupsdk.clock import Clock, SystemClock
from groupsdk.coordinator import refuse_unrun
from groupsdk.drivers.one_thread import CallersLock
from groupsdk.drivers.threads.member import AbstractCoordinator
from groupsdk.election.protocol import Candidate, Verdict, elect
from groupsdk.errors import ConfigError, GroupSdkError
from groupsdk.lazy_imports import override
from groupsdk.settings.config import MemberConfig
from groupsdk.snapshot import MemberSnapshot
from groupsdk.types import GroupMembers


if TYPE_CHECKING:
    from groupsdk.settings.keywords import MemberSettings

logger = logging.getLogger(__name__)

OnElected = Callable[["Term"], None]
OnLost = Callable[[], None]

_PROTOCOL: Final = "groupsdk-1"
_GUARD_S: Final = 0.05
_TROUBLE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Term:
    """One leadership of this process."""

    generation: int
    """The fencing token: greater than that of every earlier leader, for as long as the group exists. Store it with
    everything that the leader writes, and have the storage reject a smaller one after a greater one."""
    member_id: str
    """This process's member id in the group."""


class ElectionCoordinator(AbstractCoordinator):
    """The membership behind `LeaderElection`: the leader of the Kafka group decides for all members.

    Within `poll` it calls `decided` with the generation, this member's id and the verdict, and `lost` when the leadership may
    be over.
    """

    protocol_type = "leader-election"

    def __init__(
        self,
        settings: Mapping[str, Any] | MemberConfig | None,
        name: str,
        eligible: bool,
        decided: Callable[[int, str, Verdict], None],
        lost: OnLost,
        clock: Clock | None = None,
        **keywords: "Unpack[MemberSettings]",
    ) -> None:
        self.leads = False
        self.yields = False
        self._name = name
        self._eligible = eligible
        self._decided = decided
        self._lost = lost
        super().__init__(settings, clock=clock, **keywords)

    @override
    def metadata(self) -> dict[str, bytes]:
        candidate = Candidate(self._name, self._eligible, self.leads, self.yields)
        return {_PROTOCOL: candidate.encode()}

    @override
    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> dict[str, bytes]:
        return dict.fromkeys(members, elect(members).encode())

    @override
    def on_join_prepare(self, generation: int, member_id: str) -> None:
        # a leader stays the leader during a rebalance, unless the membership is lost
        if generation == -1 or not member_id:
            self._lost()

    @override
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        self._decided(generation, member_id, Verdict.decode(assignment))

    @override
    def on_leave_prepare(self) -> None:
        self._lost()

    def holds_for(self, margin_ms: int) -> bool:
        """Return whether the group cannot elect another leader for `margin_ms`."""
        return self._groupsdk_member.holds_for(margin_ms)


class LeaderElection:
    """Elects one of the participating processes as the leader, and notifies it.

    The leader stays until it leaves or dies (sticky). A new one waits for the grace period before it acts, so that
    the old one has noticed. Callbacks run on the election's own thread; their exceptions are logged, and the election
    continues. `on_lost` is called once for each `on_elected`, before the group can elect another leader: on another
    thread if the election's own is blocked, for example by an `on_elected` that does not return.

    Args:
        name: the election, which is the group's name.
        grace: seconds between the election and `on_elected`; the previous leader does not wait.
        eligible: whether this process may lead; others still know the leader.
        candidate: the name of this process for the others.
        settings: the member's settings.
        clock: the time; for tests.
        keywords: the same as keywords, e.g. ``bootstrap_servers="..."``.

    Raises:
        ConfigError: a setting is unknown, missing or wrong, or it is group.instance.id.
        ValueError: `grace` is negative.
    """

    def __init__(
        self,
        name: str,
        settings: Mapping[str, Any] | None = None,
        /,
        *,
        grace: float = 0.0,
        eligible: bool = True,
        candidate: str = "",
        clock: Clock | None = None,
        **keywords: "Unpack[MemberSettings]",
    ) -> None:
        if grace < 0:
            raise ValueError(f"grace must be a number of seconds from 0 on, not {grace}")
        defaults = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 2_000}
        given = {key.replace(".", "_"): value for key, value in (settings or {}).items()}
        config = MemberConfig.of({**defaults, **given, **keywords, "group_id": name})
        if config.group_instance_id is not None:
            raise ConfigError(
                f"election {name}: group.instance.id ({config.group_instance_id!r}) cannot be set, as a static"
                " member comes back under the generation of before, and the token of a new leader has to grow"
            )
        self._name = name
        self._clock = clock or SystemClock()
        self._grace_ms = int(grace * 1000)
        spare_ms = config.session_timeout_ms - 2 * config.heartbeat_interval_ms
        # the group waits for no longer than the shorter of the two
        self._margin_ms = max(0, min(spare_ms, config.poll_interval_ms)) // 2
        self._on_elected: OnElected | None = None
        self._on_lost: OnLost | None = None
        self._verdict = Verdict()
        self._elected: Term | None = None
        """The term won, even if the grace period is not over yet."""
        self._acts_at_ms = 0
        self._acting: Term | None = None
        self._told = False
        self._halted = False
        self._resigned = False
        self._lock = CallersLock()
        self._stopping = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._coordinator = ElectionCoordinator(
            config, candidate, eligible, self._decided, self._lost, clock=clock
        )

    def on_elected(self, function: OnElected, /) -> OnElected:
        """Set the callback for when this process becomes the leader; works as a decorator.

        It is called with the `Term`, on the election's thread, and may block for as long as this process leads.
        """
        self._on_elected = function
        return function

    def on_lost(self, function: OnLost, /) -> OnLost:
        """Set the callback for when this process stops being the leader; works as a decorator.

        It is called once for each `on_elected`, before the group can elect another leader.
        """
        self._on_lost = function
        return function

    def start(self) -> None:
        """Join the election, on a new thread. Idempotent."""
        if self._thread is None:
            self._thread = threading.Thread(target=self.run, name="groupsdk-election", daemon=True)
            self._thread.start()

    def stop(self, timeout: float = 30.0) -> bool:
        """Step down and leave the group; return whether it was done within `timeout` seconds. Idempotent.

        On the election's own thread it returns True at once.
        """
        self._stopping.set()
        self._coordinator.wakeup()
        if self._thread is None or self._thread is threading.current_thread():
            return True
        return self._stopped.wait(timeout)

    def run(self) -> None:
        """Join the election on this thread, and stay until `stop`.

        Raises:
            GroupSdkError: a `fatal` error; others, such as refused credentials, are logged and tried again.
        """
        guard = threading.Thread(target=self._guard, name="groupsdk-election-guard", daemon=True)
        guard.start()
        try:
            while not self._stopping.is_set():
                self._step()
        finally:
            try:
                self._coordinator.close(5.0)
            finally:
                self._tell_lost()
                self._stopped.set()

    @property
    def term(self) -> Term | None:
        """The current leadership of this process; None if it does not lead, or may no longer act.

        Any thread may ask; it needs no answer from the broker, as this process's own clock decides.
        """
        acting = self._acting
        return acting if acting is not None and self._coordinator.holds_for(0) else None

    @property
    def leader(self) -> str | None:
        """The name of the current leader, in whichever process; None if there is none, or it is unknown."""
        return self._verdict.leader_name

    @property
    def standby(self) -> tuple[str, ...]:
        """The names of all candidates that do not lead, in the order in which they would follow; empty until one is elected."""
        return self._verdict.standby

    @property
    def trouble(self) -> str | None:
        """Why the group coordinator cannot currently be found or reached; None if it can."""
        return self._coordinator.snapshot().trouble

    def snapshot(self) -> MemberSnapshot:
        """Return the membership behind the election, read at once: state, generation, coordinator, trouble."""
        return self._coordinator.snapshot()

    def resign(self) -> None:
        """Step down in favour of another candidate, if any, and stay in the election; from any thread."""
        self._resigned = True
        self._coordinator.wakeup()

    def _step(self) -> None:
        try:
            if self._resigned:
                self._resigned = False
                self._coordinator.yields = True
                self._coordinator.leave_group("resigned")
            self._coordinator.poll(self._wait_s())
        except GroupSdkError as error:
            if error.fatal:
                raise
            logger.warning("election %s: %s: %s", self._name, type(error).__name__, error)
            self._stopping.wait(_TROUBLE_S)
        self._follow_clock()

    def _wait_s(self) -> float:
        if self._elected is None or self._acting is not None:
            return 0.5
        return max(0.0, min(0.5, (self._acts_at_ms - self._clock.now_ms()) / 1000))

    def _decided(self, generation: int, member_id: str, verdict: Verdict) -> None:
        self._verdict = verdict
        if verdict.leader_id != member_id:
            self._coordinator.yields = False
            self._lost()
            return
        self._coordinator.leads = True
        if self._elected is not None:
            return  # it stays the leader, with the same token
        self._elected = Term(generation, member_id)
        self._acts_at_ms = self._clock.now_ms() + self._grace_ms
        self._follow_clock()

    def _lost(self) -> None:
        self._coordinator.leads = False
        self._elected = None
        self._tell_lost()

    def _follow_clock(self) -> None:
        if self._elected is None:
            return
        if self._halted or not self._coordinator.holds_for(self._margin_ms):
            self._halted = False
            self._lost()
            self._coordinator.request_rejoin("the leader's session was nearly over")
        elif self._acting is None and self._clock.now_ms() >= self._acts_at_ms:
            with self._lock:
                self._acting = self._elected
                self._told = True
            logger.info("election %s: leads, token %d", self._name, self._elected.generation)
            self._call(self._on_elected, self._elected)

    def _guard(self) -> None:
        """Call `on_lost` in time even while `on_elected` or other code blocks the election's thread."""
        while not self._stopped.wait(_GUARD_S):
            if self._acting is not None and not self._coordinator.holds_for(self._margin_ms // 2):
                self._halted = True
                self._tell_lost()

    def _tell_lost(self) -> None:
        with self._lock:
            told, self._told, self._acting = self._told, False, None
        if told:
            logger.info("election %s: leads no more", self._name)
            self._call(self._on_lost)

    def _call(self, function: Callable[..., None] | None, *arguments: object) -> None:
        if function is None:
            return
        try:
            returned: object = function(*arguments)
            refuse_unrun(returned)
        except (KeyboardInterrupt, SystemExit):
            logger.exception("election %s: the callback raised; the election ends", self._name)
            self._stopping.set()  # also where the guard's thread is the one that ends
            raise
        except BaseException:
            logger.exception("election %s: the callback raised; the election goes on", self._name)

    def __enter__(self) -> Self:
        """Begin as `start` does; the end of the block is `stop`."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
