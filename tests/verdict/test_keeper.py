"""Checks that a keeper judges groups by what it has seen of them before."""

from dataclasses import replace

from groupsdk.admin.descriptions import GroupDescription
from groupsdk.admin.watching import ClusterView, WatchedGroup
from groupsdk.verdict import Obstacle, ObstacleKind, Past, VerdictKeeper
from groupsdk.verdict.keeper import WatchedPast
from tests.support.observed_groups import MINUTE_MS, NOW_MS, group, lag_of, member


def view(described: GroupDescription, behind: dict[int, int], at_ms: int) -> ClusterView:
    return ClusterView(at_ms, (WatchedGroup(described, NOW_MS, lag_of(described, behind)),))


def rules_after(keeper: VerdictKeeper, *views: ClusterView) -> list[str]:
    found: list[str] = []
    for each in views:
        found = [finding.rule for finding in keeper.observe(each)["g"].findings]
    return found


def test_an_absence_counts_from_the_first_look_without_members() -> None:
    keeper = VerdictKeeper()
    gone = [view(group(), {0: 1_194}, NOW_MS + after) for after in (1_000, 31_000, 62_000)]

    assert rules_after(keeper, view(group(member("a", [0])), {0: 0}, NOW_MS), *gone[:2]) == []
    assert rules_after(keeper, gone[2]) == ["lag_without_members"]


def test_new_members_are_judged_once_they_have_settled() -> None:
    keeper = VerdictKeeper()
    sick = group(member("a", range(5)), member("b"))

    assert rules_after(keeper, view(sick, {}, NOW_MS)) == []
    assert rules_after(keeper, view(sick, {}, NOW_MS + MINUTE_MS)) == ["unbalanced"]


def test_lag_that_grows_from_look_to_look_is_found() -> None:
    keeper = VerdictKeeper()
    busy = group(member("a", [0]))
    looks = [
        view(busy, {0: 1_000 + 100 * number}, NOW_MS + number * MINUTE_MS) for number in range(12)
    ]

    assert rules_after(keeper, *looks) == ["growing_lag"]


def test_a_partition_that_is_not_committed_is_stalled_since_its_last_commit() -> None:
    keeper = VerdictKeeper()
    busy = group(member("a", [0, 1]))
    looks = [view(busy, {0: 50, 1: 0}, NOW_MS + number * MINUTE_MS) for number in range(12)]

    assert rules_after(keeper, *looks) == ["unread_partitions"]


def test_a_view_with_an_error_adds_no_look() -> None:
    keeper = VerdictKeeper()
    broken = ClusterView(
        NOW_MS + 10 * MINUTE_MS, view(group(), {0: 500}, NOW_MS).groups, error="no broker"
    )
    obstacle = Obstacle(ObstacleKind.BROKER, "its state", "no broker")

    verdict = keeper.observe(broken, {"g": [obstacle]})["g"]

    assert "broker_unavailable" in [each.rule for each in verdict.findings]


def test_groups_that_are_gone_are_forgotten() -> None:
    keeper = VerdictKeeper()
    rules_after(keeper, view(group(), {0: 500}, NOW_MS))
    assert keeper.observe(ClusterView(NOW_MS + 1_000)) == {}

    assert rules_after(keeper, view(group(), {0: 500}, NOW_MS + 2 * MINUTE_MS)) == []


def test_a_member_that_comes_and_goes_between_looks_is_flapping() -> None:
    keeper = VerdictKeeper()
    steady = member("a", [0])
    looks = []
    for number in range(8):
        flap = replace(member("b"), member_id=f"b-{number}")
        members = (steady, flap) if number % 2 else (steady,)
        looks.append(view(group(*members), {0: 0}, NOW_MS + 3_000 * number))

    assert rules_after(keeper, *looks) == ["flapping_member"]


def test_a_consumer_without_membership_is_not_absent() -> None:
    keeper = VerdictKeeper()
    alone = group(protocol_type="")
    looks = [
        ClusterView(
            NOW_MS + number * MINUTE_MS,
            (WatchedGroup(alone, NOW_MS, lag_of(alone, {0: 500}, end=10_000 + number)),),
        )
        for number in range(12)
    ]

    assert rules_after(keeper, *looks) == []


def test_members_of_the_first_look_began_before_it() -> None:
    noted = WatchedPast(NOW_MS)
    noted.note(NOW_MS, group(member("a")))
    noted.note(NOW_MS + 1_000, group(member("a"), member("b")))
    noted.note(NOW_MS + 2_000, group(member("b")))

    past = noted.past()

    assert {each.client_id: each.start_ms for each in past.memberships} == {
        "a": None,
        "b": NOW_MS + 1_000,
    }
    assert [(e.client_id, e.end_ms, e.reason) for e in past.memberships if e.end_ms] == [
        ("a", NOW_MS + 2_000, "unknown")
    ]
    assert [each.members for each in past.generations] == [1, 2, 1]


def test_a_static_member_with_another_id_is_replaced() -> None:
    noted = WatchedPast(NOW_MS)
    first = member("a", instance_id="i-1")
    noted.note(NOW_MS, group(first))
    noted.note(NOW_MS + 1_000, group(replace(first, member_id="a-2")))

    ended = [each.reason for each in noted.past().memberships if each.end_ms is not None]

    assert ended == ["static_replaced"]


def test_a_look_without_a_change_adds_nothing() -> None:
    noted = WatchedPast(NOW_MS)
    for after in range(3):
        noted.note(NOW_MS + after, group(member("a")))

    past: Past = noted.past()

    assert len(past.generations) == 1
