"""Read a live topic range by range, without a group and without Spark."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from groupsdk.errors import ConfigError
from groupsdk.history.read.arrow_rows import Reject, raw_rows
from groupsdk.history.read.batches import Records
from groupsdk.history.read.reading import Reader, TableBatches
from groupsdk.history.sources.segment_files import TOPIC
from groupsdk.history.sources.spark_rows import READ_KIND, kind_of
from groupsdk.history.sources.topic_reader import FETCH_BYTES, Fetched, Span, TopicReader


_OWN: Final = frozenset(
    {
        "topic",
        "kind",
        "buckets",
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
MAX_OFFSETS: Final = 1_000_000
"""How many offsets of all partitions together are read at once, unless `max_offsets` says otherwise."""
_RECORD_BYTES: Final = 100
"""The approximate size of a record, to estimate how much there is to read."""


@dataclass(frozen=True, slots=True)
class TopicRange:
    """The offsets of a partition that one task reads: from `start` to `end`, exclusive."""

    partition: int
    start: int
    end: int

    @property
    def name(self) -> str:
        return f"part-{self.partition:05}-{self.start:020}"


class TopicSettings:
    """The settings of reading a live topic, as `groupsdk.history.sources.spark_topic.TopicDataSource` declares them; can be pickled."""

    def __init__(self, source: str, options: Mapping[str, str]) -> None:
        own = {key.lower(): value for key, value in options.items()}
        self.topic = own.get("topic", TOPIC)
        self.kind = kind_of(own)
        self.buckets = int(own.get("buckets", "1"))
        self.only = _numbers(own.get("partitions"))
        self.starting = own.get("startingoffsets", EARLIEST)
        self.ending = own.get("endingoffsets", LATEST)
        self.fetch_bytes = int(own.get("fetch_bytes", str(FETCH_BYTES)))
        limit = own.get("max_offsets")
        self.max_offsets = None if limit is None else int(limit)
        if self.max_offsets is not None and self.max_offsets < 1:
            raise ConfigError(f"max_offsets must be at least 1, not {limit}")
        self.kafka = {
            key.removeprefix(_KAFKA): value for key, value in own.items() if key not in _OWN
        }
        if "bootstrap.servers" not in self.kafka and "bootstrap_servers" not in self.kafka:
            raise ConfigError(f'{source} needs the option "bootstrap.servers": "host:port"')

    def open(self) -> TopicReader:
        return TopicReader(self.kafka)

    def spans(self) -> dict[int, Span]:
        with self.open() as reader:
            there = reader.partitions(self.topic)
            unknown = self.only - set(there)
            if unknown:
                raise ConfigError(
                    f"{self.topic} has no partitions {sorted(unknown)}: it has 0 to {len(there) - 1}"
                )
            return reader.spans(self.topic, sorted(self.only) or there)

    def starts(self, spans: Mapping[int, Span]) -> dict[int, int]:
        return {
            partition: _place(self.starting, partition, span, span.start, "startingOffsets")
            for partition, span in spans.items()
        }

    def ends(self, spans: Mapping[int, Span]) -> dict[int, int]:
        return {
            partition: _place(self.ending, partition, span, span.end, "endingOffsets")
            for partition, span in spans.items()
        }

    def ranges(self) -> list[TopicRange]:
        """Look up the ranges of a batch: from the partitions' start offsets to their end now."""
        spans = self.spans()
        starts, ends = self.starts(spans), self.ends(spans)
        return [TopicRange(each, starts[each], ends[each]) for each in sorted(spans)]

    def next_ranges(
        self, spans: Mapping[int, Span], positions: Mapping[int, int]
    ) -> list[TopicRange]:
        """Return the ranges to read next, up to the ends of `spans`: `max_offsets` of each partition, or `MAX_OFFSETS` of all together.

        `positions`: the next offset of each partition of which some were read.
        """
        starts, ends = self.starts(spans), self.ends(spans)
        most = self.max_offsets or max(1, MAX_OFFSETS // max(1, len(ends)))
        begins = {each: positions.get(each, starts[each]) for each in ends}
        return [
            TopicRange(each, begins[each], min(end, begins[each] + most))
            for each, end in ends.items()
            if end > begins[each]
        ]

    def raw(self, part: TopicRange) -> Iterator[Any]:
        for fetched in self._fetched(part):
            records = within(fetched.records, part)
            if len(records):
                yield raw_rows(records, part.partition)

    def read(self, part: TopicRange) -> TableBatches:
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
    """Drop the records outside the range: brokers return whole batches."""
    chosen = (records.offsets >= part.start) & (records.offsets < part.end)
    return records if chosen.all() else records.take(chosen)


@dataclass(frozen=True, slots=True)
class TopicTask:
    settings: TopicSettings
    range: TopicRange

    @property
    def name(self) -> str:
        return self.range.name

    @property
    def size(self) -> int:
        """About how many bytes it reads, offsets removed by compaction included."""
        return _RECORD_BYTES * (self.range.end - self.range.start)

    def read(self) -> TableBatches:
        return self.settings.read(self.range)


def topic_tasks(options: Mapping[str, str]) -> list[TopicTask]:
    """Return the tasks that read a live topic up to its current end, one for each partition.

    Raises:
        ConfigError: an option has an invalid value, or bootstrap.servers is missing.
        NetworkError: no broker can be reached.
    """
    settings = TopicSettings("the history", {**options, "kind": READ_KIND})
    return [TopicTask(settings, each) for each in settings.ranges() if each.end > each.start]


def _numbers(text: str | None) -> frozenset[int]:
    try:
        return frozenset(int(each) for each in (text or "").split(",") if each.strip())
    except ValueError:
        raise ConfigError(f'partitions must be numbers such as "0,7", not {text!r}') from None


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
            f'{option} must be "earliest", "latest" or offsets as JSON such as {{"7": 120}}, not {text!r}'
        ) from None
    return min(max(found, span.start), span.end)
