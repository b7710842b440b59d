"""`groupsdk log`: show the logs of the coordinators, live, of a data directory, or of an archive."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

import click

from groupsdk.admin.coordinator_log import (
    KEYS,
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    EntryKind,
    LogEntry,
    find_segment_files,
    kafka_line,
    next_offset,
    read_archive_files,
    read_entries,
    read_segment_files,
    select,
)
from groupsdk.admin.descriptions import matches
from groupsdk.admin.log_text import TopicNames
from groupsdk.assignment import TopicPartition
from groupsdk.cli.command import Command, Outage
from groupsdk.cli.connection import Connection, connection_options
from groupsdk.cli.output import cell, json_option, progress, write_json_line
from groupsdk.cli.process import log_level_option
from groupsdk.clock import WallClock
from groupsdk.error_code import ErrorCode
from groupsdk.errors import BrokerError, GroupSdkError
from groupsdk.printable import printable_json
from groupsdk.wire.coordinator_records.dump import dump_segment


if TYPE_CHECKING:
    from groupsdk.admin.cluster import ClusterClient

logger = logging.getLogger(__name__)

_FETCH_BYTES: Final = 4 * 1024 * 1024
_MAX_WAIT_MS: Final = 500
_LOOK_S: Final = 0.3
_OUTAGE_S: Final = 1.0
_SERVERS: Final = "--bootstrap-servers localhost:9092"

Hand = Callable[[list[LogEntry] | BaseException | None], Awaitable[None]]
"""Takes entries, an error, or None at the end."""


@click.command(
    cls=Command,
    examples=[
        (f"groupsdk log {_SERVERS}", "all records of the log"),
        (f"groupsdk log -f --groups {_SERVERS}", "follow generations as they happen"),
        (f"groupsdk log --offsets --group 'orders-*' --json {_SERVERS}", "commits as JSON lines"),
        ("groupsdk log --segments /var/lib/kafka/data --since 2h", "a data directory"),
        ("groupsdk log --segments /var/lib/kafka/data --dump", "as kafka-dump-log.sh prints it"),
    ],
)
@click.option(
    "--segments",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Read a broker's data directory, a partition's folder or one file.",
)
@click.option(
    "--archive",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Read an archive of `history archive`; needs pyarrow.",
)
@click.option("--offsets", is_flag=True, help="Show committed offsets.")
@click.option("--groups", is_flag=True, help="Show groups, their members and assignments.")
@click.option(
    "--transactions", is_flag=True, help="Show transactional ids, from __transaction_state."
)
@click.option(
    "--group",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    help="Only this group or transactional id; * and ? match; repeatable.",
)
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    type=click.IntRange(0),
    help="Only this partition of the log; repeatable.",
)
@click.option(
    "--since",
    metavar="TIME|DURATION",
    help="From a time on, or from a duration before now, such as 90m.",
)
@click.option(
    "-n",
    "--last",
    type=click.IntRange(0),
    metavar="N",
    help="Only the last N offsets of each partition of a live log.",
)
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Continue with new records; from the end unless --since or --last is given.",
)
@click.option("--dump", is_flag=True, help="Print segment files like Kafka's kafka-dump-log.sh.")
@click.option(
    "--kafka",
    "as_kafka",
    is_flag=True,
    help="Print offsets, classic groups and transactions like the message formatters of kafka-console-consumer.sh.",
)
@connection_options
@json_option
@log_level_option("warning")
def log(
    segments: Path | None,
    archive: Path | None,
    offsets: bool,
    groups: bool,
    transactions: bool,
    patterns: tuple[str, ...],
    partitions: tuple[int, ...],
    since: str | None,
    last: int | None,
    follow: bool,
    dump: bool,
    as_kafka: bool,
    connection: Connection,
    as_json: bool,
) -> None:
    """Show the log of the group coordinators, __consumer_offsets: a line or a JSON object for each record.

    Shows offsets and groups unless told which; --transactions shows the log of the transaction coordinators. No group
    is joined and nothing is written. Damaged batches are shown as such.
    """
    _check(segments, archive, follow=follow, last=last, dump=dump)
    if as_kafka and (dump or as_json):
        raise click.UsageError("Give --kafka, --dump or --json, not several.")
    topic = TRANSACTIONS_TOPIC if transactions and not (offsets or groups) else OFFSETS_TOPIC
    if dump:
        _write_dump(segments or Path(), topic)
        return
    view = LogView(
        kinds=_kinds(offsets=offsets, groups=groups, transactions=transactions),
        patterns=patterns,
        partitions=partitions,
        begin_ms=None if since is None else _begin(since),
        as_json=as_json,
        as_kafka=as_kafka,
    )
    if segments is not None:
        view.show(read_segment_files(segments, topic))
    elif archive is not None:
        view.show(read_archive_files(archive))
    else:
        connection.run(
            lambda client: _show_live(client, topic, view, connection, last=last, follow=follow),
            writes=True,
        )


async def _show_live(
    client: "ClusterClient",
    topic: str,
    view: "LogView",
    connection: Connection,
    *,
    last: int | None,
    follow: bool,
) -> None:
    entries = read_live(
        client,
        topic,
        view.partitions,
        begin_ms=view.begin_ms,
        last=last,
        follow=follow,
        waiting=connection.waiting,
    )
    async for entry in entries:
        view.show([entry])


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    kinds: frozenset[EntryKind]
    patterns: tuple[str, ...] = ()
    """Shell patterns of group and transactional ids; empty: all."""
    partitions: tuple[int, ...] = ()
    """Empty: all."""
    begin_ms: int | None = None
    """In milliseconds since 1970."""
    as_json: bool = False
    as_kafka: bool = False
    """Whether to write what Kafka's message formatters print."""

    def show(self, entries: Iterable[LogEntry]) -> None:
        wanted = partial(matches, patterns=self.patterns) if self.patterns else None
        for each in select(entries, self.kinds, wanted):
            if self.partitions and each.partition not in self.partitions:
                continue
            if self.begin_ms is not None and each.timestamp_ms < self.begin_ms:
                continue
            self._write(each)

    def _write(self, entry: LogEntry) -> None:
        if self.as_json:
            shown = (each.name for each in fields(entry) if each.name != "raw")
            write_json_line({name: getattr(entry, name) for name in shown})
        elif self.as_kafka:
            line = kafka_line(entry)
            if line is not None:
                click.echo(printable_json(line))
        else:
            click.echo(cell(entry.line))


async def read_live(
    client: "ClusterClient",
    topic: str,
    only: tuple[int, ...] = (),
    *,
    begin_ms: int | None = None,
    last: int | None = None,
    follow: bool = False,
    waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> AsyncIterator[LogEntry]:
    """Read a coordinator's log from the brokers, up to its end or, where it is followed, without end.

    `last`: how many offsets of each partition to go back from its end. A log that is followed begins at its end, unless `begin_ms` or
    `last` says otherwise. `waiting` is entered until it is known where to read. Raises BrokerError if the topic does
    not exist yet, or may not be read.
    """
    from groupsdk.admin.cluster import LATEST

    with waiting():
        wanted = await _partitions(client, topic, only)
        ends = await client.list_offsets(dict.fromkeys(wanted, LATEST))
        starts = await _starts(client, ends, begin_ms=begin_ms, last=last, follow=follow)
    fetch = _Fetch(client)
    if follow:
        logger.info("following %d partitions of %s", len(wanted), topic)
    found: asyncio.Queue[list[LogEntry] | BaseException | None] = asyncio.Queue(4)
    readers = (
        [_follow(client, fetch, starts, found.put)]
        if follow
        else [_read_partition(fetch, each, starts[each], ends[each], found.put) for each in wanted]
    )
    tasks = [asyncio.create_task(each) for each in readers]
    try:
        with progress("reading", after_s=2) as say:
            left, read = len(tasks), 0
            while left:
                item = await found.get()
                if isinstance(item, BaseException):
                    raise item
                left -= item is None
                for entry in item or ():
                    yield entry
                read += len(item or ())
                if not (follow or sys.stdout.isatty()):
                    say(f"{read} records, {left} of {len(tasks)} partitions left")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _starts(
    client: "ClusterClient",
    ends: Mapping[TopicPartition, int],
    *,
    begin_ms: int | None,
    last: int | None,
    follow: bool,
) -> Mapping[TopicPartition, int]:
    """Return the offset of each partition from which on to read."""
    from groupsdk.admin.cluster import EARLIEST

    if begin_ms is not None:
        since = await client.list_offsets(dict.fromkeys(ends, begin_ms))
        return {each: end if since[each] < 0 else since[each] for each, end in ends.items()}
    if follow and last is None:
        return ends
    starts = await client.list_offsets(dict.fromkeys(ends, EARLIEST))
    if last is not None:
        return {each: max(starts[each], end - last) for each, end in ends.items()}
    return starts


async def _partitions(
    client: "ClusterClient", topic: str, only: tuple[int, ...]
) -> list[TopicPartition]:
    described = (await client.metadata([topic])).topics.get(topic)
    if described is None or described.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        first = "transaction" if topic == TRANSACTIONS_TOPIC else "group"
        raise BrokerError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {topic} (Kafka creates it with the first {first})",
        )
    if described.error_code:
        raise BrokerError(described.error_code, f"topic {topic}")
    numbers = sorted(described.partitions)
    return [TopicPartition(topic, each) for each in numbers if not only or each in only]


async def _read_partition(
    fetch: "_Fetch", partition: TopicPartition, offset: int, end: int, hand: Hand
) -> None:
    """Read a partition up to `end`; hand over its entries, an error, and None at the end."""
    try:
        while offset < end:
            found, offset_after = await fetch(partition, offset, _MAX_WAIT_MS)
            if offset_after == offset:
                break  # compaction took what was there up to the end
            offset = offset_after
            if found := [each for each in found if each.offset < end]:
                await hand(found)
        await hand(None)
    except Exception as error:  # noqa: BLE001  # raised by the reader of the queue
        await hand(error)


async def _follow(
    client: "ClusterClient",
    fetch: "_Fetch",
    offsets: Mapping[TopicPartition, int],
    hand: Hand,
) -> None:
    """Read partitions for ever, also after a time in which they are out of reach; hand over their entries, or an error.

    It asks where all of them end, and fetches from those that have grown: a Fetch that waits for one partition would
    hold up those of all others, since a broker answers the requests of a connection one after the other.
    """
    from groupsdk.admin.cluster import LATEST

    at = dict(offsets)
    outage = Outage(_OUTAGE_S)

    async def look() -> bool:
        """Hand over what is new; returns whether there was something."""
        ends = await client.list_offsets(dict.fromkeys(at, LATEST))
        grown = [each for each in at if ends[each] > at[each]]
        for each in grown:
            found, offset = await fetch(each, at[each], 0)
            at[each] = offset if offset > at[each] else ends[each]
            if found:
                await hand(found)
        return bool(grown)

    try:
        while True:
            try:
                has_grown = await look()
            except GroupSdkError as error:
                if not outage.is_one(error):
                    raise
                outage.begin(str(error))
                await asyncio.sleep(_OUTAGE_S)
                continue
            outage.end()
            if not has_grown:
                await asyncio.sleep(_LOOK_S)
    except Exception as error:  # noqa: BLE001  # raised by the reader of the queue
        await hand(error)


class _Fetch:
    """Fetches entries of a log. Looks the names of topics up once an entry names one by an id that is not known yet."""

    def __init__(self, client: "ClusterClient") -> None:
        self._client = client
        self._names = TopicNames()
        self._nameless: set[UUID] = set()
        """Ids of topics that were deleted, or that may not be described."""

    async def __call__(
        self, partition: TopicPartition, offset: int, max_wait_ms: int
    ) -> tuple[list[LogEntry], int]:
        """Return the entries from an offset on, and the offset after them."""
        data = await self._client.fetch(
            partition, offset, max_bytes=_FETCH_BYTES, max_wait_ms=max_wait_ms
        )
        records = data.records or b""
        if not records:
            return [], offset
        found = self._read(records, partition, offset)
        if self._names.missing - self._nameless:
            topics = (await self._client.metadata(None)).topics.values()
            self._names.learn({each.topic_id: each.name for each in topics})
            self._nameless |= self._names.missing
            found = self._read(records, partition, offset)
        return found, max(offset, next_offset(records, offset))

    def _read(self, records: bytes, partition: TopicPartition, offset: int) -> list[LogEntry]:
        number, topic = partition.partition, partition.topic
        return [*read_entries(records, number, topic, offset, self._names)]


def _check(
    segments: Path | None, archive: Path | None, *, follow: bool, last: int | None, dump: bool
) -> None:
    if segments is not None and archive is not None:
        raise click.UsageError("Give --segments or --archive, not both.")
    if (follow or last is not None) and (segments is not None or archive is not None):
        name = "--follow" if follow else "--last"
        raise click.UsageError(f"{name} reads a live cluster: give --bootstrap-servers alone.")
    if dump and segments is None:
        raise click.UsageError("--dump prints segment files: give --segments PATH.")


def _kinds(*, offsets: bool, groups: bool, transactions: bool) -> frozenset[EntryKind]:
    chosen = {
        EntryKind.OFFSET: offsets,
        EntryKind.GROUP: groups,
        EntryKind.TRANSACTION: transactions,
    }
    found = frozenset(kind for kind, wanted in chosen.items() if wanted)
    # the ends of transactions are part of what there is to see
    return found or frozenset(chosen)


def _begin(text: str) -> int:
    from groupsdk.admin.offset_reset import parse_datetime, parse_duration
    from groupsdk.errors import ConfigError

    try:
        return WallClock().now_ms() - parse_duration(text)
    except ConfigError:
        pass
    try:
        return parse_datetime(text)
    except ConfigError:
        raise ConfigError(
            f"--since must be a duration such as 90m or a time such as 2026-01-31T12:00:00, not {text!r}"
        ) from None


def _write_dump(path: Path, topic: str) -> None:
    for _, files in sorted(find_segment_files(path, topic).items()):
        for file in files:
            click.echo(f"Dumping {cell(file)}")
            click.echo(f"Log starting offset: {int(file.stem)}")
            for line in dump_segment(file.read_bytes(), KEYS[topic]):
                click.echo(cell(line))
