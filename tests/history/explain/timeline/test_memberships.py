"""Who was in a group from when to when."""

from dataclasses import replace

from groupsdk.history.explain.changes import Cause, Changes
from groupsdk.history.explain.timeline.member import Member
from groupsdk.history.explain.timeline.memberships import Incarnations, Memberships
from groupsdk.history.explain.timeline.rows import (
    DepartureRow,
    GenerationRow,
    GroupRecord,
    MembershipRow,
)
from tests.history.explain.timelines import generation_row


A = Member("a", None, "one", "/h", 45_000, 300_000)
B = Member("b", None, "two", "/h", 45_000, 300_000)


def at(seq: int) -> GenerationRow:
    """Make the generation that stands at this place."""
    return generation_row(
        seq=seq, generation=seq + 10, ts_ms=1000 * seq, partition=3, offset=100 + seq
    )


def test_a_stay_lasts_from_the_first_generation_to_the_last() -> None:
    memberships = Memberships()
    assert list(memberships.update({"a": A, "b": B}, Changes(joined=("a", "b")), at(0))) == []
    assert list(memberships.update({"a": A, "b": B}, Changes(), at(1))) == []
    ended = list(memberships.update({"a": A}, Changes(gone=("b",)), at(2)))
    assert ended == [
        MembershipRow("g", "classic", B, 0, 1, 10, 11, 0, 2000, None, 2, 3, 100),
        DepartureRow("g", "classic", 2, 12, 2000, B, superseded=False),
    ]
    assert [row.end_ms for row in memberships.open()] == [-1]


def test_one_that_was_replaced_has_not_departed() -> None:
    memberships = Memberships()
    list(memberships.update({"a": A}, Changes(joined=("a",)), at(0)))
    changes = Changes(("b",), ("a",), {"a": Cause.CLIENT_RESTART})
    (ended,) = memberships.update({"b": B}, changes, at(1))
    assert isinstance(ended, MembershipRow)
    assert ended.end_reason == "client_restart"


def test_the_end_of_the_group_ends_every_stay() -> None:
    memberships = Memberships()
    list(memberships.update({"a": A, "b": B}, Changes(joined=("a", "b")), at(0)))
    ended = list(memberships.end("group_deleted", 5_500))
    assert [(row.member.member_id, row.end_ms, row.end_reason) for row in ended] == [
        ("a", 5_500, "group_deleted"),
        ("b", 5_500, "group_deleted"),
    ]
    assert list(memberships.open()) == []


def test_a_client_that_came_again_before_it_was_gone_supersedes_itself() -> None:
    memberships = Memberships()
    again = replace(B, member_id="b2")
    list(memberships.update({"a": A, "b": B}, Changes(joined=("a", "b")), at(0)))
    list(memberships.update({"a": A, "b": B, "b2": again}, Changes(joined=("b2",)), at(1)))
    rows = [*memberships.update({"b2": again}, Changes(gone=("a", "b")), at(2))]
    told = {
        each.member.member_id: each.superseded for each in rows if isinstance(each, DepartureRow)
    }
    assert told == {"a": False, "b": True}


def test_of_clients_with_one_name_none_supersedes_another() -> None:
    memberships = Memberships()
    names = ("b", "b2", "b3")
    crowd = {name: replace(B, member_id=name) for name in names}
    for place, name in enumerate(names):
        there = {each: crowd[each] for each in names[: place + 1]}
        list(memberships.update(there, Changes(joined=(name,)), at(place)))
    _, gone = memberships.update(
        {"b2": crowd["b2"], "b3": crowd["b3"]}, Changes(gone=("b",)), at(3)
    )
    assert isinstance(gone, DepartureRow)
    assert not gone.superseded
    # and the younger one of two does not, either
    _, younger = memberships.update({"b2": crowd["b2"]}, Changes(gone=("b3",)), at(4))
    assert isinstance(younger, DepartureRow)
    assert not younger.superseded


def test_a_client_that_was_there_twice_goes_at_once() -> None:
    memberships = Memberships()
    again = replace(B, member_id="b2")
    list(memberships.update({"b": B}, Changes(joined=("b",)), at(0)))
    list(memberships.update({"b": B, "b2": again}, Changes(joined=("b2",)), at(1)))
    rows = [*memberships.update({}, Changes(gone=("b", "b2")), at(2))]
    told = {
        each.member.member_id: each.superseded for each in rows if isinstance(each, DepartureRow)
    }
    assert told == {"b": True, "b2": False}


def test_generations_are_counted_once_over_all_protocols() -> None:
    incarnations = Incarnations()
    assert [incarnations.next_seq() for _ in range(3)] == [0, 1, 2]
    assert incarnations.incarnation == 0


def test_the_coordinator_has_moved_where_the_partitions_leader_is_a_later_one() -> None:
    incarnations = Incarnations()
    epochs = (4, 4, 6, 5, 6, 7)
    records = [
        GroupRecord("g", 0, place, 0, epoch, None, None) for place, epoch in enumerate(epochs)
    ]
    # an epoch that is lower is of a record that was copied from elsewhere
    assert [incarnations.moved(each) for each in records] == [
        False,
        False,
        True,
        False,
        False,
        True,
    ]
