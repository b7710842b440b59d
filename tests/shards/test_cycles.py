"""Holds that placements under limits are improved until none is better; compared with trying all of them."""

from random import Random

from hypothesis import given, settings

from groupsdk.shards import cycles
from groupsdk.shards.cycles import improve
from groupsdk.shards.types import Shard
from groupsdk.shards.work import NOBODY, Work
from groupsdk.wire.shards.protocol import MemberState
from tests.shards.test_placement import best, is_valid, measure, works


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
    shards = [Shard(f"s-{number}") for number in range(count // 2 + 1)]
    states = [MemberState(max_shards=count), MemberState()]
    targets = [0] * len(shards)

    improve(Work(shards, ["a", "b"], states, [0] * len(shards), {}), targets)

    assert targets == [0] * len(shards)
