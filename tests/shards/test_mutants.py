"""Prove that the simulation can fail: break the workers on purpose, and see that some seed notices."""

import logging
from collections.abc import Callable, Iterator, Mapping

import pytest

from groupsdk.member.classic import rebalance
from groupsdk.shards import handover, leader, membership, owner
from groupsdk.shards.handover import Rounds
from groupsdk.shards.membership import ShardMembership
from groupsdk.shards.owner import Claims, Holdings, Leave, Owner, ShardState, Trigger
from groupsdk.testing.simulation.world import InvariantError
from groupsdk.wire.shards.protocol import MemberState
from tests.shards.simulated import random_run, rolling_restart
from tests.shards.world import ShardMember, ShardWorld
from tests.support.cases import with_long


SEEDS = 400
Patch = pytest.MonkeyPatch
Mutant = Callable[[Patch], None]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def holds_whatever_the_clock_says(patch: Patch) -> None:
    patch.setattr(ShardMembership, "_in_group", lambda _self, _now: True)


def leaves_before_it_has_given_up(patch: Patch) -> None:
    """One whose release takes too long leaves, and goes on with what it had."""

    def expel(mine: Owner, now_ms: int) -> None:
        late = [each for each in mine._owned.values() if each.state is ShardState.RELEASING]
        if any(now_ms >= each.release_by_ms for each in late) and not mine.expelled:
            mine.expelled = True
            mine._steps = [Leave("late")]

    patch.setattr(Owner, "_expel_if_overdue", expel)
    patch.setattr(Holdings, "holds", lambda held, lease, _: held.owned.get(lease.name) == lease)
    patch.setattr(ShardMembership, "_in_group", lambda _self, _now: True)


def does_not_claim_what_it_is_releasing(patch: Patch) -> None:
    claims = Owner.claims.fget  # type: ignore[attr-defined]  # a property

    def claim(mine: Owner) -> Claims:
        said = claims(mine)
        return Claims(said.held, {}, said.standbys)

    patch.setattr(Owner, "claims", property(claim))


def keeps_what_it_lost(patch: Patch) -> None:
    patch.setattr(ShardMembership, "_lose", lambda _self, _why: None)


def gains_before_the_other_has_released(patch: Patch) -> None:
    """One phase in place of two: the leader gives what another still holds."""

    def claimants(members: Mapping[str, MemberState]) -> dict[str, list[str]]:
        return {}

    patch.setattr(handover, "_claimants", claimants)


def forgets_to_ask_for_the_second_phase(patch: Patch) -> None:
    patch.setattr(ShardMember, "request_rejoin", lambda _self, _reason, **_: None)


def begins_each_incarnation_anew_by_the_clock(patch: Patch) -> None:
    patch.setattr(ShardWorld, "advance", lambda _self, _group, _at_least: _self.date_s)
    patch.setattr(leader, "_checked_incarnation", lambda value, _least: value)


def goes_on_over_a_gap(patch: Patch) -> None:
    """With the incarnation of the best informed member, though others may have begun one meanwhile."""

    def known(members: Mapping[str, MemberState], generation: int) -> int | None:
        newest = max(state.progress.incarnation for state in members.values())
        return newest if newest >= 0 else None

    patch.setattr(leader, "known_incarnation", known)


def takes_back_what_it_is_releasing(patch: Patch) -> None:
    table = {
        **owner.TRANSITIONS,
        (ShardState.RELEASING, Trigger.FINISH): ShardState.HELD,
    }
    patch.setattr(owner, "TRANSITIONS", table)


def leaves_a_drain_half_done(patch: Patch) -> None:
    patch.setattr(Owner, "drain", lambda _self: None)


MUTANTS: tuple[Mutant, ...] = (
    holds_whatever_the_clock_says,
    leaves_before_it_has_given_up,
    does_not_claim_what_it_is_releasing,
    keeps_what_it_lost,
    gains_before_the_other_has_released,
    forgets_to_ask_for_the_second_phase,
    begins_each_incarnation_anew_by_the_clock,
    goes_on_over_a_gap,
    takes_back_what_it_is_releasing,
    leaves_a_drain_half_done,
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_mutant_is_noticed(monkeypatch: pytest.MonkeyPatch, mutant: Mutant) -> None:
    mutant(monkeypatch)
    for seed in range(SEEDS):
        try:
            random_run(seed)
        except InvariantError:
            return
    pytest.fail(f"{SEEDS} seeds pass with {mutant.__name__}")


def joins_again_when_a_heartbeat_says_so(patch: Patch) -> None:
    patch.setattr(ShardMembership, "_join_again", lambda _self: None)


def is_paced_like_any_caller(patch: Patch) -> None:
    patch.setattr(rebalance, "HAND_OVERS", 0)


def has_no_other_wait_for_its_release(patch: Patch) -> None:
    patch.setattr(membership, "_HOLDS_ALONE_MS", 0)
    patch.setattr(membership, "_HOLDS_BESIDE_MS", 0)


def has_others_wait_for_a_slow_release(patch: Patch) -> None:
    patch.setattr(membership, "_HOLDS_BESIDE_MS", 2_500)


def joins_again_however_often_an_assignment_was_missed(patch: Patch) -> None:
    patch.setattr(Rounds, "again_ms", lambda _self, gives: 0)


def rebalances_in_a_loop(patch: Patch) -> None:
    complete = ShardMembership.join_completed

    def completed(part: ShardMembership, generation: int, member_id: str, data: bytes) -> None:
        complete(part, generation, member_id, data)
        part._again_at_ms = part._now_ms() + 10

    patch.setattr(ShardMembership, "join_completed", completed)


HAND_OVER_MUTANTS: tuple[Mutant, ...] = (
    joins_again_when_a_heartbeat_says_so,
    is_paced_like_any_caller,
    has_no_other_wait_for_its_release,
    has_others_wait_for_a_slow_release,
    joins_again_however_often_an_assignment_was_missed,
    rebalances_in_a_loop,
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "mutant",
    with_long(HAND_OVER_MUTANTS, has_no_other_wait_for_its_release),
    ids=lambda mutant: mutant.__name__,
)
def test_a_slower_hand_over_is_noticed(monkeypatch: pytest.MonkeyPatch, mutant: Mutant) -> None:
    mutant(monkeypatch)
    for seed in range(24):
        try:
            rolling_restart(seed)
        except InvariantError:
            return
    pytest.fail(f"24 seeds pass with {mutant.__name__}")
