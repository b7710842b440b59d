"""Run the history from the command line: `groupsdk history run | report | archive`."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import strftime
from typing import TYPE_CHECKING, Any, Final

from groupsdk.errors import GroupSdkError


if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from groupsdk.history.job import Inputs

REPORT: Final = "report.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes; needs no Spark, so that help comes at once."""
    commands = parser.add_subparsers(dest="history_command", required=True, metavar="COMMAND")
    run_parser = commands.add_parser("run", help="read a log, and write every table and a report")
    _add_source(run_parser)
    run_parser.add_argument("--out", required=True, help="directory of the tables and the report")
    run_parser.add_argument(
        "--broker-log", help="log files of the brokers: exact reasons for rebalances"
    )
    run_parser.add_argument(
        "--log-zone", default="UTC", help="time zone of the brokers' logs (UTC)"
    )
    run_parser.add_argument("--topics", help="JSON lines with topic_id and topic: names for ids")
    run_parser.add_argument(
        "--end-offsets", help="JSON lines with topic, partition, ts and end_offset: exact lag"
    )
    run_parser.add_argument(
        "--assignors",
        default="range,roundrobin,sticky,cooperative-sticky",
        help="what to replay: names or package.module:Class, with commas between",
    )
    run_parser.add_argument(
        "--storm",
        default="5/300",
        metavar="N/SECONDS",
        help="so many rebalances within so many seconds are a storm (5/300)",
    )
    run_parser.add_argument(
        "--session-timeout",
        type=int,
        metavar="SECONDS",
        help="group.consumer.session.timeout.ms of the brokers, which the log says only in part",
    )
    run_parser.add_argument("--no-report", action="store_true", help="write the tables only")
    report_parser = commands.add_parser("report", help="write the report of tables that are there")
    report_parser.add_argument("--out", required=True, help="directory of the tables")
    for each in (run_parser, report_parser):
        each.add_argument("--report", help="where to write the report (OUT/report.html)")
        each.add_argument("--title", default="What happened to the groups", help="its title")
        each.add_argument(
            "--group", action="append", default=[], help="a group to show; can be repeated"
        )
    archive_parser = commands.add_parser(
        "archive", help="keep a live log's records before they are compacted"
    )
    archive_parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT")
    archive_parser.add_argument("--out", required=True, help="directory of the archive")
    archive_parser.add_argument("--once", action="store_true", help="read what is there, and end")
    archive_parser.add_argument(
        "--every", type=int, default=30, metavar="SECONDS", help="how often to write (30)"
    )
    archive_parser.add_argument(
        "--max-offsets", type=int, default=1_000_000, help="of a partition at once (1000000)"
    )
    for each in (run_parser, archive_parser):
        each.add_argument(
            "--command-config", help="file of Kafka's client properties: security.protocol=..."
        )
    for each in (run_parser, report_parser, archive_parser):
        each.add_argument("--master", help="Spark's master; local[*] unless Spark's settings say")
        each.add_argument("--quiet", action="store_true", help="say nothing of the progress")


def _add_source(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--segments", help="a broker's data directory, or a part of it")
    source.add_argument("--bootstrap-server", metavar="HOST:PORT", help="a live cluster")
    source.add_argument("--archive", help="directory that `archive` wrote")


def run(args: argparse.Namespace) -> int:
    """Do what the arguments say; returns the exit code.

    Raises:
        GroupSdkError: the input cannot be read; see its text.
    """
    try:
        import pyspark  # noqa: F401 - says at once, and in one line, what is missing
    except ImportError:
        sys.stderr.write("the history needs Spark: pip install 'groupsdk[spark]'\n")
        return 2
    commands = {"run": _run, "report": _report, "archive": _archive}
    return commands[args.history_command](args)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command by itself; returns the exit code."""
    parser = argparse.ArgumentParser(prog="groupsdk history", description=__doc__)
    add_arguments(parser)
    try:
        return run(parser.parse_args(argv))
    except GroupSdkError as error:
        sys.stderr.write(f"groupsdk history: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130


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
    args: argparse.Namespace, progress: _Progress, *, brief: bool = False
) -> "SparkSession":
    from groupsdk.history.session import build_session

    progress.say("starting Spark")
    settings = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
    return build_session(master=args.master, brief=brief, settings=settings)


def _run(args: argparse.Namespace) -> int:
    from groupsdk.history.job import Options, run as run_job
    from groupsdk.history.sources.broker_log import read_ends

    n, seconds = storm_of(args.storm)
    progress = _Progress(quiet=args.quiet)
    spark = _session(args, progress, brief=is_brief(args))
    try:
        assignors = tuple(each.strip() for each in args.assignors.split(",") if each.strip())
        options = Options(
            assignors,
            storm_generations=n,
            storm_window_ms=seconds * 1000,
            session_timeout_ms=args.session_timeout and args.session_timeout * 1000,
        )
        inputs = _inputs(args, spark)
        if args.broker_log:
            inputs = replace(inputs, ends=read_ends(spark, args.broker_log, zone=args.log_zone))
        tables = run_job(spark, inputs, args.out, options, progress=progress.step)
        if not args.no_report:
            _write_report(args, progress, spark, tables)
    finally:
        spark.stop()
    return 0


def is_brief(args: argparse.Namespace) -> bool:
    """Tell whether there is little to read; of what is not in segment files, nobody knows beforehand."""
    from groupsdk.history.session import BRIEF_BYTES
    from groupsdk.history.sources.places import is_known
    from groupsdk.history.sources.segments import find_segments

    if not args.segments or not is_known(args.segments):
        return False
    # fails before Spark starts where there is nothing to read
    return sum(each.size for each in find_segments(args.segments)) <= BRIEF_BYTES


def storm_of(text: str) -> tuple[int, int]:
    """Read "N/SECONDS".

    Raises:
        GroupSdkError: it is something else.
    """
    from groupsdk.errors import ConfigError

    first, _, second = text.partition("/")
    if not (first.isdecimal() and second.isdecimal() and int(first) > 1 and int(second) > 0):
        raise ConfigError(
            f"--storm is {text!r}; say N/SECONDS with an N of 2 at least, such as 5/300"
        )
    return int(first), int(second)


def _inputs(args: argparse.Namespace, spark: "SparkSession") -> "Inputs":
    from groupsdk.history import decode
    from groupsdk.history.archive import read_archive
    from groupsdk.history.job import Inputs
    from groupsdk.history.sources import segments, topic
    from groupsdk.history.sources.broker import TopicReader
    from groupsdk.history.sources.broker_log import read_broker_log
    from groupsdk.history.sources.places import is_known

    names: Any = None
    if args.topics:
        names = spark.read.schema("topic_id string, topic string").json(args.topics)
    ends: Any = None
    if args.end_offsets:
        shape = "topic string, partition int, ts timestamp, end_offset bigint"
        ends = spark.read.schema(shape).json(args.end_offsets)
    reasons: Any = None
    if args.broker_log:
        reasons = read_broker_log(spark, args.broker_log, zone=args.log_zone)
    if args.segments and not is_known(args.segments):
        commits, rest = (
            segments.read_with_spark(spark, args.segments, kind) for kind in ("commits", "rest")
        )
        return Inputs(commits, rest, names, ends, reasons)
    if args.segments:
        spark.dataSource.register(segments.SegmentsDataSource)
        reader = spark.read.format(segments.FORMAT)
        return Inputs(
            reader.option("kind", "commits").load(args.segments),
            reader.option("kind", "rest").load(args.segments),
            names,
            ends,
            reasons,
            segments.land_segments(spark, args.segments),
        )
    if args.bootstrap_server:
        kafka = _kafka(args)
        with TopicReader(kafka) as live:
            if names is None:
                pairs = sorted(live.topic_ids().items())
                names = spark.createDataFrame(pairs, "topic_id string, topic string")
            spans = live.spans(segments.TOPIC, live.partitions(segments.TOPIC))
        spark.dataSource.register(topic.TopicDataSource)
        # the log goes on: every reading ends where the first one does
        stop = "{" + ", ".join(f'"{p}": {span.end}' for p, span in spans.items()) + "}"
        live_reader = spark.read.format(topic.FORMAT).options(**kafka, endingOffsets=stop)
        return Inputs(
            live_reader.option("kind", "commits").load(),
            live_reader.option("kind", "rest").load(),
            names,
            ends,
            reasons,
        )
    raw = read_archive(spark, args.archive)
    return Inputs(decode.commits(raw), decode.rest(raw), names, ends, reasons)


def _kafka(args: argparse.Namespace) -> dict[str, str]:
    """Take the settings of connections from a file of properties and the command line."""
    settings = read_properties(args.command_config) if args.command_config else {}
    return {**settings, "bootstrap.servers": args.bootstrap_server}


def read_properties(path: str) -> Mapping[str, str]:
    """Read a file of Kafka's client properties: a key, "=" and a value on each line.

    Raises:
        GroupSdkError: it cannot be read, or a line is none of these.
    """
    from groupsdk.errors import ConfigError

    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--command-config {path} cannot be read: {error}") from error
    found = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            # not the line itself: it may hold a password
            raise ConfigError(f"{path}, line {number}: no key=value")
        found[key.strip()] = value.strip()
    return found


def _report(args: argparse.Namespace) -> int:
    from groupsdk.history.job import read_tables

    progress = _Progress(quiet=args.quiet)
    spark = _session(args, progress, brief=True)
    try:
        _write_report(args, progress, spark, read_tables(spark, args.out))
    finally:
        spark.stop()
    return 0


def _write_report(
    args: argparse.Namespace,
    progress: _Progress,
    spark: "SparkSession",
    tables: Mapping[str, Any],
) -> None:
    from groupsdk.history.report.data import collect
    from groupsdk.history.report.page import render
    from groupsdk.history.sources.places import Store

    progress.say("report")
    page = render(collect(tables, args.group), title=args.title).encode()
    # beside the tables, wherever they are
    folder, _, name = (args.report or f"{args.out.rstrip('/')}/{REPORT}").rpartition("/")
    sys.stdout.write(f"{Store(spark, folder or '.').write(name, page)}\n")


def _archive(args: argparse.Namespace) -> int:
    from groupsdk.history.archive import archive, read_stream

    progress = _Progress(quiet=args.quiet)
    options = {**_kafka(args), "max_offsets": str(args.max_offsets)}
    spark = _session(args, progress)
    try:
        query = archive(
            read_stream(spark, options),
            args.out,
            once=args.once,
            trigger=f"{args.every} seconds",
        )
        progress.say(f"archiving to {args.out}" + ("" if args.once else "; Ctrl-C ends it"))
        try:
            query.awaitTermination()
        except KeyboardInterrupt:
            # between two batches or within one: the next start goes on where the checkpoint says
            query.stop()
    finally:
        spark.stop()
    return 0
