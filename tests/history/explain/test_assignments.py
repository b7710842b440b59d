"""What follows of the rows of groups, in one pass over them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from examples.history_log import Seat, generation
from groupsdk.assignment import AssignorLike
from groupsdk.errors import ConfigError
from groupsdk.history.explain.assignments import AssignmentRow, GroupAssignments, MoveRow
from groupsdk.history.explain.assignor_replay import Candidate, ReplayRow
from groupsdk.history.explain.timeline.rows import GenerationRow, MemberRow, Row
from tests.history.explain.modern_log import JOINED, TOPIC_ID
from tests.history.explain.timelines import follow_groups, records, walked


Derived = Row | AssignmentRow | MoveRow | ReplayRow


def derive(
    rows: Iterable[Row], names: Mapping[str, str], assignors: Sequence[AssignorLike]
) -> Iterator[Derived]:
    """Give the rows of groups again, with `AssignmentRow` in the place of `MemberRow`, and moves and replays."""
    candidates = [Candidate(each) for each in assignors]
    group: GroupAssignments | None = None
    for row in rows:
        if isinstance(row, GenerationRow):
            if group is not None:
                yield from group.close()
            if group is None or group.group_id != row.group_id:
                group = GroupAssignments(row.group_id, names, candidates)
            group.begin(row)
            yield row
        elif isinstance(row, MemberRow):
            assert group is not None
            moves: list[MoveRow] = []
            yield group.take(row, moves)
            yield from moves
        else:
            yield row
    if group is not None:
        yield from group.close()


def both(group: str) -> list[Row]:
    """Follow a group of two members who change places."""
    one, two = Seat("one", {"t": [0]}), Seat("two", {"t": [1]})
    return list(
        follow_groups(
            records(
                [
                    generation(group, 1, {"b": one, "a": two}),
                    generation(group, 2, {"b": two, "a": one}),
                ],
                group,
            )
        )
    )


def replayed(rows: list[Derived]) -> list[tuple[str, int, str, int]]:
    """Take what was replayed."""
    return [
        (row.group_id, row.seq, row.assignor, row.moved)
        for row in rows
        if isinstance(row, ReplayRow)
    ]


def test_every_group_starts_afresh() -> None:
    rows = list(derive([*both("g"), *both("h")], {}, ["range"]))
    assert replayed(rows) == [
        (group, seq, assignor, 2 if seq and assignor == "actual" else 0)
        for group in "gh"
        for seq in range(2)
        for assignor in ("actual", "range")
    ]
    assert [row.of.group_id for row in rows if isinstance(row, MoveRow)] == [*"gghh"]


def test_rows_beyond_the_followed_assignments_stay_as_they_are() -> None:
    rows = both("g")
    found = list(derive(rows, {}, []))
    assert [row for row in found if type(row) in {type(each) for each in rows}] == [
        row for row in rows if not isinstance(row, MemberRow)
    ]
    assert len([row for row in found if isinstance(row, AssignmentRow)]) == 4


def test_only_consumers_are_replayed() -> None:
    (row, *members) = (
        each for each in both("g") if isinstance(each, GenerationRow | MemberRow) and not each.seq
    )
    assert isinstance(row, GenerationRow)
    workers = [
        each._replace(member=replace(each.member, payload=()))
        for each in members
        if isinstance(each, MemberRow)
    ]
    assert not replayed(
        list(derive([row._replace(protocol_type="connect"), *workers], {}, ["range"]))
    )
    # the assignor of a Streams application cannot be replaced
    others = [row._replace(assignor="stream"), *members]
    assert not replayed(list(derive(others, {}, ["range"])))
    # a generation without members is none to share anything out in
    assert not replayed(list(derive(walked(generation("g", 1, {})), {}, ["range"])))


def test_topics_of_the_newer_protocol_are_replayed_under_their_names() -> None:
    rows = walked(*JOINED)
    (unnamed,) = (row for row in derive(rows, {}, ["range"]) if _problem(row))
    assert isinstance(unnamed, ReplayRow)
    found = list(derive(rows, {TOPIC_ID: "t"}, ["range"]))
    assert not any(map(_problem, found))
    assert [row.n_partitions for row in found if isinstance(row, ReplayRow)] == [2, 2]
    share, _ = (row for row in found if isinstance(row, AssignmentRow))
    assert share.of.phase == "target"
    assert share.assigned == (("t", (0, 1)),)
    assert share.of.member.assigned == ((TOPIC_ID, (0, 1)),)


def _problem(row: Derived) -> bool:
    return isinstance(row, ReplayRow) and row.problem is not None


def test_an_assignor_that_is_not_known_is_said_before_anything_else() -> None:
    with pytest.raises(ConfigError, match="did you mean 'sticky'"):
        next(derive([], {}, ["stiky"]))
