"""The form of a rule, and words that several rules use."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from groupsdk.verdict.observation import Observation, Thresholds
from groupsdk.verdict.values import Severity


class Evidence(NamedTuple):
    """A rule's finding, which `judge` completes with the names of the rule and the group."""

    severity: Severity
    saw: str
    cost: str
    change: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, with its row of the table in docs/verdict.md."""

    name: str
    severity: Severity
    """The worst that it finds."""
    sees: str
    costs: str
    advises: str
    check: Callable[[Observation, Thresholds], Iterable[Evidence]]


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def length(milliseconds: float) -> str:
    """Return a duration in the largest unit of which it has at least two."""
    seconds = milliseconds / 1000
    for unit, size in (("days", 86_400), ("hours", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def names(found: Iterable[str], most: int = 5) -> str:
    """Join names, the first few of many."""
    every = list(found)
    if len(every) <= most:
        return ", ".join(every)
    return f"{', '.join(every[:most])} and {len(every) - most} more"
