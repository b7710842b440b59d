"""Follow a log with Spark Structured Streaming: each micro-batch is one update of all tables.

Spark's checkpoint defines the records of a batch, and the ledger beside the tables whether it is committed: a batch that
is repeated after a crash is skipped, or processed again from the start. docs/following.md says why the state of groups is in
files of the ledger and not in Spark's state store.
"""

import logging
import re
from collections.abc import Callable, Sequence
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from groupsdk import errors
from groupsdk.history.follow.archive import read_raw
from groupsdk.history.follow.running_totals import LateTransactionError
from groupsdk.history.follow.update_steps import Each, R, T
from groupsdk.history.follow.updater import Updater
from groupsdk.history.pipeline import Progress, silent
from groupsdk.history.read.buckets import Buckets
from groupsdk.history.sources.spark_rows import as_declared, run_in_tasks
from groupsdk.history.sources.spark_writer import write_tables
from groupsdk.history.tables.schemas import RAW, TABLES


logger = logging.getLogger(__name__)

TRIGGER_BYTES: Final = 1024 * 1024 * 1024
"""The default number of bytes of an archive's files that are read at once."""
_RAISED: Final = re.compile(
    r"^(?!org\.|java)([\w.]*?)(\w+(?:Error|Exception))(?:: (.*))?$", re.MULTILINE
)
"""The last line of a traceback of Python's: module, name and text of the exception."""
_NO_PYTHON: Final = "Python worker failed to connect back"
"""A process of Python's has 10 s to start."""


def in_tasks(spark: SparkSession) -> Each:
    def each(function: Callable[[T], R], values: Sequence[T], /) -> Sequence[R]:
        return run_in_tasks(spark, function, values)

    return each


def read_archive_stream(
    spark: SparkSession, archive: str, *, at_once: int | None = TRIGGER_BYTES
) -> DataFrame:
    """Return the stream of an archive's raw records, from the first one; `at_once` bytes of its files make a batch, None: all."""
    reader = spark.readStream.schema(TABLES[RAW].ddl)
    # by default Spark ignores files that are a week older than the newest
    reader = reader.option("maxFileAge", "36500d")
    if at_once is not None:
        reader = reader.option("maxBytesPerTrigger", str(at_once))
    return reader.parquet(f"{archive.rstrip('/')}/{RAW}")


def follow(
    stream: DataFrame,
    updater: Updater,
    *,
    trigger: str | None = None,
    progress: Progress = silent,
    after: Callable[[], None] = lambda: None,
) -> StreamingQuery:
    """Keep tables up to date from a stream of raw records, `trigger` often or (None) once; returns the running query.

    A query that was stopped or killed continues where it was: its checkpoint is beside the tables.
    """
    records = stream.transform(as_declared(RAW))

    def take(batch: DataFrame, number: int) -> None:
        if updater.update(lambda landing: land(batch, landing), batch=number, progress=progress):
            after()

    writer = (
        records.writeStream.foreachBatch(take)
        .option("checkpointLocation", updater.checkpoint)
        .queryName("groupsdk history follow")
    )
    writer = (
        writer.trigger(availableNow=True)
        if trigger is None
        else writer.trigger(processingTime=trigger)
    )
    return writer.start()


def reason(failure: StreamingQueryException) -> tuple[str, bool]:
    """Return in one line why a query ended, and whether that may pass: a cluster out of reach, or a machine that is too busy."""
    said = str(failure)
    if _NO_PYTHON in said:
        return _NO_PYTHON, True
    raised = _RAISED.findall(said)
    if not raised:
        return said.partition("\n")[0], False
    module, name, text = raised[-1]
    kind = getattr(errors, name, None) if module == f"{errors.__name__}." else None
    if kind is None:
        return f"{name}: {text}" if text else name, False
    return text, kind.retriable or kind is errors.ResolveError


def catch_up(
    spark: SparkSession,
    archive: str,
    updater: Updater,
    *,
    at_once: int | None = TRIGGER_BYTES,
    progress: Progress = silent,
) -> None:
    """Bring tables up to date with the new files of an archive, `at_once` bytes of them in an update; None: all."""
    query = follow(read_archive_stream(spark, archive, at_once=at_once), updater, progress=progress)
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        if LateTransactionError.__name__ not in str(error):
            raise
        # the files of a batch of the archive lay in two updates; all at once they are in order
        logger.warning("history: records of transactions came late, so all is read again")
        updater.start_over()
        again = read_archive_stream(spark, archive, at_once=None)
        follow(again, updater, progress=progress).awaitTermination()
    if not updater.is_current:
        # there was nothing new, but code or options are other ones, or the archive is empty
        updater.update(lambda _: None, progress=progress)


def land(batch: DataFrame, landing: Buckets) -> None:
    """Read a batch of raw records in Spark's tasks, and write the stages to `landing`."""
    frame = read_raw(batch).frame(1)
    write_tables(frame, landing.root, "part", buckets=landing.count, cluster_id=landing.cluster_id)
