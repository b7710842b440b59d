"""`groupsdk history`: explain a cluster's groups from its own log. Needs the extra groupsdk[spark], or [history] for `--engine local`."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import strftime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from groupsdk.cli.command import CommandGroup
from groupsdk.cli.connection import bootstrap_option, gather_settings, settings_options
from groupsdk.errors import ConfigError


if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from groupsdk.history.job import Inputs
    from groupsdk.history.pipeline import Options
    from groupsdk.history.report.tables import ReadsTables

F = TypeVar("F", bound=Callable[..., Any])

REPORT: Final = "report.html"
_TITLE: Final = "What happened to the groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOptions:
    """The options of the history's commands; each command has a part of them."""

    out: str
    segments: str | None = None
    archive: str | None = None
    bootstrap_servers: str | None = None
    config: str | None = None
    settings: Sequence[str] = ()
    broker_log: str | None = None
    log_zone: str = "UTC"
    topics: str | None = None
    end_offsets: str | None = None
    assignors: str = "range,roundrobin,sticky,cooperative-sticky"
    storm: str = "5/300"
    session_timeout: int | None = None
    engine: str = "spark"
    no_report: bool = False
    report: str | None = None
    title: str = _TITLE
    group: Sequence[str] = ()
    once: bool = False
    every: int = 30
    max_offsets: int = 1_000_000
    master: str | None = None
    quiet: bool = False


@click.group(cls=CommandGroup)
def history() -> None:
    """Explain a cluster's groups from its own log: tables, causes, what-if, a report."""


def _spark_options(function: F) -> F:
    function = click.option("--quiet", is_flag=True, help="Write no progress to standard error.")(
        function
    )
    return click.option(
        "--master", help="Spark's master; local[*] unless Spark's settings name one."
    )(function)


def _report_options(function: F) -> F:
    function = click.option("--group", multiple=True, help="A group to show; repeatable.")(function)
    function = click.option(
        "--title", default=_TITLE, show_default=True, help="The report's title."
    )(function)
    return click.option("--report", metavar="FILE", help="Where to write it (OUT/report.html).")(
        function
    )


def _needs_spark() -> None:
    """Fail at once, and before Java starts, where the extra is not installed."""
    import pyspark  # noqa: F401


@history.command(
    "run",
    examples=[
        ("groupsdk history run --segments /var/lib/kafka/data --out out", "a broker's files"),
        (
            "groupsdk history run --bootstrap-servers localhost:9092 --config client.properties --out out",
            "a live cluster",
        ),
    ],
)
@click.option("--segments", metavar="DIR", help="A broker's data directory, or a part of it.")
@click.option("--archive", metavar="DIR", help="A directory that `archive` wrote.")
@bootstrap_option
@settings_options
@click.option("--out", required=True, metavar="DIR", help="Where tables and report are written.")
@click.option("--broker-log", help="Log files of the brokers: exact reasons for rebalances.")
@click.option("--log-zone", default="UTC", show_default=True, help="Time zone of those logs.")
@click.option("--topics", metavar="FILE", help="JSON lines with topic_id and topic: names for ids.")
@click.option(
    "--end-offsets",
    metavar="FILE",
    help="JSON lines with topic, partition, ts and end_offset: exact lag.",
)
@click.option(
    "--assignors",
    default="range,roundrobin,sticky,cooperative-sticky",
    show_default=True,
    help="What to replay: names or package.module:Class, with commas between.",
)
@click.option(
    "--storm",
    default="5/300",
    show_default=True,
    metavar="N/SECONDS",
    help="So many rebalances within so many seconds are a storm.",
)
@click.option(
    "--session-timeout",
    type=int,
    metavar="SECONDS",
    help="group.consumer.session.timeout.ms of the brokers, which the log holds only in part.",
)
@click.option(
    "--engine",
    type=click.Choice(["spark", "local"]),
    default="spark",
    show_default=True,
    help="local: in processes of this machine, without Spark and Java; reads --segments only.",
)
@click.option("--no-report", is_flag=True, help="Write the tables only.")
@_report_options
@_spark_options
def run_command(**given: Any) -> None:
    """Read a log, and write every table and a report."""
    source = click.get_current_context().get_parameter_source("bootstrap_servers")
    if (given["segments"] or given["archive"]) and source is ParameterSource.ENVIRONMENT:
        given["bootstrap_servers"] = None
    options = HistoryOptions(**given)
    sources = (options.segments, options.archive, options.bootstrap_servers)
    if sum(each is not None for each in sources) != 1:
        raise click.UsageError("Give exactly one of --segments, --bootstrap-servers and --archive.")
    if options.engine == "local":
        if not options.segments or options.broker_log or options.end_offsets:
            raise click.UsageError(
                "--engine local reads --segments, without --broker-log and --end-offsets: use --engine spark."
            )
        _run_locally(options)
        return
    _needs_spark()
    _run(options)


@history.command(
    "report", examples=[("groupsdk history report --out out --group orders", "one group")]
)
@click.option("--out", required=True, metavar="DIR", help="The directory of the tables.")
@_report_options
@_spark_options
def report_command(**given: Any) -> None:
    """Write the report of tables that are there."""
    from groupsdk.history.sources.places import local_path

    options = HistoryOptions(**given)
    if local_path(options.out) is None:
        _needs_spark()
    _report(options)


@history.command(
    "archive",
    examples=[
        (
            "groupsdk history archive --bootstrap-servers localhost:9092 --out archive",
            "until Ctrl-C",
        )
    ],
)
@bootstrap_option
@settings_options
@click.option("--out", required=True, metavar="DIR", help="The directory of the archive.")
@click.option("--once", is_flag=True, help="Read what is there, and end.")
@click.option(
    "--every",
    type=int,
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="How often to write.",
)
@click.option(
    "--max-offsets", type=int, default=1_000_000, show_default=True, help="Of a partition at once."
)
@_spark_options
def archive_command(**given: Any) -> None:
    """Keep a live log's records before they are compacted."""
    options = HistoryOptions(**given)
    if not _kafka(options).get("bootstrap.servers"):
        raise click.UsageError("Give --bootstrap-servers HOST:PORT.")
    _needs_spark()
    _archive(options)


class _Progress:
    """Says on standard error which step is run."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def say(self, text: str) -> None:
        if not self._quiet:
            sys.stderr.write(f"{strftime('%H:%M:%S')} {text}\n")
            sys.stderr.flush()

    def step(self, name: str, done: int, steps: int) -> None:
        self.say(f"[{done + 1:2}/{steps}] {name}")


def _session(
    options: HistoryOptions, progress: _Progress, *, brief: bool = False
) -> "SparkSession":
    from groupsdk.history.session import build_session

    progress.say("starting Spark")
    settings = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
    return build_session(master=options.master, brief=brief, settings=settings)


def _run(options: HistoryOptions) -> None:
    from groupsdk.history.job import run as run_job
    from groupsdk.history.report.tables import SparkTables
    from groupsdk.history.sources.broker_log import read_ends

    progress = _Progress(quiet=options.quiet)
    chosen = _chosen(options)
    spark = _session(options, progress, brief=is_brief(options))
    try:
        inputs = _inputs(options, spark)
        if options.broker_log:
            inputs = replace(
                inputs, ends=read_ends(spark, options.broker_log, zone=options.log_zone)
            )
        tables = run_job(spark, inputs, options.out, chosen, progress=progress.step)
        if not options.no_report:
            _write_report(options, progress, SparkTables(tables), spark)
    finally:
        spark.stop()


def _run_locally(options: HistoryOptions) -> None:
    from groupsdk.history.local import run as run_here
    from groupsdk.history.report.tables import ParquetTables
    from groupsdk.history.sources.segment_files import segment_tasks

    assert options.segments is not None
    progress = _Progress(quiet=options.quiet)
    names = _names_in(options.topics) if options.topics else []
    run_here(
        segment_tasks(options.segments),
        options.out,
        _chosen(options),
        names=names,
        progress=progress.step,
    )
    if not options.no_report:
        _write_report(options, progress, ParquetTables(options.out), None)


def _names_in(path: str) -> list[tuple[str, str]]:
    """Read ids and names of topics from JSON lines.

    Raises:
        ConfigError: the file cannot be read, or a line has no topic_id and topic.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines if line.strip()]
        return [(str(row["topic_id"]), str(row["topic"])) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"--topics {path} must have JSON lines with topic_id and topic: {error!r}"
        ) from error


def _chosen(options: HistoryOptions) -> "Options":
    from groupsdk.history.pipeline import Options

    n, seconds = storm_of(options.storm)
    return Options(
        tuple(each.strip() for each in options.assignors.split(",") if each.strip()),
        storm_generations=n,
        storm_window_ms=seconds * 1000,
        session_timeout_ms=options.session_timeout and options.session_timeout * 1000,
    )


def is_brief(options: HistoryOptions) -> bool:
    """Tell whether there is little to read; of what is not in segment files, nobody knows beforehand."""
    from groupsdk.history.session import BRIEF_BYTES
    from groupsdk.history.sources.places import is_known
    from groupsdk.history.sources.segment_files import find_segments

    if not options.segments or not is_known(options.segments):
        return False
    # fails before Spark starts where there is nothing to read
    return sum(each.size for each in find_segments(options.segments)) <= BRIEF_BYTES


def storm_of(text: str) -> tuple[int, int]:
    """Read "N/SECONDS".

    Raises:
        GroupSdkError: it is something else.
    """
    first, _, second = text.partition("/")
    if not (first.isdecimal() and second.isdecimal() and int(first) > 1 and int(second) > 0):
        raise ConfigError(
            f"--storm is {text!r}; say N/SECONDS with an N of 2 at least, such as 5/300"
        )
    return int(first), int(second)


def _inputs(options: HistoryOptions, spark: "SparkSession") -> "Inputs":
    from groupsdk.history import decode
    from groupsdk.history.archive import read_archive
    from groupsdk.history.job import Inputs
    from groupsdk.history.sources import segments, topic
    from groupsdk.history.sources.broker import TopicReader
    from groupsdk.history.sources.broker_log import read_broker_log
    from groupsdk.history.sources.places import is_known

    names: Any = None
    if options.topics:
        names = spark.read.schema("topic_id string, topic string").json(options.topics)
    ends: Any = None
    if options.end_offsets:
        shape = "topic string, partition int, ts timestamp, end_offset bigint"
        ends = spark.read.schema(shape).json(options.end_offsets)
    reasons: Any = None
    if options.broker_log:
        reasons = read_broker_log(spark, options.broker_log, zone=options.log_zone)
    if options.segments and not is_known(options.segments):
        return Inputs(segments.read_with_spark(spark, options.segments), names, ends, reasons)
    if options.segments:
        return Inputs(segments.read_segments(spark, options.segments), names, ends, reasons)
    if options.bootstrap_servers:
        kafka = _kafka(options)
        if names is None:
            with TopicReader(kafka) as live:
                pairs = sorted(live.topic_ids().items())
            names = spark.createDataFrame(pairs, "topic_id string, topic string")
        return Inputs(topic.read_topic(spark, kafka), names, ends, reasons)
    assert options.archive is not None
    raw = read_archive(spark, options.archive)
    return Inputs(decode.read_raw(raw), names, ends, reasons)


def _kafka(options: HistoryOptions) -> dict[str, str]:
    """Take the settings of connections from a file of properties and the command line."""
    given = {"bootstrap_servers": options.bootstrap_servers}
    settings, _ = gather_settings(options.config, options.settings, given)
    return settings


def _report(options: HistoryOptions) -> None:
    from groupsdk.history.publishing import finish
    from groupsdk.history.report.tables import ParquetTables, SparkTables
    from groupsdk.history.sources.places import Store, local_path
    from groupsdk.history.stage_tables import MADE

    progress = _Progress(quiet=options.quiet)
    if local_path(options.out) is not None:
        # a run that was killed as it put its tables in their places
        finish(Store(None, options.out), MADE)
        _write_report(options, progress, ParquetTables(options.out), None)
        return
    from groupsdk.history.job import read_tables

    spark = _session(options, progress, brief=True)
    try:
        _write_report(options, progress, SparkTables(read_tables(spark, options.out)), spark)
    finally:
        spark.stop()


def _write_report(
    options: HistoryOptions,
    progress: _Progress,
    tables: "ReadsTables",
    spark: "SparkSession | None",
) -> None:
    from groupsdk.history.report.data import collect
    from groupsdk.history.report.page import render
    from groupsdk.history.sources.places import Store

    progress.say("report")
    page = render(collect(tables, options.group), title=options.title).encode()
    # beside the tables, wherever they are
    folder, _, name = (options.report or f"{options.out.rstrip('/')}/{REPORT}").rpartition("/")
    sys.stdout.write(f"{Store(spark, folder or '.').write(name, page)}\n")


def _archive(options: HistoryOptions) -> None:
    from groupsdk.history.archive import archive, read_stream

    progress = _Progress(quiet=options.quiet)
    kafka = {**_kafka(options), "max_offsets": str(options.max_offsets)}
    spark = _session(options, progress)
    try:
        query = archive(
            read_stream(spark, kafka),
            options.out,
            once=options.once,
            trigger=f"{options.every} seconds",
        )
        progress.say(f"archiving to {options.out}" + ("" if options.once else "; Ctrl-C ends it"))
        try:
            query.awaitTermination()
        except KeyboardInterrupt:
            # between two batches or within one: the next start goes on where the checkpoint says
            query.stop()
    finally:
        spark.stop()
