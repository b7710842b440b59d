"""What the leader of a group with shards does: it plans, and notices when a new plan is due. Without I/O."""

from collections.abc import Callable, Generator, Mapping
from inspect import isgenerator
from itertools import islice
from typing import Final

from groupsdk.coordinator import refuse_unrun
from groupsdk.shards.callbacks import EpochStore
from groupsdk.shards.config import ShardConfig
from groupsdk.shards.handover import (
    GroupPlan,
    LeaderMemory,
    assign_shards,
    known_incarnation,
    least_incarnation,
)
from groupsdk.shards.steps import Ask, Outcome, StoreCall
from groupsdk.shards.types import Shard, ShardError, checked_shards, digest_of
from groupsdk.wire.shards.names import GREATEST_COUNT
from groupsdk.wire.shards.protocol import NO_INCARNATION, MemberState


_FIRST_RETRY_MS: Final = 1_000


class Leader:
    """Plans for the group while this worker leads it.

    Args:
        now_s: the date, in seconds since 1970.
    """

    def __init__(
        self,
        config: ShardConfig,
        ask_shards: Callable[[], object],
        store: EpochStore,
        now_s: Callable[[], int],
    ) -> None:
        self.last_plan: GroupPlan | None = None
        """What was planned last, since this worker leads; None: nothing."""
        self.leads = False
        """Whether this worker leads the group."""
        self.incarnation = NO_INCARNATION
        """The one that it assigned under last."""
        self._config = config
        self._ask_shards = ask_shards
        self._store = store
        self._now_s = now_s
        self._memory = LeaderMemory()
        self.told_digest = 0
        """That of the list for which this worker's last assignment was made; 0: none is known."""
        self.warning = ""
        """How the list differs from that of the last leader, if it does, to be logged with the plan."""
        self._shards: tuple[Shard, ...] | None = None
        self._failures = 0
        self._refresh_at_ms = 0
        self._rebalance_at_ms: int | None = None
        self._rebalance_why = ""
        self._failed = False

    # Planning.

    def plan(
        self, members: Mapping[str, MemberState], generation: int, now_ms: int
    ) -> Generator[Ask | StoreCall, Outcome, tuple[GroupPlan, BaseException | None]]:
        """Ask the user for the list of shards, and plan for all members.

        Returns:
            The plan, and the error of the list, to be raised by the leader's poll.

        Raises:
            EpochStoreError: a new incarnation cannot be recorded; nothing is assigned.
        """
        shards, error = yield from self._listed()
        self.warning = "" if shards is None or self.leads else self._differences(shards, members)
        incarnation = known_incarnation(members, generation)
        if incarnation is None:
            least = max(least_incarnation(members), self._now_s())
            stored = yield StoreCall(
                lambda: self._store.advance(self._config.member.group_id, least)
            )
            incarnation = _checked_incarnation(stored.result(), least)
        plan = assign_shards(
            shards,
            members,
            generation,
            incarnation,
            self._memory,
            self._config,
            now_ms,
            None if error is None else _as_shard_error(error),
        )
        self._memory = plan.memory
        self.last_plan, self.incarnation = plan, incarnation
        self._planned(shards, plan, now_ms)
        return plan, error or plan.error

    def _listed(
        self,
    ) -> Generator[Ask, Outcome, tuple[tuple[Shard, ...] | None, BaseException | None]]:
        outcome = yield Ask(lambda: _read_out(self._ask_shards()))
        if outcome.error is not None:
            if not isinstance(outcome.error, Exception):
                raise outcome.error  # Ctrl-C is not about the list
            return None, outcome.error
        try:
            return checked_shards(outcome.value), None  # type: ignore[arg-type]  # which it checks
        except ShardError as error:
            return None, error

    def _differences(self, shards: tuple[Shard, ...], members: Mapping[str, MemberState]) -> str:
        """Say how the list differs from that of the last leader; "": it does not, or there was none."""
        if self.told_digest in (0, digest_of(shards)):
            return ""
        listed = {shard.name for shard in shards}
        claimed = {name for each in members.values() for name in (*each.held, *each.releasing)}
        return (
            f"this worker's list of shards differs from that of the last leader: {len(listed - claimed)} of its"
            f" {len(listed)} shards are held by nobody, and {len(claimed - listed)} that are held are not in it"
        )

    def _planned(self, shards: tuple[Shard, ...] | None, plan: GroupPlan, now_ms: int) -> None:
        self.leads = True
        self._failed = shards is None or plan.error is not None
        if self._failed:
            self._failures += 1
        else:
            self._failures = 0
            self._shards = shards
        self._refresh_at_ms = now_ms + self._wait_ms()
        self._rebalance_at_ms = None
        if plan.next_rebalance is not None:
            wait_ms, self._rebalance_why = plan.next_rebalance
            self._rebalance_at_ms = now_ms + wait_ms

    def _wait_ms(self) -> int:
        """Return how long to wait before the list is asked for again."""
        longest_ms = self._config.shards_refresh_ms
        if not self._failures:
            return longest_ms
        return min(longest_ms, _FIRST_RETRY_MS << min(self._failures - 1, 31))

    # Between two plans.

    def resumed(self, now_ms: int) -> None:
        """Begin to lead without a plan, as a static member that came back: the group keeps its assignments."""
        self.leads = True
        self._refresh_at_ms = now_ms + self._config.shards_refresh_ms

    def follow(self) -> None:
        """Another worker leads: what this one knew as the leader is of the past."""
        self.leads = False
        self.last_plan = None
        self._memory = LeaderMemory()
        self._shards = None
        self._failures = 0
        self._failed = False
        self._rebalance_at_ms = None

    def refresh_soon(self) -> None:
        """Ask for the list at the next poll."""
        self._refresh_at_ms = 0

    def due_ms(self) -> int | None:
        """Return when `check` has something to do; None: never."""
        if not self.leads:
            return None
        if self._rebalance_at_ms is None:
            return self._refresh_at_ms
        return min(self._refresh_at_ms, self._rebalance_at_ms)

    def check(
        self, now_ms: int
    ) -> Generator[Ask, Outcome, tuple[str | None, BaseException | None]]:
        """Find out whether a new plan is due.

        Returns:
            The reason to rebalance, None for none; and the error of the list, to be raised by poll.
        """
        if self._rebalance_at_ms is not None and now_ms >= self._rebalance_at_ms:
            self._rebalance_at_ms = None
            return self._rebalance_why, None
        shards, error = yield from self._listed()
        self._failures = 0 if error is None else self._failures + 1
        self._refresh_at_ms = now_ms + self._wait_ms()
        if shards is None:
            return None, error
        if self._failed:
            self._failed = False
            return "the list of shards is known again", None
        known, self._shards = self._shards, shards
        if shards == known or (known is None and digest_of(shards) == self.told_digest):
            return None, None
        return f"the list of shards has changed, to {len(shards)}", None


def _read_out(value: object) -> object:
    """Return what a generator yields as a tuple: its code runs where `shards()` does."""
    return tuple(islice(value, GREATEST_COUNT + 1)) if isgenerator(value) else value


def _as_shard_error(error: BaseException) -> ShardError:
    if isinstance(error, ShardError):
        return error
    return ShardError(f"shards() raised {type(error).__name__}: {error}")


def _checked_incarnation(value: object, least: int) -> int:
    """Return what an `EpochStore` returned.

    Raises:
        TypeError: it is a coroutine or a generator, whose code has not run.
        ShardError: it is not a number that can begin an incarnation.
    """
    refuse_unrun(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 1 << 32:
        raise ShardError(
            f"EpochStore.advance must return an integer from {least} to {2**32 - 1}, not {value!r}"
        )
    return value
