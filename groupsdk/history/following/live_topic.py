"""Follow a live topic without Spark: each round reads what is new of its partitions, and updates all tables."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from groupsdk.history.following.updater import TaskOutput, Updater
from groupsdk.history.pipeline import Progress, silent
from groupsdk.history.sources.topic_ranges import TopicRange, TopicSettings


MAX_OFFSETS: Final = 1_000_000
"""So many offsets of all partitions together are read at once, unless `max_offsets` of the settings says otherwise."""


def catch_up(
    settings: TopicSettings,
    updater: Updater,
    *,
    progress: Progress = silent,
    after: Callable[[], None] = lambda: None,
) -> None:
    """Read what a topic has now, as far as no open transaction holds it back, in as many updates as it takes.

    Args:
        settings: of the topic; `max_offsets` is how many offsets of a partition are read at once.
        updater: of the tables; its state says where to go on.
        progress: told of each step of each update.
        after: called after each update.

    Raises:
        DataLossError: the topic no longer has what was to be read next.
        NetworkError: a broker cannot be reached.
    """
    spans = settings.spans()
    starts, ends = settings.starts(spans), settings.ends(spans)
    most = settings.max_offsets or max(1, MAX_OFFSETS // max(1, len(ends)))
    while True:
        positions = dict(updater.state.positions)
        ranges = []
        for partition, end in ends.items():
            begin = positions.get(str(partition), starts[partition])
            if end > begin:
                ranges.append(TopicRange(partition, begin, min(end, begin + most)))
        if not ranges and updater.is_current:
            return
        positions |= {str(each.partition): each.end for each in ranges}
        updater.update(partial(_land, settings, ranges), positions=positions, progress=progress)
        after()


def _land(settings: TopicSettings, ranges: Sequence[TopicRange], landing: TaskOutput) -> None:
    for each in ranges:
        landing.files(each.name).write(settings.made(each))
