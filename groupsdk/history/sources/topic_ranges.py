"""Read a live topic range by range, without a group and without Spark."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from groupsdk.errors import ConfigError
from groupsdk.history.kernel.arrow_rows import Reject, raw_rows
from groupsdk.history.kernel.batches import Records
from groupsdk.history.reading import Reader, TableBatches
from groupsdk.history.sources.segment_files import TOPIC
from groupsdk.history.sources.spark_rows import READ_KIND, kind_of
from groupsdk.history.sources.topic_reader import FETCH_BYTES, Fetched, Span, TopicReader


_OWN: Final = frozenset(
    {
        "topic",
        "kind",
        "land",
        "partitions",
        "startingoffsets",
        "endingoffsets",
        "fetch_bytes",
        "max_offsets",
        "path",
    }
)
_KAFKA: Final = "kafka."
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
_RECORD_BYTES: Final = 100
"""About what a record takes, for an estimate of what there is to read."""


@dataclass(frozen=True, slots=True)
class TopicRange:
    """The offsets of a partition that one task reads: from `start` up to `end`, which is not among them."""

    partition: int
    start: int
    end: int

    @property
    def name(self) -> str:
        """Names what a task makes of it."""
        return f"part-{self.partition:05}-{self.start:020}"


class TopicSettings:
    """What is read of a live topic, and from where; goes to other processes.

    Args:
        source: what reads it, for errors.
        options: as `groupsdk.history.sources.spark_topic.TopicDataSource` declares them.

    Raises:
        ConfigError: an option has a value that it cannot have, or no broker is named.
    """

    def __init__(self, source: str, options: Mapping[str, str]) -> None:
        own = {key.lower(): value for key, value in options.items()}
        self.topic = own.get("topic", TOPIC)
        self.kind = kind_of(own)
        self.land = own.get("land")
        self.only = _numbers(own.get("partitions"))
        self.starting = own.get("startingoffsets", EARLIEST)
        self.ending = own.get("endingoffsets", LATEST)
        self.fetch_bytes = int(own.get("fetch_bytes", str(FETCH_BYTES)))
        limit = own.get("max_offsets")
        self.max_offsets = None if limit is None else int(limit)
        if self.max_offsets is not None and self.max_offsets < 1:
            raise ConfigError(f"max_offsets is {limit}; at least one has to be read at once")
        self.kafka = {
            key.removeprefix(_KAFKA): value for key, value in own.items() if key not in _OWN
        }
        if "bootstrap.servers" not in self.kafka and "bootstrap_servers" not in self.kafka:
            raise ConfigError(f'{source} needs the option "bootstrap.servers": "host:port"')

    def open(self) -> TopicReader:
        """Connect to the brokers."""
        return TopicReader(self.kafka)

    def spans(self) -> dict[int, Span]:
        """Look up the partitions that are to be read, and their offsets."""
        with self.open() as reader:
            there = reader.partitions(self.topic)
            unknown = self.only - set(there)
            if unknown:
                raise ConfigError(
                    f"{self.topic} has no partitions {sorted(unknown)}: they are 0 to {len(there) - 1}"
                )
            return reader.spans(self.topic, sorted(self.only) or there)

    def starts(self, spans: Mapping[int, Span]) -> dict[int, int]:
        """Return the offset at which each partition is begun."""
        return {
            partition: _place(self.starting, partition, span, span.start, "startingOffsets")
            for partition, span in spans.items()
        }

    def ends(self, spans: Mapping[int, Span]) -> dict[int, int]:
        """Return the offset before which each partition is ended."""
        return {
            partition: _place(self.ending, partition, span, span.end, "endingOffsets")
            for partition, span in spans.items()
        }

    def ranges(self) -> list[TopicRange]:
        """Look up what a batch reads: from where the partitions start up to where they end now."""
        spans = self.spans()
        starts, ends = self.starts(spans), self.ends(spans)
        return [TopicRange(each, starts[each], ends[each]) for each in sorted(spans)]

    def raw(self, part: TopicRange) -> Iterator[Any]:
        """Give the records as they stand in the log."""
        for fetched in self._fetched(part):
            records = within(fetched.records, part)
            if len(records):
                yield raw_rows(records, part.partition)

    def made(self, part: TopicRange) -> TableBatches:
        """Read the records by the rules of `groupsdk.history.reading`."""
        place = f"{self.topic}-{part.partition}"
        reader = Reader()
        for fetched in self._fetched(part):
            yield from reader.take(within(fetched.records, part), part.partition, place)
            rejects = [
                Reject(bad.base_offset, place, bad.reason, bad.records_count)
                for bad in fetched.records.bad
            ]
            yield from reader.refuse(rejects, part.partition)
        yield from reader.close()

    def _fetched(self, part: TopicRange) -> Iterator[Fetched]:
        with self.open() as reader:
            yield from reader.read(
                self.topic, part.partition, part.start, part.end, fetch_bytes=self.fetch_bytes
            )


def within(records: Records, part: TopicRange) -> Records:
    """Keep the records of the range: batches are fetched as a whole."""
    chosen = (records.offsets >= part.start) & (records.offsets < part.end)
    return records if chosen.all() else records.take(chosen)


@dataclass(frozen=True, slots=True)
class TopicTask:
    """Reads a range of a partition; for `groupsdk.history.local`."""

    settings: TopicSettings
    range: TopicRange

    @property
    def name(self) -> str:
        """Names what it makes."""
        return self.range.name

    @property
    def size(self) -> int:
        """About how many bytes it reads: the offsets that compaction has left out count as well."""
        return _RECORD_BYTES * (self.range.end - self.range.start)

    def read(self) -> TableBatches:
        """Read the range; gives batches, each with the name of its table or stage."""
        return self.settings.made(self.range)


def topic_tasks(options: Mapping[str, str]) -> list[TopicTask]:
    """Return what reads a live topic up to its end of now, one task a partition.

    Args:
        options: Kafka's settings, and those of `groupsdk.history.sources.spark_topic.TopicDataSource`.

    Raises:
        ConfigError: an option has a value that it cannot have, or no broker is named.
        NetworkError: no broker can be reached.
    """
    settings = TopicSettings("the history", {**options, "kind": READ_KIND})
    return [TopicTask(settings, each) for each in settings.ranges() if each.end > each.start]


def _numbers(text: str | None) -> frozenset[int]:
    try:
        return frozenset(int(each) for each in (text or "").split(",") if each.strip())
    except ValueError:
        raise ConfigError(f'partitions is {text!r}; say their numbers, such as "0,7"') from None


def _place(text: str, partition: int, span: Span, otherwise: int, option: str) -> int:
    if text == EARLIEST:
        return span.start
    if text == LATEST:
        return span.end
    try:
        given = json.loads(text)
        found = int(given.get(str(partition), otherwise))
    except (ValueError, AttributeError, TypeError):
        raise ConfigError(
            f'{option} is {text!r}; say "earliest", "latest", or offsets as JSON: {{"7": 120}}'
        ) from None
    return min(max(found, span.start), span.end)
