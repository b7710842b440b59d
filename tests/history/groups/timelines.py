"""Take records that are written by hand through `follow_groups`, and look at what comes out."""

from collections.abc import Iterable

from examples.history_log import Pair
from groupsdk.history.groups.row_types import (
    DepartureRow,
    GenerationRow,
    GroupRecord,
    MemberRow,
    MembershipRow,
    RejectRow,
    Row,
)
from groupsdk.history.groups.timeline import follow_groups


def records(
    pairs: Iterable[Pair], group: str = "g", epochs: Iterable[int] = ()
) -> list[GroupRecord]:
    """Place records in a log, a second apart."""
    leader_epochs = list(epochs)
    return [
        GroupRecord(
            group,
            7,
            place,
            1000 * place,
            leader_epochs[place] if leader_epochs else 0,
            key,
            value,
        )
        for place, (key, value) in enumerate(pairs)
    ]


def walked(*pairs: Pair, epochs: Iterable[int] = ()) -> list[Row]:
    """Follow one group through its records."""
    return list(follow_groups(records(pairs, epochs=epochs)))


def generations(rows: Iterable[Row]) -> list[GenerationRow]:
    """Take the generations."""
    return [row for row in rows if isinstance(row, GenerationRow)]


def causes(rows: Iterable[Row]) -> list[list[str]]:
    """Take the causes of each generation."""
    return [[str(cause) for cause in row.causes] for row in generations(rows)]


def members(rows: Iterable[Row]) -> list[MemberRow]:
    """Take the members of each generation."""
    return [row for row in rows if isinstance(row, MemberRow)]


def memberships(rows: Iterable[Row]) -> list[MembershipRow]:
    """Take the stays."""
    return [row for row in rows if isinstance(row, MembershipRow)]


def departures(rows: Iterable[Row]) -> list[DepartureRow]:
    """Take the members that are gone without a successor."""
    return [row for row in rows if isinstance(row, DepartureRow)]


def rejects(rows: Iterable[Row]) -> list[RejectRow]:
    """Take what could not be decoded."""
    return [row for row in rows if isinstance(row, RejectRow)]
