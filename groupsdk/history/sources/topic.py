"""Read a live `__consumer_offsets` with Spark, as a batch or as a stream: the Data Source "groupsdk-topic"."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from typing_extensions import override

from groupsdk.errors import ConfigError
from groupsdk.history.kernel.batches import Records
from groupsdk.history.kernel.rows import Reject, raw_rows
from groupsdk.history.reading import Made, Reader
from groupsdk.history.sources.admission import (
    SupportsTriggerAvailableNow,
    is_limited,
    limit_of,
)
from groupsdk.history.sources.broker import FETCH_BYTES, Fetched, Span, TopicReader
from groupsdk.history.sources.kinds import (
    READ_KIND,
    Reading,
    given,
    kind_of,
    shape_of,
    spark_ddl,
)
from groupsdk.history.sources.segment_files import TOPIC


FORMAT: Final = "groupsdk-topic"
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


class TopicRange(InputPartition):
    """The offsets of a partition that one task reads: from `start` up to `end`, which is not among them."""

    def __init__(self, partition: int, start: int, end: int) -> None:
        self.partition = partition
        self.start = start
        self.end = end


class TopicDataSource(DataSource):
    """Read a topic of a coordinator from brokers, without a jar and without a group.

    `spark.readStream.format("groupsdk-topic").option("bootstrap.servers", "localhost:9092").load()`

    A batch reads up to the end that the partitions have as it starts. What belongs to transactions that are
    still open then is left for later (isolation level read_committed); aborted ones are read, and marked as
    such in the tables.

    Options:
        bootstrap.servers: where to ask first.
        kind: "raw" or "read": see `groupsdk.history.sources.kinds`. A stream gives "raw" only.
        land: with the kind "read", a directory of tables into which the tasks write what they read.
        topic: `__consumer_offsets` unless given.
        partitions: some of them, such as "0,7"; all unless given.
        startingOffsets: "earliest" (the default), "latest", or offsets by partition as JSON: {"7": 120}.
        endingOffsets: of a batch: "latest" (the default), or offsets by partition as JSON.
        max_offsets: how many offsets of a partition a stream reads at once, from Spark 4.2 on; all unless
            given. The first start over a large log needs it.
        fetch_bytes: how much is asked of a broker at once.
        Kafka's other keys, as they are or with "kafka." before them: "security.protocol",
            "sasl.mechanism", "ssl.ca.location"...
    """

    @classmethod
    @override
    def name(cls) -> str:
        return FORMAT

    @override
    def schema(self) -> str:
        return spark_ddl(shape_of(kind_of(self.options)))

    @override
    def reader(self, schema: Any) -> "TopicBatchReader":
        return TopicBatchReader(dict(self.options))

    @override
    def streamReader(self, schema: Any) -> "TopicStreamReader":
        return TopicStreamReader(dict(self.options))


class _Settings:
    """The options of one source, checked."""

    def __init__(self, options: Mapping[str, str]) -> None:
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
            raise ConfigError(f'{FORMAT} needs the option "bootstrap.servers": "host:port"')

    def open(self) -> TopicReader:
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
        return {
            partition: _place(self.starting, partition, span, span.start, "startingOffsets")
            for partition, span in spans.items()
        }

    def ends(self, spans: Mapping[int, Span]) -> dict[int, int]:
        return {
            partition: _place(self.ending, partition, span, span.end, "endingOffsets")
            for partition, span in spans.items()
        }

    def read(self, part: TopicRange) -> Iterator[Any]:
        if self.kind == READ_KIND:
            name = f"part-{part.partition:05}-{part.start:020}"
            return given(self.made(part), self.land, name)
        return self.raw(part)

    def raw(self, part: TopicRange) -> Iterator[Any]:
        """Give the records as they stand in the log."""
        for fetched in self._fetched(part):
            records = within(fetched.records, part)
            if len(records):
                yield raw_rows(records, part.partition)

    def made(self, part: TopicRange) -> Made:
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


class TopicBatchReader(DataSourceReader):
    """Read what is there now."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._settings = _Settings(options)

    @override
    def partitions(self) -> Sequence[InputPartition]:
        spans = self._settings.spans()
        starts, ends = self._settings.starts(spans), self._settings.ends(spans)
        return [TopicRange(each, starts[each], ends[each]) for each in sorted(spans)]

    @override
    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, TopicRange)
        return self._settings.read(partition)


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Read on and on; an offset of the stream is the next offset of each partition."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._settings = _Settings(options)
        self._target: dict[int, int] | None = None

    @override
    def initialOffset(self) -> dict[str, int]:
        return _texts(self._settings.starts(self._settings.spans()))

    @override
    def latestOffset(
        self, start: dict[str, int] | None = None, limit: Any = None
    ) -> dict[str, int]:
        # Spark 4.0 and 4.1 ask without arguments
        ends = dict(self._target or self._ends())
        most = self._settings.max_offsets if is_limited(limit) else None
        if start is not None:
            for partition, end in ends.items():
                begin = start.get(str(partition), 0)
                # an end that went back, as after an unclean election, must not take the stream back
                ends[partition] = max(begin, end if most is None else min(end, begin + most))
        return _texts(ends)

    @override
    def getDefaultReadLimit(self) -> Any:
        return limit_of(self._settings.max_offsets)

    @override
    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._ends()

    def _ends(self) -> dict[int, int]:
        return {each: span.end for each, span in self._settings.spans().items()}

    @override
    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [
            TopicRange(int(partition), start.get(partition, 0), stop)
            for partition, stop in end.items()
            if stop > start.get(partition, 0)
        ]

    @override
    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, TopicRange)
        return self._settings.read(partition)

    @override
    def commit(self, end: dict[str, int]) -> None:
        """Commit nothing: Spark's checkpoint holds how far the stream is."""


def within(records: Records, part: TopicRange) -> Records:
    """Keep the records of the range: batches are fetched as a whole."""
    chosen = (records.offsets >= part.start) & (records.offsets < part.end)
    return records if chosen.all() else records.take(chosen)


def read_topic(spark: SparkSession, options: Mapping[str, str]) -> Reading:
    """Return what reads a live topic, for `job.Inputs`; see `TopicDataSource` for the options."""
    spark.dataSource.register(TopicDataSource)

    def read(land: str | None) -> DataFrame:
        reader = spark.read.format(FORMAT).options(**options).option("kind", READ_KIND)
        return (reader if land is None else reader.option("land", land)).load()

    return read


def _texts(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


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
