"""Name what members have in few words: ranges of partitions, tasks and shards, a bounded number of them. Pure."""

from collections.abc import Iterable
from typing import Final

from groupsdk.admin.descriptions import Assignment, families_of, ranges
from groupsdk.assignment import TopicPartition


MAX_RANGES: Final = 100
"""So many topics, or other names, are shown of one member."""
_MAX_LENGTH: Final = 600
"""The length of the numbers shown of one topic, in characters."""


def shown_parts(assignment: Assignment) -> list[str]:
    """Return what an assignment has, a range of partitions for each topic, then connectors, tasks and shards."""
    shown = topic_ranges(assignment.partitions)
    for names in (assignment.connectors, assignment.tasks, assignment.shards):
        shown += map(cut, families_of(names))
    if not shown and assignment.other is not None:
        shown = list(map(cut, assignment.parts or (assignment.text,)))
    return bounded([each for each in shown if each])


def topic_ranges(partitions: Iterable[TopicPartition]) -> list[str]:
    """Return partitions as in `["orders(0-3,7)", "payments(1)"]`."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return [cut(ranges({topic: tuple(numbers)})) for topic, numbers in sorted(by_topic.items())]


def cut(text: str) -> str:
    """Return a text that is not longer than a few lines."""
    return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}…"


def bounded(shown: list[str]) -> list[str]:
    """Return the first names, and how many more there are."""
    if len(shown) <= MAX_RANGES:
        return shown
    return [*shown[:MAX_RANGES], f"and {len(shown) - MAX_RANGES} more"]
