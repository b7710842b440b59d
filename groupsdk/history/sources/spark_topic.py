"""Read a live `__consumer_offsets` with Spark, as a batch or as a stream: the Data Source "groupsdk-topic"."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from groupsdk.history.session import is_remote
from groupsdk.history.sources import spark_rows
from groupsdk.history.sources.topic_ranges import TopicRange, TopicSettings, topic_tasks
from groupsdk.history.tables.packed import packed
from groupsdk.lazy_imports import override


# limits on how much a stream reads at once
try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:
    ReadAllAvailable = ReadMaxRows = None  # type: ignore[assignment,misc] # Spark 4.0 and 4.1

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef] # Spark 4.0 and 4.1
        """The interface of Spark 4.2 for sources that stop at the end of the log as of their start."""

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
            """Note the offsets at which to end."""


FORMAT: Final = "groupsdk-topic"


def limit_of(most: int | None) -> Any:
    """Return a source's own read limit unless Spark sets one; None for no limit."""
    if ReadMaxRows is None:
        return None
    return ReadAllAvailable() if most is None else ReadMaxRows(most)


def is_limited(limit: Any) -> bool:
    """Return whether Spark leaves a source to its own read limit."""
    return ReadMaxRows is not None and isinstance(limit, ReadMaxRows)


class TopicPart(InputPartition):
    def __init__(self, part: TopicRange) -> None:
        self.range = part


class TopicDataSource(DataSource):
    """Read a topic of a coordinator from brokers, without a jar and without a group.

    `spark.readStream.format("groupsdk-topic").option("bootstrap.servers", "localhost:9092").load()`

    A batch reads up to the end that the partitions have as it starts. What belongs to transactions that are
    still open then is left for later (isolation level read_committed); aborted ones are read, and marked as
    such in the tables.

    Options:
        bootstrap.servers: where to ask first.
        kind: "raw" or "read": see `groupsdk.history.sources.spark_rows`. A stream gives "raw" only.
        buckets: with the kind "read", over how many buckets group records are spread; 1 unless given.
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
        return spark_rows.spark_ddl(spark_rows.shape_of(spark_rows.kind_of(self.options)))

    @override
    def reader(self, schema: Any) -> "TopicBatchReader":
        return TopicBatchReader(dict(self.options))

    @override
    def streamReader(self, schema: Any) -> "TopicStreamReader":
        return TopicStreamReader(dict(self.options))


class TopicBatchReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._settings = TopicSettings(FORMAT, options)

    @override
    def partitions(self) -> Sequence[InputPartition]:
        return [TopicPart(each) for each in self._settings.ranges()]

    @override
    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, TopicPart)
        return _read(self._settings, partition.range)


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Read continuously; an offset of the stream is the next offset of each partition."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._settings = TopicSettings(FORMAT, options)
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
            TopicPart(TopicRange(int(partition), start.get(partition, 0), stop))
            for partition, stop in end.items()
            if stop > start.get(partition, 0)
        ]

    @override
    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, TopicPart)
        return _read(self._settings, partition.range)

    @override
    def commit(self, end: dict[str, int]) -> None:
        """Commit nothing: Spark's checkpoint holds the stream's offsets."""


def _read(settings: TopicSettings, part: TopicRange) -> Iterator[Any]:
    if settings.kind != spark_rows.READ_KIND:
        return settings.raw(part)
    return packed(settings.read(part), settings.buckets)


def read_topic(spark: SparkSession, options: Mapping[str, str]) -> spark_rows.Reading:
    """Return a function that reads a live topic, for `job.Inputs`; see `TopicDataSource` for the options."""

    def frame(buckets: int) -> DataFrame:
        spark.dataSource.register(TopicDataSource)
        reader = spark.read.format(FORMAT).options(**options).option("kind", spark_rows.READ_KIND)
        return reader.option("buckets", str(buckets)).load()

    if is_remote(spark):
        # the server may reach brokers that this machine cannot
        return spark_rows.Reading(frame)
    return spark_rows.Reading(frame, lambda: topic_tasks(options))


def _texts(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}
