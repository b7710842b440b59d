"""Checks what a watcher notes of members that come and go."""

from dataclasses import replace

from groupsdk.verdict import Past
from groupsdk.verdict.watched_past import WatchedPast
from tests.support.observed_groups import NOW_MS, group, member


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
