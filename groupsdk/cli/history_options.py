"""The options of `groupsdk history`: their declarations, their values, and the settings that follow from them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from groupsdk.cli.command import together
from groupsdk.cli.connection import bootstrap_option, gather_settings, settings_options
from groupsdk.clock import WallClock
from groupsdk.errors import ConfigError


if TYPE_CHECKING:
    from groupsdk.history.pipeline import Options
    from groupsdk.history.tables.lake_changes import Retention

F = TypeVar("F", bound=Callable[..., Any])

TITLE: Final = "What happened to the groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOptions:
    """The values of the commands' options, by option; the help describes them. `every`, `session_timeout`: seconds."""

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
    slos: str | None = None
    session_timeout: int | None = None
    engine: str | None = "spark"
    format: str = "parquet"
    cluster: str | None = None
    retention_days: int | None = None
    rebalances: str | None = None
    lag: int | None = None
    standing: int | None = None
    webhook: Sequence[str] = ()
    command: Sequence[str] = ()
    no_report: bool = False
    report: str | None = None
    title: str = TITLE
    group: Sequence[str] = ()
    buckets: int = 16
    once: bool = False
    every: int = 30
    max_offsets: int = 1_000_000
    master: str | None = None
    quiet: bool = False


spark_options: Final = together(
    click.option(
        "--master", help="Spark's master; by default that of Spark's settings, or local[*]."
    ),
    click.option("--quiet", is_flag=True, help="Do not write progress to standard error."),
)
report_options: Final = together(
    click.option(
        "--report", metavar="FILE", help="The file of the report (by default OUT/report.html)."
    ),
    click.option("--title", default=TITLE, show_default=True, help="The title of the report."),
    click.option("--group", multiple=True, help="A group to show in the report; repeatable."),
)
walk_options: Final = together(
    click.option(
        "--topics",
        metavar="FILE",
        help="JSON lines with topic_id and topic: the names of topic ids.",
    ),
    click.option(
        "--assignors",
        default="range,roundrobin,sticky,cooperative-sticky",
        show_default=True,
        help="Assignors to replay: names or package.module:Class, separated by commas.",
    ),
    click.option(
        "--slos",
        metavar="FILE",
        help="A file of TOML with service level objectives of groups, for the table slo; see docs/history.md.",
    ),
    click.option(
        "--storm",
        default="5/300",
        show_default=True,
        metavar="N/SECONDS",
        help="N rebalances within SECONDS are a storm.",
    ),
    click.option(
        "--session-timeout",
        type=int,
        metavar="SECONDS",
        help="group.consumer.session.timeout.ms of the brokers, which the log does not always show.",
    ),
    click.option("--no-report", is_flag=True, help="Write only the tables."),
    click.option(
        "--cluster",
        metavar="NAME",
        help="The value of the column cluster_id; by default the cluster's own id, if the log's source has it.",
    ),
)
"""How groups are followed: storms, timeouts and assignors."""
log_options: Final = together(
    click.option(
        "--broker-log",
        metavar="PATH",
        help="Log files of the brokers, for the exact reasons of rebalances.",
    ),
    click.option(
        "--log-zone", default="UTC", show_default=True, help="The time zone of --broker-log."
    ),
)
source_options: Final = together(
    click.option("--archive", metavar="DIR", help="A directory that `archive` writes."),
    settings_options,
    bootstrap_option,
)
follow_options: Final = together(
    click.option(
        "--max-offsets",
        type=click.IntRange(min=1),
        default=1_000_000,
        show_default=True,
        help="The most records of a partition per update.",
    ),
    click.option(
        "--every",
        type=click.IntRange(min=1),
        default=30,
        show_default=True,
        metavar="SECONDS",
        help="The interval between updates, in seconds.",
    ),
    click.option("--once", is_flag=True, help="Process the existing records and exit."),
)


def engine_option(default: str | None, help_text: str) -> Callable[[F], F]:
    choice = click.Choice(["spark", "local"])
    return click.option("--engine", type=choice, default=default, show_default=True, help=help_text)


table_format_option: Final = click.option(
    "--format",
    type=click.Choice(["parquet", "delta"]),
    default="parquet",
    show_default=True,
    help="The format of the tables; delta needs the extra groupsdk[delta].",
)
retention_option: Final = click.option(
    "--retention-days",
    type=click.IntRange(min=1),
    metavar="N",
    help="Keep rows of Delta tables for N days.",
)


def retention_of(days: int | None) -> "Retention | None":
    from groupsdk.history.tables.lake_changes import Retention

    return None if days is None else Retention.of(days, WallClock().now_ms())


def kafka_settings(options: HistoryOptions) -> dict[str, str]:
    """Return the connection settings of the --config file, overridden by the command line."""
    given = {"bootstrap_servers": options.bootstrap_servers}
    settings, _ = gather_settings(options.config, options.settings, given)
    return settings


def chosen_options(options: HistoryOptions, cluster_id: str | None = None) -> "Options":
    """Translate the command's options into the pipeline's; seconds become milliseconds. `--cluster` overrides `cluster_id`."""
    from groupsdk.history.pipeline import Options
    from groupsdk.history.slo import read_objectives
    from groupsdk.history.tables.schemas import UNKNOWN_CLUSTER

    n, seconds = storm_of(options.storm)
    return Options(
        tuple(each.strip() for each in options.assignors.split(",") if each.strip()),
        storm_generations=n,
        storm_window_ms=seconds * 1000,
        session_timeout_ms=options.session_timeout and options.session_timeout * 1000,
        slos=read_objectives(options.slos) if options.slos else (),
        format=options.format,
        cluster_id=options.cluster or cluster_id or UNKNOWN_CLUSTER,
        retention=retention_of(options.retention_days),
    )


def cluster_id_of(options: HistoryOptions) -> str | None:
    """Return the id of the cluster that is read: of a live one, or of a data directory whose files say it."""
    from groupsdk.history.sources.filesystems import is_supported
    from groupsdk.history.sources.segment_files import cluster_of

    if options.cluster and not options.archive:
        return options.cluster
    if options.segments:
        return cluster_of(options.segments) if is_supported(options.segments) else None
    if options.archive:
        return archived_cluster(options)
    from groupsdk.history.sources.topic_reader import TopicReader

    with TopicReader(kafka_settings(options)) as live:
        return live.cluster_id()


def archived_cluster(options: HistoryOptions) -> str | None:
    """Return the cluster to read of an archive of Delta, which has many; None of one of Parquet, which does not say it."""
    from groupsdk.history.tables.raw_table import only_cluster

    if archive_format(options) == "parquet":
        return None
    assert options.archive is not None
    return only_cluster(options.archive, options.cluster)


def archive_format(options: HistoryOptions) -> str:
    """Return the format of the archive that is read: Delta on this machine only, as other places are not looked at."""
    from groupsdk.history.sources.filesystems import StorageDirectory, local_path
    from groupsdk.history.tables.publishing import PARQUET, format_of
    from groupsdk.history.tables.schemas import RAW

    if options.archive is None or local_path(options.archive) is None:
        return PARQUET
    return format_of(StorageDirectory(None, options.archive), RAW)


def refuse_delta_archive(options: HistoryOptions) -> None:
    """Raise ConfigError for an archive that Spark does not read."""
    if archive_format(options) != "parquet":
        raise ConfigError(
            f"{options.archive} is a Delta table: read it with `history run --engine local`"
        )


def is_brief(options: HistoryOptions) -> bool:
    """Return whether there is little to read, which is known beforehand for segment files only."""
    from groupsdk.history.session import BRIEF_BYTES
    from groupsdk.history.sources.filesystems import is_supported
    from groupsdk.history.sources.segment_files import find_segments

    if not options.segments or not is_supported(options.segments):
        return False
    # fails before Spark starts where there is nothing to read
    return sum(each.size for each in find_segments(options.segments)) <= BRIEF_BYTES


def storm_of(text: str, option: str = "--storm") -> tuple[int, int]:
    """Parse "N/SECONDS", with an N of 2 or more, into both numbers; `option` is for the error."""
    first, _, second = text.partition("/")
    if not (first.isdecimal() and second.isdecimal() and int(first) > 1 and int(second) > 0):
        raise ConfigError(
            f"{option} must be N/SECONDS with N at least 2, such as 5/300, not {text!r}"
        )
    return int(first), int(second)


def goes_on(options: HistoryOptions) -> bool:
    """Return whether a run adds to existing tables: those of an archive, without data from outside the log."""
    from groupsdk.history.sources.filesystems import is_supported

    if not options.archive or not is_supported(options.out):
        return False
    return not options.broker_log and not options.end_offsets and options.format != "iceberg"
