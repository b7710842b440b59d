"""Run the whole pipeline: read a log, make every table, and write them as Parquet."""

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from pyspark.sql import DataFrame, SparkSession, functions as f

from groupsdk.errors import ConfigError
from groupsdk.history import decode
from groupsdk.history.groups.landing import TABLES as LANDED, folders
from groupsdk.history.groups.replaying import AssignorLike, resolve
from groupsdk.history.kernel.spans import SPANS
from groupsdk.history.publishing import STAGING, begin, finish, publish
from groupsdk.history.replay import DEFAULT_ASSIGNORS, summary
from groupsdk.history.schemas import TABLES, Table
from groupsdk.history.sources.kinds import spark_ddl
from groupsdk.history.sources.landing import COMMITS_FOLDER, PARTS_FOLDER
from groupsdk.history.sources.places import Store, made_empty
from groupsdk.history.tables import storms as storm_defaults
from groupsdk.history.tables.causes import generations
from groupsdk.history.tables.commits import commit_parts, commit_spans, offset_commits
from groupsdk.history.tables.departures import departures
from groupsdk.history.tables.following import GENERATION, NAMES, events, land_events, of_kind
from groupsdk.history.tables.lag import lower_bounds, sampled
from groupsdk.history.tables.memberships import memberships
from groupsdk.history.tables.moves import moves
from groupsdk.history.tables.quality import quality, rejects
from groupsdk.history.tables.restarts import restarts
from groupsdk.history.tables.shape import shaped
from groupsdk.history.tables.storms import storms
from groupsdk.history.tables.topics import topics, with_inferred
from groupsdk.history.tables.transactions import outcomes, split_deferred


logger = logging.getLogger(__name__)

STAGES: Final = "_stages"
"""The directory of what is written between the steps."""
_MADE: Final = tuple(name for name in TABLES if name != "raw_records")

Progress = Callable[[str, int, int], None]
"""Told before each step: its name, how many are done, and how many there are."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a run reads.

    Attributes:
        commits: records of the kind "commits"; see `sources.kinds`.
        rest: records of the kind "rest".
        topics: names of topics by their ids: `topic_id`, `topic`.
        end_offsets: samples of partitions' ends: `topic`, `partition`, `ts`, `end_offset`.
        reasons: why there were rebalances, of `sources.broker_log`.
        land: reads all of it at once: takes a directory, has the tasks write the committed offsets there
            (see `sources.landing`), and returns the other records. Several times as fast as `commits` and
            `rest`, which are read where it cannot be used: it writes Parquet, with pyarrow.
        ends: why members are gone, of `sources.broker_log`.
    """

    commits: DataFrame
    rest: DataFrame
    topics: DataFrame | None = None
    end_offsets: DataFrame | None = None
    reasons: DataFrame | None = None
    land: Callable[[str], DataFrame] | None = None
    ends: DataFrame | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """What a run can be told.

    Attributes:
        assignors: what is replayed.
        storm_generations: so many generations within `storm_window_ms` make a storm.
        storm_window_ms: milliseconds.
        session_timeout_ms: of members whose records do not say, in milliseconds; None: see
            `tables.departures`.
        format: of the tables: "parquet", or one that the session has besides ("delta", "iceberg").
    """

    assignors: Sequence[AssignorLike] = DEFAULT_ASSIGNORS
    storm_generations: int = storm_defaults.GENERATIONS
    storm_window_ms: int = storm_defaults.WINDOW_MS
    session_timeout_ms: int | None = None
    format: str = "parquet"


@dataclass(frozen=True, slots=True)
class _Read:
    rest: DataFrame
    commits: DataFrame
    """The table `offset_commits`."""
    parts: DataFrame
    """Of the spans of commits."""


@dataclass(slots=True)
class _Run:
    """One run; it writes Parquet into a directory of its own, and puts all tables in their places in the end."""

    spark: SparkSession
    out: str
    """The directory of the run."""
    options: Options
    progress: Progress
    written: dict[str, DataFrame] = field(default_factory=dict)
    steps: int = 0
    telling: Lock = field(default_factory=Lock)

    def stage(self, name: str, frame: DataFrame) -> DataFrame:
        """Write what several tables are made from, so that it is made once."""
        self._tell(name)
        path = f"{self.out}/{STAGES}/{name}"
        frame.write.mode("overwrite").parquet(path)
        return self.spark.read.schema(frame.schema).parquet(path)

    def write(self, name: str, frame: DataFrame) -> DataFrame:
        """Write a table."""
        self._tell(name)
        table = TABLES[name]
        _save(frame, table, "parquet", f"{self.out}/{name}")
        return self._load(name)

    def read(self, inputs: Inputs) -> _Read:
        """Read the log: at once where the tasks can write what they read, or else once for each kind."""
        root = None
        if inputs.land is not None:
            root = made_empty(self.out, (COMMITS_FOLDER, PARTS_FOLDER))
        if inputs.land is None or root is None:
            rest = self.stage("rest", inputs.rest)
            ends = self.stage("outcomes", outcomes(rest))
            commits = self.write("offset_commits", inputs.commits.transform(offset_commits(ends)))
            return _Read(rest, commits, commit_parts(commits))
        late, rest = split_deferred(self.stage("rest", inputs.land(root)))
        ends = self.stage("outcomes", outcomes(rest))
        self._tell("offset_commits")
        parts = self.spark.read.schema(spark_ddl(SPANS)).parquet(f"{self.out}/{PARTS_FOLDER}")
        if not late.isEmpty():
            path = f"{self.out}/{STAGES}/late"
            decoded = decode.commits(late).transform(offset_commits(ends))
            decoded.write.mode("overwrite").parquet(path)
            decoded = self.spark.read.schema(decoded.schema).parquet(path)
            table = decoded.write.mode("append").partitionBy(*TABLES["offset_commits"].partition_by)
            table.parquet(f"{self.out}/{COMMITS_FOLDER}")
            parts = parts.unionByName(commit_parts(decoded))
        return _Read(rest, self._load("offset_commits"), parts)

    def follow(self, rest: DataFrame, names: DataFrame) -> DataFrame:
        """Go through all groups once; writes what is done with that, and gives the events."""
        # those that go by ids are no more than a cluster has topics
        known = {row.topic_id: row.topic for row in names.collect()}
        root = made_empty(self.out, folders())
        if root is None:
            followed = self.stage("events", events(rest, known, self.options.assignors))
            for kind, name in LANDED.items():
                self.write(name, followed.transform(of_kind(kind)).transform(shaped(name)))
            return followed
        self._tell("events")
        followed = land_events(rest, root, known, self.options.assignors)
        for name in LANDED.values():
            self._tell(name)
            self._load(name)
        return followed

    def _load(self, name: str) -> DataFrame:
        self.written[name] = _load(self.spark, name, "parquet", self.out)
        return self.written[name]

    def _tell(self, name: str) -> None:
        with self.telling:
            logger.info("history: %s", name)
            self.progress(name, self.steps, STEPS)
            self.steps += 1


STEPS: Final = 18
"""How many steps a run has."""
LANES: Final = 2
"""How many steps are run beside the one after the other."""


def _silent(name: str, done: int, steps: int) -> None:
    """Tell nobody."""


def run(
    spark: SparkSession,
    inputs: Inputs,
    out: str,
    options: Options | None = None,
    *,
    progress: Progress = _silent,
) -> Mapping[str, DataFrame]:
    """Make every table and write it below `out`, in the place of what is there.

    A run can be repeated: the tables are made from what is read, and have the same rows in the end. Those that are
    there stay as they are until all are made: a run that fails changes nothing.

    Args:
        spark: the session; see `session.build_session`.
        inputs: what to read.
        out: a directory that driver and executors share.
        options: what to do differently.
        progress: told of each step.

    Returns:
        The tables by name, as they are read from their files.

    Raises:
        ConfigError: an assignor is not known.
    """
    options = options or Options()
    for assignor in options.assignors:
        # before the log is read
        resolve(assignor)
    store = Store(spark, out)
    begin(store, _MADE)
    job = _Run(spark, f"{store.root}/{STAGING}", options, progress)
    try:
        _make(job, inputs)
        if options.format == "parquet":
            publish(store, _MADE)
        else:
            for name in _MADE:
                _save(job.written[name], TABLES[name], options.format, f"{store.root}/{name}")
    finally:
        store.delete(STAGING)
    return {name: _load(spark, name, options.format, store.root) for name in _MADE}


def _make(job: _Run, inputs: Inputs) -> None:
    options = job.options
    found = job.read(inputs)
    rest, commits = found.rest, found.commits
    naming = events(rest.filter(f.col("record_type") == NAMES))
    told = topics(naming, commits, inputs.topics)
    names = job.write("topics", told.transform(with_inferred(rest, commits)))
    followed = job.follow(rest, names)
    counted = followed.transform(of_kind(GENERATION))
    with ThreadPoolExecutor(LANES, "history") as lanes:
        # what nothing else waits for is made beside the rest, or cores would idle at every step's end
        beside = [lanes.submit(job.write, "replay_summary", summary(job.written["replay"]))]
        refused = lanes.submit(job.write, "rejects", rejects(rest, followed))
        spans = job.write("commit_spans", found.parts.transform(commit_spans(counted)))
        behind = lower_bounds(spans)
        if inputs.end_offsets is not None:
            behind = behind.unionByName(commits.transform(sampled(inputs.end_offsets)))
        beside.append(lanes.submit(job.write, "lag", behind))
        gone = job.stage(
            "departures",
            followed.transform(
                departures(
                    names,
                    spans,
                    counted,
                    session_timeout_ms=options.session_timeout_ms,
                    told=inputs.ends,
                )
            ),
        )
        lost = job.stage("restarts", followed.transform(restarts(commits, rest)))
        stays = lanes.submit(job.write, "memberships", followed.transform(memberships(gone, lost)))
        moved = job.write("moves", followed.transform(moves(spans)))
        made = job.write(
            "generations", followed.transform(generations(gone, moved, spans, inputs.reasons, lost))
        )
        counts = quality(commits, rest, refused.result(), made)
        beside.append(lanes.submit(job.write, "quality", counts))
        job.write(
            "storms",
            made.transform(
                storms(
                    stays.result(),
                    generations=options.storm_generations,
                    window_ms=options.storm_window_ms,
                )
            ),
        )
        for each in beside:
            each.result()


def _save(frame: DataFrame, table: Table, table_format: str, path: str) -> None:
    # days that are no longer there have to go as well
    writer = frame.write.mode("overwrite").format(table_format)
    writer = writer.option("partitionOverwriteMode", "static")
    if table.partition_by:
        writer = writer.partitionBy(*table.partition_by)
    writer.save(path)


def _load(spark: SparkSession, name: str, table_format: str, root: str) -> DataFrame:
    reader = spark.read.format(table_format)
    if table_format == "parquet":
        reader = reader.schema(TABLES[name].ddl)
    return reader.load(f"{root}/{name}")


def read_tables(
    spark: SparkSession, out: str, *, table_format: str = "parquet"
) -> dict[str, DataFrame]:
    """Read the tables that a run has written.

    Raises:
        ConfigError: there are none.
    """
    store = Store(spark, out)
    finish(store, _MADE)
    if not store.exists("generations"):
        raise ConfigError(
            f"{out} has no tables of a history: make them with `groupsdk history run`"
        )
    return {name: _load(spark, name, table_format, store.root) for name in _MADE}


def create_views(tables: Mapping[str, DataFrame]) -> None:
    """Let the tables be asked with SQL, each under its name."""
    for name, frame in tables.items():
        frame.createOrReplaceTempView(name)
