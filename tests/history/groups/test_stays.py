"""Who was in a group from when to when."""

from groupsdk.history.groups.causes import Cause, Changes
from groupsdk.history.groups.member import Member
from groupsdk.history.groups.rows import DepartureRow, GenerationRow, MembershipRow
from groupsdk.history.groups.stays import Stays


A = Member("a", None, "one", "/h", 45_000, 300_000)
B = Member("b", None, "two", "/h", 45_000, 300_000)


def at(seq: int) -> GenerationRow:
    """Make the generation that stands at this place."""
    return GenerationRow(
        group_id="g",
        protocol="classic",
        protocol_type="consumer",
        incarnation=0,
        seq=seq,
        generation=seq + 10,
        ts_ms=1000 * seq,
        state_ts_ms=-1,
        assignor="range",
        leader="a",
        n_members=2,
        n_partitions=0,
        joined=0,
        gone=0,
        changed=0,
        causes=(),
        is_first=False,
        missing_before=0,
        coordinator_changed=False,
        balance_stddev=0.0,
        is_empty=False,
        converged_ms=1000 * seq,
        partition=3,
        offset=100 + seq,
    )


def test_a_stay_lasts_from_the_first_generation_to_the_last() -> None:
    stays = Stays()
    assert list(stays.update({"a": A, "b": B}, Changes(joined=("a", "b")), at(0))) == []
    assert list(stays.update({"a": A, "b": B}, Changes(), at(1))) == []
    ended = list(stays.update({"a": A}, Changes(gone=("b",)), at(2)))
    assert ended == [
        MembershipRow("g", "classic", B, 0, 1, 10, 11, 0, 2000, None, 2, 3, 100),
        DepartureRow("g", 2, 12, 2000, B),
    ]
    assert [row.end_ms for row in stays.open()] == [-1]


def test_one_that_was_replaced_has_not_departed() -> None:
    stays = Stays()
    list(stays.update({"a": A}, Changes(joined=("a",)), at(0)))
    changes = Changes(("b",), ("a",), {"a": Cause.CLIENT_RESTART})
    (ended,) = stays.update({"b": B}, changes, at(1))
    assert isinstance(ended, MembershipRow)
    assert ended.end_reason == "client_restart"


def test_the_end_of_the_group_ends_every_stay() -> None:
    stays = Stays()
    list(stays.update({"a": A, "b": B}, Changes(joined=("a", "b")), at(0)))
    ended = list(stays.end("group_deleted", 5_500))
    assert [(row.member.member_id, row.end_ms, row.end_reason) for row in ended] == [
        ("a", 5_500, "group_deleted"),
        ("b", 5_500, "group_deleted"),
    ]
    assert list(stays.open()) == []
