"""Parse the reasons for rebalances and departures in the lines of a broker's log, without Spark."""

import gzip
import logging
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from glob import glob
from pathlib import Path
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from groupsdk.errors import ConfigError
from groupsdk.history.explain.causes import LoggedReason
from groupsdk.history.explain.changes import Cause
from groupsdk.history.explain.departures import LoggedDeparture
from groupsdk.history.explain.explaining import LogEntry


logger = logging.getLogger(__name__)

PREPARING: Final = (
    # brokers before 4.0 put the partition before the reason, and their class behind it
    r"Preparing to rebalance group (.+?) in state \S+ with old generation (\d+)"
    r"(?: \(__consumer_offsets-\d+\))? \(reason: (.*?)\)(?:\.|$| \(kafka\.)"
)
TIME: Final = r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]"
_LOGGER: Final = re.compile(r"\s*(?:\(org\.apache\.kafka\.[\w.$]+\))?\s*$")
"""The class that Kafka's usual layout puts behind each line."""
OF_MODERN: Final = r"\[GroupId ([^\]]+)\](?:\[MemberId ([^\]]+)\])? "
BUMPED: Final = OF_MODERN + r"Bumped (?:streams )?group epoch to (\d+) with"
_INSTANCE: Final = r"(?:with instance id \S+ )?"
_ENDED: Final = "ended"
_JOINED: Final = "joined"
_CHANGED: Final = "changed"
_TOPICS: Final = "topics"
_CAME_BACK: Final = "came back"
SAID: Final = (
    (rf"(?:(?:Static|Dynamic) member|Member) (\S+) {_INSTANCE}left the \w+ group", _ENDED),
    (
        rf"(?:Static|Dynamic) member (\S+) {_INSTANCE}has left group through explicit `LeaveGroup`",
        _ENDED,
    ),
    (r"(?:Member|Streams member) (\S+) fenced from the group because", _ENDED),
    (
        r"Static member with instance id \S+ re-joins the \w+ group .*new member (\S+) to",
        _CAME_BACK,
    ),
    (rf"(?:Member|Static member) (?:(\S+) )?{_INSTANCE}joins the \w+ group", _JOINED),
    (r"Member (?:(\S+) )?updated its (?:subscribed|member metadata)", _CHANGED),
    (r"Member initialized the topology()", _CHANGED),
    (r"Received updated regular expressions()", _TOPICS),
    (r"Computed new metadata hash()", _TOPICS),
)
"""The lines that a coordinator logs before it raises the epoch of a group of the newer protocols, and their causes."""
_RANKS: Final = (_ENDED, _JOINED, _CHANGED, _TOPICS, _CAME_BACK)
"""Of several lines of one request the first of these is what it was about."""
_REQUEST_MS: Final = 1_000
"""The lines of one request are written together: what stands further ahead is of another one, which made no epoch."""
_HEAD: Final = 256
"""How many bytes at its beginning distinguish a file from a later one with the same inode number."""

_RESTARTS: Final = (Cause.COORDINATOR_RESTART, Cause.CLIENT_RESTART)
REASONS: Final[tuple[tuple[str, Cause, tuple[Cause, ...]], ...]] = (
    (
        r"(?i)heartbeat expiration|sync expiration|session (?:has )?expired|fenced from the group|pending sync request",
        Cause.EXPIRY,
        (Cause.EXPIRY, Cause.POLL_TIMEOUT, *_RESTARTS),
    ),
    (
        # the last member of the newer protocol is gone
        r"(?i)downgrade group \S+ from \w+ to classic for member leaving",
        Cause.LEAVE,
        (Cause.LEAVE, Cause.EXPIRY, Cause.POLL_TIMEOUT, *_RESTARTS),
    ),
    (
        r"(?i)client reason: consumer poll timeout",
        Cause.POLL_TIMEOUT,
        (Cause.POLL_TIMEOUT, *_RESTARTS),
    ),
    (
        r"(?i)leavegroup|leave group|left the",
        Cause.LEAVE,
        (Cause.LEAVE, Cause.POLL_TIMEOUT, *_RESTARTS),
    ),
    (
        r"(?i)client reason: need to revoke partitions",
        Cause.COOPERATIVE_FOLLOWUP,
        (Cause.COOPERATIVE_FOLLOWUP,),
    ),
    (
        r"(?i)client reason: subscription has changed|updated its |initialized the topology",
        Cause.SUBSCRIPTION_CHANGE,
        # a deleted topic changes the subscription of clients with a pattern
        (Cause.SUBSCRIPTION_CHANGE, Cause.TOPIC_DELETED),
    ),
    (
        r"(?i)client reason: cached metadata has changed|new metadata hash|updated regular expressions",
        Cause.TOPIC_GROWTH,
        (
            *(Cause.TOPIC_GROWTH, Cause.TOPIC_DELETED),
            *(Cause.SUBSCRIPTION_CHANGE, Cause.WORK_CHANGE),
        ),
    ),
    (
        r"(?i)with stale assignment|(?:for|because) static member|instance id (?!null)\S+.*(?:replac|re-?join)",
        Cause.STATIC_REPLACED,
        (Cause.STATIC_REPLACED, Cause.SUBSCRIPTION_CHANGE),
    ),
    (
        r"(?i)adding new member|joins the \w+ group",
        Cause.JOIN,
        (Cause.JOIN, *_RESTARTS, Cause.STATIC_REPLACED),
    ),
    (
        r"(?i)leader \S+ re-?joining|updating metadata for member",
        Cause.REJOIN,
        (
            *(Cause.REJOIN, Cause.SUBSCRIPTION_CHANGE, Cause.TOPIC_GROWTH),
            *(Cause.TOPIC_DELETED, Cause.WORK_CHANGE),
            *(Cause.COOPERATIVE_FOLLOWUP, Cause.STATIC_REPLACED),
        ),
    ),
)
"""How a reason reads, which cause it names, and which causes agree with it as they say more."""

ENDS: Final = (
    (r"Member (\S+) in group (.+?) has failed, removing it from the group", 2, 1, Cause.EXPIRY),
    (r"Group (.+?) removed dynamic members who haven't joined: (.*)$", 1, 2, Cause.EXPIRY),
    (
        r"Group (.+?) removed members who haven't sent their sync requests: (.*)$",
        1,
        2,
        Cause.EXPIRY,
    ),
    (
        rf"\[Group (.+?)\] (?:Static member|Member) (\S+) {_INSTANCE}has left group through explicit",
        *(1, 2),
        Cause.LEAVE,
    ),
    (
        OF_MODERN + r"(?:Member|Streams member) (\S+) fenced from the group because",
        1,
        3,
        Cause.EXPIRY,
    ),
    (
        OF_MODERN + rf"(?:(?:Static|Dynamic) member|Member) (\S+) {_INSTANCE}"
        r"(?:left the \w+ group|has left group through explicit)",
        *(1, 3),
        Cause.LEAVE,
    ),
)
"""The lines about departed members: the places of group and member in the line, and the reason."""


class _LogLine(NamedTuple):
    """A line of the coordinator of a newer protocol."""

    ts_ms: int
    place: int
    epoch: int | None
    reason: str
    what: str | None
    member_id: str | None


def read_log_files(path: str, *, zone: str = "UTC") -> list[LogEntry]:
    """Read the reasons for rebalances and departures from log files of brokers: a file, a directory or a pattern.

    Raises ConfigError if there is no such file, or no such time zone.
    """
    at = time_zone(zone)
    files = log_files(path)
    if not files:
        raise no_files(path)
    parser = LineParser(at)
    for file in files:
        for line in _lines(file):
            parser.take(line)
    found = parser.entries()
    if not found:
        warn_unrecognised(path, parser.lines, parser.dated)
    return found


def time_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ConfigError(
            f"no time zone is named {name!r}: give one such as Europe/Berlin"
        ) from error


def log_files(path: str) -> list[Path]:
    """List the log files at a path: a file, a directory or a pattern."""
    return sorted(
        file
        for each in sorted(glob(path, recursive=True))  # noqa: PTH207 - the pattern may be absolute
        for file in (Path(each).iterdir() if Path(each).is_dir() else (Path(each),))
        # as Spark skips them
        if file.is_file() and file.name[0] not in "._"
    )


def no_files(path: str) -> ConfigError:
    return ConfigError(f"no broker log found at {path}")


def warn_unrecognised(path: str, lines: int, dated: int) -> None:
    """Log a warning about a broker's log in which no line is recognised, with what a right one would have."""
    if not lines:
        logger.warning("the broker's log at %s is empty: causes come from the records alone", path)
    elif not dated:
        logger.warning(
            "none of the %s lines of the broker's log at %s begins with a time such as"
            " [2026-11-23 08:15:00,123], so all of them are skipped: have log4j write them with"
            " Kafka's pattern, [%%d] %%p %%m (%%c)%%n",
            f"{lines:,}",
            path,
        )
    else:
        logger.warning(
            "none of the %s lines of the broker's log at %s says why a group rebalanced: give"
            " server.log of all brokers, with the loggers kafka.coordinator.group and"
            " org.apache.kafka.coordinator.group at INFO",
            f"{lines:,}",
            path,
        )


def _lines(path: Path) -> Iterator[str]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", errors="replace") as file:
        for line in file:
            yield line.rstrip("\r\n")


class LineParser:
    """Parses the reasons and departures in the lines of logs, in their order; other lines are skipped.

    A line that is repeated, as in a copied log, counts once. The coordinator names no reason for an epoch of the newer
    protocols: what it says of the request that made the epoch is one. Lines of earlier requests, which made none, do not count.
    """

    def __init__(self, zone: ZoneInfo) -> None:
        self.lines = 0
        self.dated = 0
        self._zone = zone
        self._known: set[tuple[object, ...]] = set()
        self._reasons: list[tuple[str, int, int, str]] = []
        self._ends: list[tuple[str, str, int, str]] = []
        self._new: defaultdict[str, list[_LogLine]] = defaultdict(list)
        self._modern: defaultdict[str, _ModernGroup] = defaultdict(_ModernGroup)

    def take(self, line: str) -> None:
        self.lines += 1
        time = _TIME.search(line)
        if time is None:
            return
        self.dated += 1
        if "roup" not in line:
            return
        ts_ms = _millis(time[1], self._zone)
        if found := _PREPARING.search(line):
            self._add_reason(found[1], int(found[2]) + 1, ts_ms, found[3])
        elif of := _OF_MODERN.search(line):
            entry = _log_line(line, of, ts_ms, self.lines)
            if entry.epoch is not None or entry.what is not None:
                self._new[of[1]].append(entry)
        for pattern, group, member, cause in _ENDS:
            found = pattern.search(line)
            # a single one, or Java's form of a list
            for each in () if found is None else _MEMBER.findall(found[member]):
                if found is not None and not each.startswith("(org.apache.kafka."):
                    end = found[group], each, ts_ms, str(cause)
                    if end not in self._known:
                        self._known.add(end)
                        self._ends.append(end)

    def _add_reason(self, group_id: str, generation: int, ts_ms: int, text: str) -> None:
        reason = group_id, generation, ts_ms, text
        if reason not in self._known:
            self._known.add(reason)
            self._reasons.append(reason)

    def entries(self) -> list[LogEntry]:
        """Return the entries of the lines since the last call, by group, which have to hold whole requests of the newer protocols."""
        for group_id, lines in self._new.items():
            for generation, each in self._modern[group_id].began(lines):
                self._add_reason(group_id, generation, each.ts_ms, each.reason)
        self._new.clear()
        reasons, self._reasons = self._reasons, []
        ends, self._ends = self._ends, []
        return [*(_reason(*each) for each in reasons), *(LoggedDeparture(*each) for each in ends)]


_TIME: Final = re.compile(TIME)
_PREPARING: Final = re.compile(PREPARING)
_OF_MODERN: Final = re.compile(OF_MODERN)
_BEFORE: Final = re.compile(rf"^.*?{OF_MODERN}")
_BUMPED: Final = re.compile(BUMPED)
_MEMBER: Final = re.compile(r"[^\s\[\],]+")
_SAID: Final = [(re.compile(pattern), what) for pattern, what in SAID]
_ENDS: Final = [
    (re.compile(pattern), group, member, cause) for pattern, group, member, cause in ENDS
]
_REASONS: Final = [(re.compile(pattern), cause, agreeing) for pattern, cause, agreeing in REASONS]


def _millis(text: str, zone: ZoneInfo) -> int:
    at = datetime.strptime(text, "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=zone)
    # not through a float, which would lose milliseconds
    return int(at.replace(microsecond=0).timestamp()) * 1000 + at.microsecond // 1000


def _log_line(line: str, of: "re.Match[str]", ts_ms: int, place: int) -> _LogLine:
    bumped = _BUMPED.search(line)
    text = _LOGGER.sub("", _BEFORE.sub("", line, count=1), count=1)
    what, member_id = None, of[2]
    for pattern, means in _SAID:
        if found := pattern.match(text):
            what = what or means
            if member_id is None:
                member_id = found[1] if found.re.groups and found[1] is not None else ""
    return _LogLine(ts_ms, place, int(bumped[3]) if bumped else None, text, what, member_id)


class _ModernGroup:
    """A group of the newer protocols: what its members did last, and the lines that may explain its next epoch."""

    def __init__(self) -> None:
        self._last: dict[str | None, str | None] = {}
        self._waiting: list[_LogLine] = []

    def began(self, lines: list[_LogLine]) -> Iterator[tuple[int, _LogLine]]:
        """Take some lines; returns the line that explains each epoch."""
        lines.sort(key=lambda each: (each.ts_ms, each.place))
        for each in lines:
            before = self._last.get(each.member_id)
            self._last[each.member_id] = each.what
            if each.epoch is None:
                # a classic member of such a group rejoins for each revocation and assignment
                if not (each.what == _JOINED and before in (_JOINED, _CHANGED, _CAME_BACK)):
                    self._waiting.append(each)
                continue
            close = [one for one in self._waiting if each.ts_ms - one.ts_ms <= _REQUEST_MS]
            self._waiting.clear()
            if close:
                yield (
                    each.epoch,
                    min(
                        close,
                        key=lambda one: (_RANKS.index(one.what or ""), -one.ts_ms, -one.place),
                    ),
                )


def _reason(group_id: str, generation: int, ts_ms: int, text: str) -> LoggedReason:
    for pattern, cause, agreeing in _REASONS:
        if pattern.search(text):
            compatible = [str(each) for each in agreeing]
            return LoggedReason(group_id, generation, ts_ms, text, str(cause), compatible)
    return LoggedReason(group_id, generation, ts_ms, text, None, [])


class BrokerLogTail:
    """Reads the lines that brokers add to their log files (a file, a directory or a pattern); for one thread.

    Files may be rotated: one that is renamed is not read again, and one that is begun again is read from its
    beginning. Compressed files are read if they were there at the first call: those that come later are copies.
    """

    def __init__(self, path: str, *, zone: str = "UTC") -> None:
        self._path = path
        self._parser = LineParser(time_zone(zone))
        self._read: dict[tuple[int, int], tuple[bytes, int]] = {}
        self._is_first = True
        if not log_files(path):
            raise no_files(path)

    def read(self) -> list[LogEntry]:
        """Return the reasons and departures in the lines written since the last call."""
        for file in log_files(self._path):
            try:
                self._read_file(file)
            except FileNotFoundError:
                # renamed since it was listed: the next call finds it
                continue
        found = self._parser.entries()
        if self._is_first and not found:
            warn_unrecognised(self._path, self._parser.lines, self._parser.dated)
        self._is_first = False
        return found

    def _read_file(self, file: Path) -> None:
        if file.suffix == ".gz":
            if self._is_first:
                for each in _lines(file):
                    self._parser.take(each)
            return
        with file.open("rb") as opened:
            stat = os.fstat(opened.fileno())
            number = stat.st_dev, stat.st_ino
            head, position = self._read.get(number, (b"", 0))
            begin = opened.read(_HEAD)
            if not begin.startswith(head) or stat.st_size < position:
                position = 0
            opened.seek(position)
            for line in opened:
                if not line.endswith(b"\n"):
                    # the broker has not written all of it
                    break
                self._parser.take(line.decode(errors="replace").rstrip("\r\n"))
                position += len(line)
            self._read[number] = begin[:position], position
