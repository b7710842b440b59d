"""Read a live `__consumer_offsets` with Spark, as a batch or as a stream: the Data Source "groupsdk-topic"."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from typing_extensions import override

from groupsdk.errors import ConfigError
from groupsdk.history.kernel.rows import Reject, reject_rows
from groupsdk.history.sources.admission import (
    SupportsTriggerAvailableNow,
    is_limited,
    limit_of,
)
from groupsdk.history.sources.broker import FETCH_BYTES, Fetched, Span, TopicReader
from groupsdk.history.sources.kinds import RAW_KIND, REST_KIND, cut, shape_of, spark_ddl
from groupsdk.history.sources.segments import TOPIC


FORMAT: Final = "groupsdk-topic"
_OWN: Final = frozenset(
    {
        "topic",
        "kind",
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
        kind: "raw", "commits" or "rest": see `groupsdk.history.sources.kinds`.
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
        return spark_ddl(shape_of(self.options.get("kind", RAW_KIND)))

    @override
    def reader(self, schema: Any) -> "TopicBatchReader":
        return TopicBatchReader(dict(self.options))

    @override
    def streamReader(self, schema: Any) -> "TopicStreamReader":
        return TopicStreamReader(dict(self.options))


class _Settings:
    """The options of one source, checked."""

    def __init__(self, options: Mapping[str, str]) -> None:
        given = {key.lower(): value for key, value in options.items()}
        self.topic = given.get("topic", TOPIC)
        self.kind = given.get("kind", RAW_KIND)
        shape_of(self.kind)
        self.only = _numbers(given.get("partitions"))
        self.starting = given.get("startingoffsets", EARLIEST)
        self.ending = given.get("endingoffsets", LATEST)
        self.fetch_bytes = int(given.get("fetch_bytes", str(FETCH_BYTES)))
        limit = given.get("max_offsets")
        self.max_offsets = None if limit is None else int(limit)
        if self.max_offsets is not None and self.max_offsets < 1:
            raise ConfigError(f"max_offsets is {limit}; at least one has to be read at once")
        self.kafka = {
            key.removeprefix(_KAFKA): value for key, value in given.items() if key not in _OWN
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
        with self.open() as reader:
            for fetched in reader.read(
                self.topic, part.partition, part.start, part.end, fetch_bytes=self.fetch_bytes
            ):
                yield from rows(fetched, self.kind, self.topic, part)


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


def rows(fetched: Fetched, kind: str, topic: str, part: TopicRange) -> Iterator[Any]:
    """Give the rows of one kind that are within the range: batches are fetched as a whole."""
    place = f"{topic}-{part.partition}"
    for batch in cut(kind, fetched.records, part.partition, place):
        offsets = batch.column("src_offset")
        within = pc.and_(pc.greater_equal(offsets, part.start), pc.less(offsets, part.end))
        kept = batch.filter(within)
        if kept.num_rows:
            yield pa.RecordBatch.from_arrays(kept.columns, schema=batch.schema)
    if kind == REST_KIND and fetched.records.bad:
        rejects = [
            Reject(bad.base_offset, place, bad.reason, bad.records_count)
            for bad in fetched.records.bad
        ]
        yield reject_rows(rejects, part.partition)


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
