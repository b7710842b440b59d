"""Prove that the simulation can fail: break the workers on purpose, and see that some seed notices."""

import logging
from collections.abc import Callable, Iterator, Mapping

import pytest

from groupsdk.shards import handover, leader, owner
from groupsdk.shards.membership import ShardMembership
from groupsdk.shards.owner import Claims, Holdings, Leave, Owner, ShardState, Trigger
from groupsdk.testing.simulation.world import InvariantError
from groupsdk.wire.shards.protocol import MemberState
from tests.shards.simulated import random_run
from tests.shards.world import ShardMember, ShardWorld


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
            mine._expelled = True
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
    patch.setattr(ShardMember, "request_rejoin", lambda _self, _reason: None)


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
