"""`groupsdk history`: explain a cluster's groups from its own log. Needs the extra groupsdk[spark], or [history] for `--engine local`."""

import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import strftime
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from groupsdk.cli import history_options
from groupsdk.cli.command import CommandGroup, ExitCode, exit_with
from groupsdk.cli.connection import bootstrap_option, settings_options
from groupsdk.cli.output import json_option, write_json, write_table
from groupsdk.errors import ConfigError
from groupsdk.printable import printable, printable_lines


if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from groupsdk.history.job import Inputs
    from groupsdk.history.read.reading import ReadTask
    from groupsdk.history.tables.stage_tables import TableSource

REPORT: Final = "report.html"


@click.group(cls=CommandGroup)
def history() -> None:
    """Explain a cluster's groups from its own log: tables, causes, what-if, a report."""


def _needs_spark(*, local: bool = False) -> None:
    """Fail before Java starts if the extra is not installed; the error names the local engine if that can do the same."""
    try:
        import pyspark  # noqa: F401 - to see whether it is there
    except ModuleNotFoundError as error:
        if not local or error.name != "pyspark":
            raise
        raise ConfigError(
            "this needs the package pyspark: pip install 'groupsdk[spark]', or run it without Spark"
            " and Java: pip install 'groupsdk[history]' and --engine local"
        ) from error


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
@click.option(
    "--out", required=True, metavar="DIR", help="The output directory for tables and report."
)
@history_options.log_options
@click.option(
    "--end-offsets",
    metavar="FILE",
    help="JSON lines with topic, partition, ts and end_offset, for exact lag.",
)
@history_options.walk_options
@history_options.engine_option(
    None,
    "local: runs in processes on this machine, without Spark and Java. By default spark where PySpark is installed.",
)
@click.option(
    "--format",
    type=click.Choice(["parquet", "delta", "iceberg"]),
    default="parquet",
    show_default=True,
    help="The format of the tables; for any but Parquet, Spark downloads a package from Maven Central, and --engine local"
    " needs the extra groupsdk[delta].",
)
@history_options.retention_option
@history_options.report_options
@history_options.spark_options
def run_command(**given: Any) -> None:
    """Read a log, and write every table and a report."""
    source = click.get_current_context().get_parameter_source("bootstrap_servers")
    if (given["segments"] or given["archive"]) and source is ParameterSource.ENVIRONMENT:
        given["bootstrap_servers"] = None
    options = history_options.HistoryOptions(**given)
    sources = (options.segments, options.archive, options.bootstrap_servers)
    if sum(each is not None for each in sources) != 1:
        raise click.UsageError("Give exactly one of --segments, --bootstrap-servers and --archive.")
    can_be_local = options.format != "iceberg" and not options.archive
    if options.engine == "local" and options.format == "iceberg":
        raise click.UsageError("--engine local writes Parquet and Delta: use --engine spark.")
    if options.engine is None and can_be_local and not _is_installed("pyspark"):
        Progress(quiet=options.quiet).say("PySpark is not installed: running as --engine local")
        options = replace(options, engine="local")
    if options.engine == "local":
        _run_locally(options)
        return
    _needs_spark(local=can_be_local)
    history_options.refuse_delta_archive(options)
    _run(options)


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # it was put into sys.modules as something else
        return False


@history.command(
    "report", examples=[("groupsdk history report --out out --group orders", "one group")]
)
@click.option("--out", required=True, metavar="DIR", help="The directory of the tables.")
@click.option(
    "--format",
    type=click.Choice(["parquet", "delta", "iceberg"]),
    help="The format of the tables; needed for Delta and Iceberg on remote file systems.",
)
@click.option(
    "--cluster", metavar="NAME", help="The cluster to report on, of Delta tables that have several."
)
@history_options.report_options
@history_options.spark_options
def report_command(**given: Any) -> None:
    """Write the report of tables that are there."""
    from groupsdk.history.sources.filesystems import StorageDirectory, local_path
    from groupsdk.history.tables.delta_tables import DeltaTables
    from groupsdk.history.tables.publishing import DELTA, PARQUET, format_of

    found = given.pop("format")
    here = local_path(given["out"]) is not None
    if here:
        # the files of tables that were replaced are still beside those of Delta and Iceberg
        found = format_of(StorageDirectory(None, given["out"]))
    options = history_options.HistoryOptions(**given, format=found or PARQUET)
    if options.format == DELTA and _is_installed("deltalake"):
        progress = Progress(quiet=options.quiet)
        write_report(options, progress, DeltaTables(options.out, _only_cluster(options)), None)
        return
    if not here or options.format != PARQUET:
        _needs_spark()
    _report(options)


def _only_cluster(options: history_options.HistoryOptions) -> str:
    """Return the cluster that --cluster names, or the only one that there is."""
    from groupsdk.history.tables.delta_tables import clusters_of

    found = clusters_of(options.out)
    if options.cluster in found:
        return options.cluster
    if len(found) == 1 and options.cluster is None:
        return found[0]
    names = ", ".join(found) or "none"
    raise ConfigError(f"name one of the clusters in {options.out} with --cluster: {names}")


@history.command(
    "maintain",
    examples=[
        ("groupsdk history maintain --out lake", "compact small files, and vacuum"),
        ("groupsdk history maintain --out lake --retention-days 400", "also retire old rows"),
    ],
)
@click.option("--out", required=True, metavar="DIR", help="The directory or URI of Delta tables.")
@history_options.retention_option
@click.option(
    "--vacuum-hours",
    type=click.IntRange(min=0),
    default=168,
    show_default=True,
    metavar="N",
    help="Keep files that no longer count for N hours: queries and runs that began before may still read them.",
)
def maintain_command(out: str, retention_days: int | None, vacuum_hours: int) -> None:
    """Retire old rows of Delta tables, compact their small files, and delete files that no longer count.

    It may run beside whatever writes into the tables.
    """
    from groupsdk.history.tables.delta_tables import maintain

    retention = history_options.retention_of(retention_days)
    done = list(maintain(out, retention, vacuum_hours=vacuum_hours))
    if not done:
        raise ConfigError(f"{out} has no Delta tables of a history")
    for each in done:
        sys.stdout.write(
            f"{each.name}: {each.retired:,} rows retired, {each.compacted:,} files compacted, {each.deleted:,} deleted\n"
        )


@history.command(
    "slo",
    examples=[
        ("groupsdk history slo --out history", "as of the last run with --slos"),
        (
            "groupsdk history slo --out history --slos slo.toml",
            "other objectives, from the same tables",
        ),
    ],
)
@click.option("--out", required=True, metavar="DIR", help="The directory of the tables.")
@click.option(
    "--slos",
    metavar="FILE",
    help="A file of TOML with objectives; by default those of the run that made the tables.",
)
@click.option(
    "--cluster", metavar="NAME", help="One of the clusters, of Delta tables that have several."
)
@click.option(
    "--metrics", metavar="FILE", help="Also write a file for Prometheus' textfile collector."
)
@json_option
def slo_command(
    out: str, slos: str | None, cluster: str | None, metrics: str | None, *, as_json: bool
) -> None:
    """Show how groups meet their service level objectives, and how fast their error budgets burn."""
    from groupsdk.cli.history_fleet import SLO_COLUMNS, slo_families, slo_rows
    from groupsdk.history.fleet.summary import replace_file
    from groupsdk.history.slo import NEEDED, Budget, budgets, budgets_of, read_objectives
    from groupsdk.history.sources.filesystems import StorageDirectory, local_path
    from groupsdk.history.standing import log_end_ms
    from groupsdk.history.tables.publishing import DELTA, format_of
    from groupsdk.telemetry.openmetrics import text_format

    options = history_options.HistoryOptions(out=out, cluster=cluster)
    if local_path(out) is not None and format_of(StorageDirectory(None, out)) == DELTA:
        options = replace(options, format=DELTA, cluster=_only_cluster(options))
    tables = tables_of(options, options.cluster or "")
    if slos is None:
        found = budgets_of(tables.read("slo", Budget._fields))
    else:
        objectives, end_ms = read_objectives(slos), log_end_ms(tables)
        needed = {name: tables.read(name, columns) for name, columns in NEEDED.items()}
        found = [] if end_ms is None else list(budgets(objectives, needed, end_ms))
    if metrics:
        text = text_format(slo_families([({}, each) for each in found]))
        replace_file(Path(metrics), text.encode())
    if as_json:
        write_json(found)
    elif found:
        write_table(SLO_COLUMNS, slo_rows(found))
    else:
        click.echo("No group has an objective: give --slos FILE.")


@history.command(
    "fleet",
    examples=[
        ("groupsdk history fleet --clusters fleet.toml --out history", "every cluster of the file"),
        (
            "groupsdk history fleet --clusters fleet.toml --out history --metrics /var/lib/node_exporter/groups.prom",
            "also for Prometheus",
        ),
    ],
)
@click.option(
    "--clusters",
    required=True,
    metavar="FILE",
    help="A file of TOML with the clusters, and who owns which groups; see docs/lakehouse.md.",
)
@click.option(
    "--out",
    required=True,
    metavar="DIR",
    help="The directory: DIR/cluster_id=NAME for each cluster, or the Delta tables of all.",
)
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many clusters at a time; by default as many as cores.",
)
@click.option(
    "--cluster-timeout",
    type=click.IntRange(min=1),
    default=3_600,
    show_default=True,
    metavar="SECONDS",
    help="For how long the run of one cluster may take.",
)
@click.option(
    "--standing",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="A partition that is not committed for so long, and for twice as long as usual, stands still.",
)
@click.option(
    "--metrics", metavar="FILE", help="Also write a file for Prometheus' textfile collector."
)
@history_options.engine_option(
    "local", "spark starts one Spark for each cluster, for logs that are too large for one process."
)
@history_options.table_format_option
@click.option("--no-report", is_flag=True, help="Write no report for each cluster.")
@click.option("--quiet", is_flag=True, help="Do not write progress to standard error.")
def fleet_command(
    clusters: str,
    out: str,
    processes: int | None,
    cluster_timeout: int,
    standing: int,
    metrics: str | None,
    engine: str,
    format: str,  # noqa: A002 - the option's name
    no_report: bool,
    quiet: bool,
) -> None:
    """Explain many clusters, and show which groups of which cluster stand still, since when and on which host.

    A cluster that cannot be read does not stop the others; the exit code is 1 then.
    """
    from groupsdk.cli.history_fleet import metrics_text
    from groupsdk.history.fleet.clusters import read_fleet
    from groupsdk.history.fleet.running import run_clusters
    from groupsdk.history.fleet.summary import replace_file, summarise, write_page, write_tables

    progress = Progress(quiet=quiet)
    fleet = read_fleet(clusters)
    arguments = [f"--engine={engine}", *(["--no-report"] if no_report else [])]
    runs = run_clusters(
        fleet.clusters,
        out,
        table_format=format,
        arguments=arguments,
        processes=processes,
        timeout_s=cluster_timeout,
        say=progress.say,
    )
    summary = summarise(fleet, runs, out, least_ms=1_000 * standing, table_format=format)
    write_tables(summary, out, table_format=format)
    page = write_page(summary, out)
    if metrics:
        replace_file(Path(metrics), metrics_text(summary).encode())
    progress.say(
        f"{page}: {summary.partitions:,} partitions of {summary.groups:,} groups stand still"
    )
    if not all(each.is_done for each in runs):
        exit_with(ExitCode.FAILED)


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
@history_options.follow_options
@history_options.engine_option(
    "spark", "local: runs in this process, without Spark and Java; needs --format delta."
)
@history_options.table_format_option
@click.option(
    "--cluster",
    metavar="NAME",
    help="The value of the column cluster_id of Delta tables; by default the cluster's own id.",
)
@history_options.spark_options
def archive_command(**given: Any) -> None:
    """Keep a live log's records before they are compacted."""
    options = history_options.HistoryOptions(**given)
    if not history_options.kafka_settings(options).get("bootstrap.servers"):
        raise click.UsageError("Give --bootstrap-servers HOST:PORT.")
    if (options.engine == "local") != (options.format == "delta"):
        raise click.UsageError("--engine local archives to Delta, and Spark to Parquet.")
    if options.engine == "spark":
        _needs_spark()
    from groupsdk.cli.history_following import archive

    archive(options, Progress(quiet=options.quiet))


@history.command(
    "follow",
    examples=[
        (
            "groupsdk history follow --bootstrap-servers localhost:9092 --out out",
            "a live cluster, until Ctrl-C",
        ),
        (
            "groupsdk history follow --archive archive --out out --every 300",
            "an archive that grows",
        ),
    ],
)
@history_options.source_options
@click.option(
    "--out", required=True, metavar="DIR", help="The output directory for tables and report."
)
@history_options.log_options
@history_options.walk_options
@history_options.follow_options
@history_options.engine_option(
    "spark", "local: runs in this process, without Spark and Java; reads only a live cluster."
)
@history_options.table_format_option
@history_options.retention_option
@history_options.report_options
@history_options.spark_options
def follow_command(**given: Any) -> None:
    """Keep every table and the report up to date."""
    from groupsdk.cli.history_following import follow

    options = _followed(given)
    follow(options, Progress(quiet=options.quiet))


@history.command(
    "alert",
    examples=[
        (
            "groupsdk history alert --bootstrap-servers localhost:9092 --out out --webhook https://h",
            "until Ctrl-C",
        )
    ],
)
@history_options.source_options
@click.option("--out", required=True, metavar="DIR", help="The directory of the tables.")
@click.option(
    "--rebalances",
    metavar="N/SECONDS",
    help="Alert on N rebalances of a group within SECONDS.",
)
@click.option(
    "--lag", type=int, metavar="N", help="Alert on a group that is more than N records behind."
)
@click.option(
    "--standing",
    type=click.IntRange(min=1),
    metavar="SECONDS",
    help="Alert on a group with a partition that makes no progress for so long, and for twice as long as usual.",
)
@click.option(
    "--webhook", multiple=True, metavar="URL", help="Post alerts to this URL as JSON; repeatable."
)
@click.option(
    "--command",
    multiple=True,
    help="Run this command with the alert on its standard input; repeatable.",
)
@history_options.log_options
@history_options.walk_options
@history_options.follow_options
@history_options.engine_option(
    "local", "local: runs in this process, without Spark and Java; reads only a live cluster."
)
@history_options.table_format_option
@history_options.retention_option
@history_options.spark_options
def alert_command(**given: Any) -> None:
    """Report storms, empty groups, frequent rebalances, lag, standstill and burning error budgets when they start and stop."""
    from groupsdk.cli.history_following import alert

    options = _followed(given)
    alert(options, Progress(quiet=options.quiet))


def _followed(given: dict[str, Any]) -> history_options.HistoryOptions:
    """Take the options of what follows a log, of which there is one."""
    source = click.get_current_context().get_parameter_source("bootstrap_servers")
    if given["archive"] and source is ParameterSource.ENVIRONMENT:
        given["bootstrap_servers"] = None
    options = history_options.HistoryOptions(**given)
    live = bool(history_options.kafka_settings(options).get("bootstrap.servers"))
    if live == bool(options.archive):
        raise click.UsageError("Give either --bootstrap-servers or --archive.")
    if options.engine == "local" and options.archive:
        raise click.UsageError(
            "--engine local follows a live cluster, not --archive: use --engine spark."
        )
    if options.engine == "spark":
        _needs_spark(local=not options.archive)
        history_options.refuse_delta_archive(options)
    return options


class Progress:
    """Writes progress lines to standard error; none with `quiet`."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def say(self, text: str) -> None:
        if not self._quiet:
            sys.stderr.write(f"{strftime('%H:%M:%S')} {printable(text)}\n")
            sys.stderr.flush()

    def step(self, name: str, done: int, steps: int) -> None:
        self.say(f"[{done + 1:2}/{steps}] {name}")


def start_session(
    options: history_options.HistoryOptions,
    progress: Progress,
    *,
    brief: bool = False,
    table_format: str = "parquet",
) -> "SparkSession":
    """Start Spark, which takes seconds; with `brief` tuned for little data (`build_session`). The caller stops it."""
    from groupsdk.history.session import build_session
    from groupsdk.history.tables.table_formats import format_settings

    settings = {
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        **format_settings(table_format),
    }
    progress.say("starting Spark")
    return build_session(master=options.master, brief=brief, settings=settings)


def _run(options: history_options.HistoryOptions) -> None:
    from groupsdk.history.job import run as run_job
    from groupsdk.history.report.tables import readable
    from groupsdk.history.session import refuse_connect
    from groupsdk.history.sources.spark_broker_log import read_ends, warn_if_unrecognised

    progress = Progress(quiet=options.quiet)
    brief = history_options.is_brief(options)
    chosen = history_options.chosen_options(options, history_options.cluster_id_of(options))
    goes_on = history_options.goes_on(options)
    if goes_on:
        refuse_connect(options.master)
    spark = start_session(
        options, progress, brief=brief, table_format="parquet" if goes_on else options.format
    )
    try:
        if goes_on:
            from groupsdk.cli.history_following import catch_up

            catch_up(options, progress, spark)
            return
        inputs = _inputs(options, spark)
        if options.broker_log:
            warn_if_unrecognised(spark, options.broker_log)
            inputs = replace(
                inputs, ends=read_ends(spark, options.broker_log, zone=options.log_zone)
            )
        tables = run_job(spark, inputs, options.out, chosen, progress=progress.step)
        if not options.no_report:
            mine = tables.of_cluster(chosen.cluster_id)
            write_report(options, progress, readable(tables.root, options.format, mine), spark)
    finally:
        spark.stop()


def _run_locally(options: history_options.HistoryOptions) -> None:
    from groupsdk.history.without_pandas import leave_out_pandas

    leave_out_pandas()
    from groupsdk.history.local import run as run_here
    from groupsdk.history.sources.broker_log_lines import read_log_files
    from groupsdk.history.sources.user_files import read_topic_names
    from groupsdk.history.tables.sampled_lag import read_end_offsets

    progress = Progress(quiet=options.quiet)
    tasks, names = _local_tasks(options)
    chosen = history_options.chosen_options(options, history_options.cluster_id_of(options))
    run_here(
        tasks,
        options.out,
        chosen,
        names=read_topic_names(options.topics) if options.topics else names,
        broker_logs=read_log_files(options.broker_log, zone=options.log_zone)
        if options.broker_log
        else (),
        end_offsets=read_end_offsets(options.end_offsets) if options.end_offsets else None,
        progress=progress.step,
    )
    if not options.no_report:
        write_report(options, progress, tables_of(options, chosen.cluster_id), None)


def tables_of(options: history_options.HistoryOptions, cluster_id: str) -> "TableSource":
    """Return the tables of one cluster, to be read without Spark."""
    from groupsdk.history.report.tables import ParquetTables
    from groupsdk.history.tables.delta_tables import DeltaTables
    from groupsdk.history.tables.publishing import DELTA

    return (
        DeltaTables(options.out, cluster_id)
        if options.format == DELTA
        else ParquetTables(options.out)
    )


def _local_tasks(
    options: history_options.HistoryOptions,
) -> "tuple[Sequence[ReadTask], list[tuple[str, str]]]":
    """Return what the local engine reads, and what the cluster says of topics' names."""
    if options.segments:
        from groupsdk.history.sources.segment_files import segment_tasks

        return segment_tasks(options.segments), []
    if options.archive:
        from groupsdk.history.sources.archive_files import archive_tasks

        return archive_tasks(options.archive, history_options.archived_cluster(options)), []
    from groupsdk.history.sources.topic_ranges import topic_tasks
    from groupsdk.history.sources.topic_reader import TopicReader

    kafka = history_options.kafka_settings(options)
    with TopicReader(kafka) as live:
        names = sorted(live.topic_ids().items())
    return topic_tasks(kafka), names


def _inputs(options: history_options.HistoryOptions, spark: "SparkSession") -> "Inputs":
    from groupsdk.history.follow.archive import read_archive, read_raw
    from groupsdk.history.job import Inputs
    from groupsdk.history.sources.filesystems import is_supported
    from groupsdk.history.sources.spark_broker_log import read_broker_log
    from groupsdk.history.sources.spark_segments import read_segments, read_with_spark
    from groupsdk.history.sources.spark_topic import read_topic
    from groupsdk.history.sources.topic_reader import TopicReader

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
    if options.segments and not is_supported(options.segments):
        return Inputs(read_with_spark(spark, options.segments), names, ends, reasons)
    if options.segments:
        return Inputs(read_segments(spark, options.segments), names, ends, reasons)
    if options.bootstrap_servers:
        kafka = history_options.kafka_settings(options)
        if names is None:
            with TopicReader(kafka) as live:
                names = sorted(live.topic_ids().items())
        return Inputs(read_topic(spark, kafka), names, ends, reasons)
    assert options.archive is not None
    raw = read_archive(spark, options.archive)
    return Inputs(read_raw(raw), names, ends, reasons)


def _report(options: history_options.HistoryOptions) -> None:
    from groupsdk.history.report.tables import ParquetTables, SparkTables
    from groupsdk.history.sources.filesystems import StorageDirectory, local_path
    from groupsdk.history.tables.publishing import PARQUET, finish
    from groupsdk.history.tables.stage_tables import RUN_TABLES

    progress = Progress(quiet=options.quiet)
    if local_path(options.out) is not None and options.format == PARQUET:
        # a run that was killed as it put its tables in their places
        finish(StorageDirectory(None, options.out), RUN_TABLES)
        write_report(options, progress, ParquetTables(options.out), None)
        return
    from groupsdk.history.job import read_tables

    spark = start_session(options, progress, brief=True, table_format=options.format)
    try:
        write_report(options, progress, SparkTables(read_tables(spark, options.out)), spark)
    finally:
        spark.stop()


def write_report(
    options: history_options.HistoryOptions,
    progress: Progress,
    tables: "TableSource",
    spark: "SparkSession | None",
) -> None:
    """Write the HTML report of the tables beside them, or where --report says, and print its path."""
    from groupsdk.history.report.data import collect
    from groupsdk.history.report.page import render
    from groupsdk.history.sources.filesystems import StorageDirectory

    progress.say("report")
    data = collect(tables, options.group)
    sys.stderr.write(printable_lines(data.warning))
    page = render(data, title=options.title).encode()
    folder, _, name = (options.report or f"{options.out.rstrip('/')}/{REPORT}").rpartition("/")
    sys.stdout.write(f"{StorageDirectory(spark, folder or '.').write(name, page)}\n")
