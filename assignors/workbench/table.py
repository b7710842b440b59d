"""Write what became of a group as a table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from assignors.workbench.simulation import Outcome


_HEADS = ("moves", "loads", "rounds", "ms")


def table(
    assignors: Sequence[str], events: Sequence[str], outcomes: "Sequence[Sequence[Outcome]]"
) -> str:
    """Write moves, loads (least to greatest), rounds and CPU time, one block of columns an assignor.

    Behind the moves, in brackets, a bound: without a greater load none moves fewer. Behind the loads an
    exclamation mark where fairer ones are possible; "invalid" in place of all of it if the plan is.
    """
    blocks = [
        _block(name, [row[place] for row in outcomes]) for place, name in enumerate(assignors)
    ]
    members = [str(row[0].members) if row else "" for row in outcomes]
    first = _aligned([("", ""), ("event", "members"), *zip(events, members, strict=True)])
    return "\n".join("  |  ".join(line).rstrip() for line in zip(first, *blocks, strict=True))


def _block(name: str, outcomes: "Sequence[Outcome]") -> list[str]:
    lines = _aligned([_HEADS, *map(_cells, outcomes)], right=True)
    width = max(len(name), *map(len, lines))
    return [name.ljust(width), *(line.ljust(width) for line in lines)]


def _cells(outcome: "Outcome") -> tuple[str, ...]:
    quality = outcome.quality
    if not quality.is_valid:
        return ("invalid", "", str(outcome.rounds), f"{outcome.cpu_ms:.2f}")
    loads = f"{quality.fewest}-{quality.most}{'' if quality.is_fairest else '!'}"
    moves = f"{quality.moves} ({quality.least_moves})"
    return (moves, loads, str(outcome.rounds), f"{outcome.cpu_ms:.2f}")


def _aligned(rows: Sequence[Sequence[str]], *, right: bool = False) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if right or place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
