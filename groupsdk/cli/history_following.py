"""What `groupsdk history follow`, and `run` of an archive, do: keep the tables and the report of a directory up to date."""

import logging
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing, suppress
from threading import Event
from typing import TYPE_CHECKING

import click

from groupsdk.cli.command import ExitCode, Outage
from groupsdk.cli.history import Progress, start_session, tables_of, write_report
from groupsdk.cli.history_options import (
    HistoryOptions,
    chosen_options,
    kafka_settings,
    storm_of,
)
from groupsdk.clock import Deadline, SystemClock, WallClock
from groupsdk.errors import ConfigError, GroupSdkError
from groupsdk.history.explain.explaining import RECENT, LogEntry
from groupsdk.history.follow.alerting import (
    Alerting,
    Rules,
    command_sink,
    find,
    line_sink,
    webhook_sink,
)
from groupsdk.history.follow.updater import Updater, catch_up_topic
from groupsdk.history.sources.broker_log_lines import BrokerLogTail
from groupsdk.history.sources.filesystems import file_system, local_path
from groupsdk.history.sources.topic_ranges import TopicSettings
from groupsdk.history.sources.topic_reader import TopicReader
from groupsdk.history.sources.user_files import read_topic_names
from groupsdk.history.tables.delta_tables import check_cluster
from groupsdk.history.tables.publishing import FOLLOWED
from groupsdk.history.tables.raw_table import RawTable, archive_topic
from groupsdk.history.tables.schemas import UNKNOWN_CLUSTER
from groupsdk.printable import printable_json


if TYPE_CHECKING:
    from pyspark.errors import StreamingQueryException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger(__name__)

ALERTS = f"{FOLLOWED}/alerts.json"
"""The file of open alerts, below the directory of what is kept to go on."""

_LOOK_S = 0.2

EachRound = Callable[[Updater, Outage], None]
Names = Callable[[], Iterable[tuple[str, str]]]
ReadsLogs = Callable[[], Iterable[LogEntry]]


def catch_up(options: HistoryOptions, progress: Progress, spark: "SparkSession") -> None:
    """Add to the tables the records that an archive has received since the last run."""
    from groupsdk.history.follow.stream import catch_up as add, in_tasks

    assert options.archive is not None
    updater = Updater(
        options.out,
        _archive_name(options.archive),
        chosen_options(options),
        each=in_tasks(spark),
        names=_given_names(options),
        # a run makes the tables of what it is told to read, whatever was there
        replace_other=True,
    )
    with closing(updater):
        add(spark, options.archive, updater, progress=progress.step)
    if not options.no_report:
        write_report(options, progress, tables_of(options, updater.state.cluster_id), spark)


def follow(options: HistoryOptions, progress: Progress) -> None:
    """Keep the tables and the report up to date, until Ctrl-C, or for one round with `once`."""

    def after(updater: Updater, spark: "SparkSession | None") -> None:
        progress.say(f"update {updater.state.update} is in {options.out}")
        if not options.no_report:
            write_report(options, progress, tables_of(options, updater.state.cluster_id), spark)

    _follow(options, progress, after=after)


def alert(options: HistoryOptions, progress: Progress) -> None:
    """Keep the tables up to date, and send alerts about what they show, until Ctrl-C, or for one round with `once`.

    Alerts go to standard output, webhooks and commands. Open ones are stored beside the tables, so that a restart
    does not repeat them. With `once`, raises GroupSdkError if alerts could not be delivered.
    """
    many, window_s = storm_of(options.rebalances or "2/3600", "--rebalances")
    if many > RECENT:
        raise ConfigError(f"--rebalances counts up to {RECENT} of a group, not {many}")
    chosen = chosen_options(options)
    rules = Rules(
        storm_window_ms=chosen.storm_window_ms,
        rebalances=many if options.rebalances else None,
        rebalances_window_ms=1000 * window_s,
        lag=options.lag,
        standing_ms=None if options.standing is None else 1000 * options.standing,
    )
    sinks = [
        line_sink(_write_line),
        *map(webhook_sink, options.webhook),
        *map(command_sink, options.command),
    ]
    clock = WallClock()
    alerting: Alerting | None = None
    now_ms = 0  # of the last look after something was read

    def look(updater: Updater, outage: Outage) -> None:
        nonlocal alerting, now_ms
        if not updater.state.update or (outage.goes_on and not now_ms):
            return
        if alerting is None:
            system, root = file_system(updater.out)
            alerting = Alerting(system, f"{root}/{ALERTS}", sinks)
        # in an outage time stands still: partitions do not, nobody sees them
        now_ms = now_ms if outage.goes_on else clock.now_ms()
        tables = tables_of(options, updater.state.cluster_id)
        alerting.look(find(tables, rules, now_ms), now_ms)

    _follow(options, progress, each_round=look)
    if options.once and alerting is not None and alerting.undelivered:
        raise GroupSdkError(
            f"{alerting.undelivered} alerts could not be delivered; the next run tries again"
        )


def _write_line(line: str) -> None:
    try:
        sys.stdout.write(printable_json(line))
        sys.stdout.flush()
    except BrokenPipeError:
        # nobody reads any more, which ends other commands as well
        raise click.exceptions.Exit(ExitCode.FAILED) from None


def _nothing(*_: object) -> None: ...


def _follow(
    options: HistoryOptions,
    progress: Progress,
    *,
    after: Callable[[Updater, "SparkSession | None"], None] = _nothing,
    each_round: EachRound = _nothing,
) -> None:
    """Keep tables up to date; `after` is called with each update, `each_round` however often there was a look for more."""
    if options.engine == "local":
        _follow_locally(options, progress, after, each_round)
        return
    from groupsdk.history.follow.stream import follow as start, in_tasks
    from groupsdk.history.session import refuse_connect

    refuse_connect(options.master)
    logs = _broker_logs(options)
    spark = start_session(options, progress)
    with ExitStack() as ends:
        ends.callback(spark.stop)
        cluster_id, source, names, stream = _source(options, spark)
        updater = ends.enter_context(
            closing(
                Updater(
                    options.out,
                    source,
                    chosen_options(options, cluster_id),
                    each=in_tasks(spark),
                    names=names,
                    broker_logs=logs,
                )
            )
        )
        progress.say(f"following {source}" + ("" if options.once else "; Ctrl-C ends it"))
        rounds = _Rounds(options)
        _await(
            lambda: start(
                stream,
                updater,
                trigger=None if options.once else f"{options.every} seconds",
                after=lambda: after(updater, spark),
            ),
            rounds,
            lambda: each_round(updater, rounds.outage),
        )


def _follow_locally(
    options: HistoryOptions,
    progress: Progress,
    after: Callable[[Updater, "SparkSession | None"], None],
    each_round: EachRound,
) -> None:
    settings = {**kafka_settings(options), "max_offsets": str(options.max_offsets)}
    logs = _broker_logs(options)
    cluster_id, source, names = _cluster(options)
    chosen = chosen_options(options, cluster_id)
    updater = Updater(options.out, source, chosen, names=names, broker_logs=logs)
    progress.say(f"following {source}" + ("" if options.once else "; Ctrl-C ends it"))
    rounds = _Rounds(options)
    with closing(updater):
        rounds.repeat(
            lambda: catch_up_topic(
                TopicSettings("the history", settings), updater, after=lambda: after(updater, None)
            ),
            lambda: each_round(updater, rounds.outage),
        )


class _Rounds:
    """Rounds that go on in an outage; with `once` there is one, and its error ends the command."""

    def __init__(self, options: HistoryOptions) -> None:
        self.once = options.once
        self.outage = Outage(options.every)
        self._waiting = Event()

    def wait(self, seconds: float | None = None) -> None:
        """Wait for the next round, or for less."""
        self._waiting.wait(self.outage.every_s if seconds is None else seconds)

    def repeat(self, work: Callable[[], object], each_round: Callable[[], None] = _nothing) -> None:
        """Work in each round until Ctrl-C, or once."""
        with suppress(KeyboardInterrupt):
            while True:
                try:
                    work()
                except GroupSdkError as error:
                    if self.once or not self.outage.is_one(error):
                        raise
                    self.outage.begin(str(error))
                else:
                    self.outage.end()
                each_round()
                if self.once:
                    return
                self.wait()

    def ended(self, failure: "StreamingQueryException") -> None:
        """Take the end of a query: returns if it may be started again."""
        from groupsdk.history.follow.stream import reason

        why, may_pass = reason(failure)
        if self.once or not may_pass:
            logger.debug("history: a query ended", exc_info=failure)
            raise GroupSdkError(f"Spark's query ended: {why}") from failure
        self.outage.begin(why)


def _await(
    begin: "Callable[[], StreamingQuery]",
    rounds: _Rounds,
    each_round: Callable[[], None] = _nothing,
) -> None:
    """Run a query until it ends or Ctrl-C, and start it again after an outage: it continues from its checkpoint."""
    from pyspark.errors import StreamingQueryException

    with suppress(KeyboardInterrupt):
        while True:
            query = begin()
            try:
                while not _ends(query, rounds):
                    if query.lastProgress:
                        rounds.outage.end()
                    each_round()
            except StreamingQueryException as failure:
                rounds.ended(failure)
            except KeyboardInterrupt:
                # what is not complete leaves nothing behind
                query.stop()
                return
            else:
                each_round()
                return
            each_round()
            rounds.wait()


def _ends(query: "StreamingQuery", rounds: _Rounds) -> bool:
    """Wait for the end of a query, for a round at most; outside of PySpark, where Ctrl-C would end in pages of tracebacks."""
    deadline = Deadline(SystemClock(), int(1_000 * rounds.outage.every_s))
    while query.isActive:
        if deadline.expired:
            return False
        rounds.wait(_LOOK_S)
    query.awaitTermination()  # raises what it ended with
    return True


def _broker_logs(options: HistoryOptions) -> ReadsLogs | None:
    if options.broker_log is None:
        return None
    return BrokerLogTail(options.broker_log, zone=options.log_zone).read


def _source(
    options: HistoryOptions, spark: "SparkSession"
) -> tuple[str | None, str, Names, "DataFrame"]:
    """Return what is followed: the cluster's id, its name, its topics' names, and the stream."""
    from groupsdk.history.follow.archive import read_stream
    from groupsdk.history.follow.stream import read_archive_stream

    if options.archive is not None:
        stream = read_archive_stream(spark, options.archive)
        return None, _archive_name(options.archive), _given_names(options), stream
    settings = {**kafka_settings(options), "max_offsets": str(options.max_offsets)}
    return *_cluster(options), read_stream(spark, settings)


def _cluster(options: HistoryOptions) -> tuple[str | None, str, Names]:
    settings = kafka_settings(options)
    with TopicReader(settings) as reader:
        cluster_id = reader.cluster_id()
        # a cluster is the same one whichever of its brokers is asked
        cluster = cluster_id or settings["bootstrap.servers"]

    def names() -> list[tuple[str, str]]:
        if options.topics:
            return read_topic_names(options.topics)
        with TopicReader(settings) as live:
            return sorted(live.topic_ids().items())

    return cluster_id, f"the cluster {cluster}", names


def _given_names(options: HistoryOptions) -> Names:
    given = read_topic_names(options.topics) if options.topics else []
    return lambda: given


def _archive_name(path: str) -> str:
    local = local_path(path)
    return f"the archive {path.rstrip('/') if local is None else local}"


def archive(options: HistoryOptions, progress: Progress) -> None:
    """Write the records of a live cluster to an archive, until Ctrl-C, or what is there now with `once`.

    A later call continues from the checkpoint, or with the local engine from the positions in the table."""
    if options.engine == "local":
        _archive_locally(options, progress)
        return
    from groupsdk.history.follow.archive import archive as start, read_stream

    _cluster(options)  # at the start a cluster out of reach is an error
    kafka = {**kafka_settings(options), "max_offsets": str(options.max_offsets)}
    spark = start_session(options, progress)
    try:
        stream = read_stream(spark, kafka)
        progress.say(f"archiving to {options.out}" + ("" if options.once else "; Ctrl-C ends it"))
        _await(
            lambda: start(
                stream, options.out, once=options.once, trigger=f"{options.every} seconds"
            ),
            _Rounds(options),
        )
    finally:
        spark.stop()


def _archive_locally(options: HistoryOptions, progress: Progress) -> None:
    found, *_ = _cluster(options)  # at the start a cluster out of reach is an error
    settings = {**kafka_settings(options), "max_offsets": str(options.max_offsets)}
    cluster_id = options.cluster or found or UNKNOWN_CLUSTER
    check_cluster(cluster_id)
    table = RawTable(options.out, cluster_id)
    progress.say(f"archiving to {options.out}" + ("" if options.once else "; Ctrl-C ends it"))

    def add() -> None:
        done = archive_topic(TopicSettings("the archive", settings), table)
        progress.say(f"{done:,} offsets archived")

    _Rounds(options).repeat(add)
