"""Holds what is remembered of groups to an hour, ten minutes, and a bounded number of each."""

from groupsdk.admin.descriptions import GroupDescription, GroupType
from groupsdk.admin.watching import ClusterView, Rebalance, WatchedGroup
from groupsdk.web.memory import POINTS, STEP_MS, PageMemory


MINUTE_MS = 60_000


def look(
    at_ms: int, state: str = "Stable", ended: int = 0, just_ended: tuple[Rebalance, ...] = ()
) -> ClusterView:
    group = GroupDescription("g", GroupType.CLASSIC, state, "consumer", "range", 1)
    watched = (WatchedGroup(group, at_ms),)
    return ClusterView(at_ms, watched, ended={"g": ended}, just_ended=just_ended, seen_ms=at_ms)


def test_lag_has_a_point_each_ten_seconds_and_the_newest_is_the_last_look() -> None:
    memory = PageMemory()
    for at_ms, lag in ((0, 1), (1_000, 2), (STEP_MS, 3), (STEP_MS + 1, 4), (4 * STEP_MS, 5)):
        memory.note(look(at_ms), {"g": lag})
    # two steps without a look keep the lag before
    assert memory.lags() == {"g": (2, 4, 4, 4, 5)}
    for number in range(5, 200):
        memory.note(look(number * STEP_MS), {"g": None})
    assert memory.lags() == {"g": (None,) * POINTS}
    assert memory.began_ms == 0


def test_rebalances_are_counted_over_an_hour() -> None:
    memory = PageMemory()
    for minute in range(90):
        # one each minute, and none in the last half hour
        memory.note(look(minute * MINUTE_MS, ended=min(minute, 60)), {})
    assert memory.groups["g"].rebalances_of_last_hour() == 31
    memory.note(look(90 * MINUTE_MS, ended=2), {})
    assert memory.groups["g"].rebalances_of_last_hour() == 2


def test_rebalances_since_watching_began_count_from_the_first_look() -> None:
    memory = PageMemory()
    memory.note(look(0, ended=0), {})
    memory.note(look(1_000, ended=3), {})
    assert memory.groups["g"].rebalances_of_last_hour() == 3


def test_states_and_rebalances_are_kept_and_gone_groups_forgotten() -> None:
    memory = PageMemory()
    done = Rebalance(group_id="g", began_ms=1, ended_ms=2)
    elsewhere = Rebalance(group_id="other", began_ms=1, ended_ms=2)
    memory.note(look(0), {})
    memory.note(look(1, "PreparingRebalance"), {})
    memory.note(look(2, just_ended=(done, elsewhere)), {})
    assert [state for _, state in memory.groups["g"].states] == [
        "Stable",
        "PreparingRebalance",
        "Stable",
    ]
    assert list(memory.groups["g"].rebalances) == [done]
    memory.note(look(3_600_000), {})
    assert list(memory.groups["g"].states) == [(2, "Stable")]
    memory.note(ClusterView(3_600_001), {})
    assert memory.groups == {}
