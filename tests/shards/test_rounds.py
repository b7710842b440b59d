"""When members are told to join again."""

from groupsdk.shards.rounds import (
    AFTER_GIVING_MS,
    AFTER_TAKING_MS,
    LATEST_MS,
    ROUNDS_IN_A_ROW,
    Rounds,
    was_missed,
)
from groupsdk.wire.shards.protocol import MemberState, Progress


def after(count: int, *, missed: bool = False) -> Rounds:
    rounds = Rounds()
    for _ in range(count):
        rounds = rounds.next(at_rest=False, news=False, missed=missed)
    return rounds


def test_members_come_back_at_once_after_shards_were_taken_and_soon_after_some_were_given() -> None:
    assert after(1).again_ms(gives=False) == AFTER_TAKING_MS
    assert after(1).again_ms(gives=True) == AFTER_GIVING_MS


def test_each_missed_assignment_doubles_the_time() -> None:
    waits = [after(count, missed=True).again_ms(gives=False) for count in range(10)]
    assert waits == [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000, 1_000]
    assert (
        after(3, missed=True).next(at_rest=False, news=False, missed=False).again_ms(gives=False)
        == 10
    )


def test_group_that_never_comes_to_rest_is_slowed_down() -> None:
    assert after(ROUNDS_IN_A_ROW).again_ms(gives=False) == AFTER_TAKING_MS
    assert after(ROUNDS_IN_A_ROW + 1).again_ms(gives=False) == 2 * AFTER_TAKING_MS
    assert after(ROUNDS_IN_A_ROW + 1_000).again_ms(gives=True) == LATEST_MS


def test_rest_and_news_begin_a_new_row() -> None:
    long = after(ROUNDS_IN_A_ROW + 5)
    for at_rest, news in ((True, False), (False, True)):
        assert long.next(at_rest=at_rest, news=news, missed=False) == Rounds()


def test_a_member_has_missed_an_assignment_if_it_knows_only_an_older_one() -> None:
    members = {"a": MemberState(Progress(1, 7)), "b": MemberState(Progress(1, 6))}
    assert was_missed(members, {"a": 0, "b": 0}, 8)
    assert not was_missed(members, {"a": 0}, 8), "b is new"
    assert not was_missed(members, {"a": 0, "b": 0}, 7)
