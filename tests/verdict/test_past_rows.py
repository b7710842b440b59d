"""Checks that rows of the history's tables become a group's past."""

from groupsdk.history.tables.schemas import TABLES
from groupsdk.verdict import Past
from groupsdk.verdict.past_rows import ADVICE, DEPARTURES, GENERATIONS, MEMBERSHIPS, past_of


def test_the_columns_are_those_of_the_history() -> None:
    for name, columns in {
        "memberships": MEMBERSHIPS,
        "departures": DEPARTURES,
        "generations": GENERATIONS,
        "advice": ADVICE,
    }.items():
        assert TABLES[name].arrow_schema.names[: len(columns)] == list(columns)


def generation(seq: int, ts: int | None, members: int) -> dict[str, object]:
    return {
        **dict.fromkeys(GENERATIONS),
        "seq": seq,
        "ts": ts,
        "primary_cause": "join",
        "n_members": members,
        "moved": 0,
        "is_empty": not members,
    }


def past(*generations: dict[str, object]) -> Past:
    return past_of(0, generations=generations, memberships=[], departures=[], advice=[])


def test_generations_are_in_their_order_with_the_absences_between_them() -> None:
    found = past(
        generation(1, 5_000_000, 0), generation(0, 1_000_000, 2), generation(2, 9_000_000, 1)
    )

    assert [(each.at_ms, each.members) for each in found.generations] == [
        *((1_000, 2), (5_000, 0), (9_000, 1))
    ]
    assert found.absences == ((5_000, 9_000),)


def test_an_unknown_time_is_no_end_of_an_absence() -> None:
    assert past(generation(0, 1_000_000, 0), generation(1, None, 2)).absences == ()
