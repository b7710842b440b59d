"""Holds that placements under limits are improved until none is better; compared with trying all of them."""

from random import Random

from hypothesis import given, settings

from groupsdk.shards import cycles
from groupsdk.shards.cycles import improve
from groupsdk.shards.work import NOBODY, Work
from groupsdk.wire.shards.protocol import MemberState
from tests.shards.test_placement import best, is_valid, measure, work_of, works


@settings(max_examples=150, deadline=None)
@given(works(zones=True, limits=True))
def test_the_best_placement_of_as_many_shards_is_reached_from_any(work: Work) -> None:
    for seed in range(3):
        targets = _random_placement(work, Random(seed))
        unplaced = targets.count(NOBODY)

        improve(work, targets)

        assert is_valid(work, targets)
        assert targets.count(NOBODY) == unplaced
        if unplaced == best(work)[0]:
            assert measure(work, targets) == best(work)


def _random_placement(work: Work, random: Random) -> list[int]:
    room = list(work.limits)
    targets = []
    for kind in work.kinds:
        able = [member for member in work.able[kind] if room[member]]
        targets.append(random.choice(able) if able else NOBODY)
        if able:
            room[targets[-1]] -= 1
    return targets


def test_a_placement_that_is_too_large_stays_as_it_is() -> None:
    count = cycles.GREATEST_SIZE
    owners = [0] * (count // 2 + 1)
    targets = [*owners]

    improve(work_of(len(owners), [MemberState(max_shards=count), MemberState()], owners), targets)

    assert targets == owners
