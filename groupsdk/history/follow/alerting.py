"""Alert on findings in tables that are kept up to date, once as each begins and once as it ends."""

import hashlib
import json
import logging
import shlex
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from groupsdk.errors import ConfigError
from groupsdk.history.slo import Budget, budgets_of
from groupsdk.history.standing import (
    GROUP_COLUMNS,
    PROGRESS_COLUMNS,
    Late,
    known_lag,
    partition_seconds,
    standing_still,
)
from groupsdk.history.tables.stage_tables import TableSource
from groupsdk.lazy_imports import override


logger = logging.getLogger(__name__)

STORM: Final = "storm"
NO_OWNER: Final = "no_owner"
REBALANCES: Final = "rebalances"
LAG: Final = "lag"
STANDING: Final = "standing"
_GROUPS: Final = (
    *GROUP_COLUMNS,
    *("committed", "recent_ts", "storm_end_ts", "storm_generations", "storm_client"),
    "storm_stalled_ms",
)
_TIMEOUT_S: Final = 30
_STDERR: Final = 2


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that raise alerts; None: never.

    A storm ends after `storm_window_ms` without a rebalance. `rebalances` counts those of a group within `rebalances_window_ms`, up to
    `explaining.RECENT`; `lag` is in records of one partition; `standing_ms` is for how long a partition may make no progress.
    """

    storm_window_ms: int = 300_000
    rebalances: int | None = None
    rebalances_window_ms: int = 3_600_000
    lag: int | None = None
    standing_ms: int | None = None


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A condition that raises an alert; the numbers in its `text`, a sentence for people, may change while it lasts."""

    rule: str
    group_id: str
    text: str

    @property
    def key(self) -> tuple[str, str]:
        return self.rule, self.group_id


def find(tables: TableSource, rules: Rules, now_ms: int) -> list[Finding]:
    """Find what the tables show at `now_ms`.

    Reads the rows of `groups`, `progress` and `slo`: one for each group, and one for each partition that a group has committed. So a
    look costs the same however old the log is.
    """
    groups = tables.read("groups", _GROUPS)
    progress = tables.read("progress", PROGRESS_COLUMNS)
    lag = known_lag(progress)
    found = [*_storms(groups, rules, now_ms), *_without_members(groups)]
    if rules.rebalances is not None:
        found += _rebalances(groups, rules.rebalances, rules.rebalances_window_ms, now_ms)
    if rules.lag is not None:
        found += _lag(lag, rules.lag)
    if rules.standing_ms is not None:
        late = standing_still(progress, groups, lag, now_ms, least_ms=rules.standing_ms)
        found += _standing(late, now_ms)
    found += _slo(budgets_of(tables.read("slo", Budget._fields)))
    return sorted(found)


def _storms(groups: Any, rules: Rules, now_ms: int) -> Iterator[Finding]:
    rows = _since(groups, "storm_end_ts", now_ms - rules.storm_window_ms)
    for row in rows.to_pylist():
        client, group_id = row["storm_client"], row["group_id"]
        behind = f", most of them of client {client}" if client else ""
        text = f"group {group_id} is in a storm of {row['storm_generations']} rebalances{behind}"
        if row["storm_stalled_ms"]:
            text += f"; it cost {partition_seconds(row['storm_stalled_ms'])} without progress"
        yield Finding(STORM, group_id, text)


def _without_members(groups: Any) -> Iterator[Finding]:
    """Yield a finding for each group with committed offsets and no members."""
    alone = groups.filter(pc.equal(groups.column("n_members"), 0))
    for row in alone.filter(pc.greater(alone.column("committed"), 0)).to_pylist():
        count = row["committed"]
        partitions = "1 partition" if count == 1 else f"{count} partitions"
        text = f"group {row['group_id']} has no members; it has committed offsets for {partitions}"
        yield Finding(NO_OWNER, row["group_id"], text)


def _rebalances(groups: Any, most: int, window_ms: int, now_ms: int) -> Iterator[Finding]:
    times = groups.column("recent_ts")
    of_group = groups.column("group_id").take(pc.list_parent_indices(times))
    recent = pa.table({"group_id": of_group, "ts": pc.list_flatten(times)})
    rows = _since(recent, "ts", now_ms - window_ms)
    for row in rows.group_by("group_id").aggregate([("ts", "count")]).to_pylist():
        if row["ts_count"] >= most:
            text = (
                f"group {row['group_id']} had {row['ts_count']} rebalances in {window_ms // 1000} s"
            )
            yield Finding(REBALANCES, row["group_id"], text)


def _lag(lag: Mapping[tuple[str, str, int], int], most: int) -> Iterator[Finding]:
    behind: dict[str, tuple[int, str]] = {}
    for (group_id, topic, partition), records in lag.items():
        if records > most:
            found = records, f"{topic}-{partition}"
            behind[group_id] = max(behind.get(group_id, (0, "")), found)
    for group_id, (records, place) in behind.items():
        yield Finding(LAG, group_id, f"group {group_id} is {records} records behind in {place}")


def _standing(late: Iterable[Late], now_ms: int) -> Iterator[Finding]:
    by_group: defaultdict[str, list[int]] = defaultdict(list)
    for each in late:
        by_group[each.group_id].append(now_ms - each.since_ms)
    for group_id, times in by_group.items():
        partitions = "1 partition stands" if len(times) == 1 else f"{len(times)} partitions stand"
        text = (
            f"group {group_id}: {partitions} still, for up to {max(times) // 1000} s:"
            f" {partition_seconds(sum(times))} without progress"
        )
        yield Finding(STANDING, group_id, text)


def _slo(found: Iterable[Budget]) -> Iterator[Finding]:
    for each in found:
        if each.alert is None:
            continue
        fast = (
            ""
            if each.burn_1h is None
            else f" {each.burn_1h:.1f} times as fast as it may in the last hour,"
        )
        text = (
            f"group {each.group_id} spends its error budget{fast} {max(0.0, each.budget_left):.0%} of it is left:"
            f" {each.good_percent:.3f} % of partition-seconds were read within {each.within_ms / 1000:g} s,"
            f" the objective is {each.percent:g} %"
        )
        yield Finding(f"slo_{each.alert}", each.group_id, text)


def _since(rows: Any, column: str, begin_ms: int) -> Any:
    times = pc.cast(rows.column(column), "int64")
    return rows.filter(pc.greater_equal(times, begin_ms * 1000))


@dataclass(frozen=True, slots=True)
class Alert:
    """A finding that began or ended: `state` is "begun" or "over"."""

    state: str
    rule: str
    group_id: str
    text: str
    ts_ms: int

    def to_json(self) -> str:
        """Return it as one line of JSON."""
        return json.dumps(asdict(self))

    @property
    def key(self) -> tuple[str, str]:
        """The rule and the group: one alert of each is open at a time."""
        return self.rule, self.group_id


BEGUN: Final = "begun"
OVER: Final = "over"


@dataclass(frozen=True, slots=True)
class Sink:
    """Where alerts are delivered: `deliver` raises OSError or SubprocessError if it failed, and gets them again at the next check.

    `name` identifies the sink across restarts.
    """

    name: str
    deliver: Callable[[Alert], object]


class Alerting:
    """Compares the findings with those of the previous look, and delivers the difference to each sink.

    A sink that fails gets what it missed at the next look, in order, and the others do not get it again. A begun alert
    that is over before a sink could take it is not delivered to it.

    Active alerts and undelivered ones are kept in a file, so a restarted process repeats nothing. A process that is killed
    between a delivery and writing the file delivers that alert again.
    """

    def __init__(self, system: Any, path: str, sinks: Sequence[Sink]) -> None:
        self._system = system
        self._path = path
        self._sinks = sinks
        self._active: dict[tuple[str, str], Finding] = {}
        self._waiting: dict[str, dict[tuple[str, str], Alert]] = {each.name: {} for each in sinks}
        self._load()

    @property
    def undelivered(self) -> int:
        return sum(map(len, self._waiting.values()))

    def look(self, found: Iterable[Finding], now_ms: int) -> list[Alert]:
        """Deliver the findings that began or ended since the previous look. Return the alerts that every sink has now taken."""
        now = {each.key: each for each in found}
        begun = [each for key, each in now.items() if key not in self._active]
        over = [each for key, each in self._active.items() if key not in now]
        for state, findings in ((BEGUN, begun), (OVER, over)):
            for each in findings:
                self._queue(Alert(state, each.rule, each.group_id, each.text, now_ms))
        self._active.update((each.key, each) for each in begun)
        for each in over:
            del self._active[each.key]
        before = [alert for waiting in self._waiting.values() for alert in waiting.values()]
        if not (before or begun or over):
            return []
        try:
            for sink in self._sinks:
                self._deliver(sink)
        finally:
            self._save()
        missed = {alert for waiting in self._waiting.values() for alert in waiting.values()}
        return [alert for alert in dict.fromkeys(before) if alert not in missed]

    def _queue(self, alert: Alert) -> None:
        for waiting in self._waiting.values():
            # a sink that has not heard of the beginning need not hear of the end, nor the other way round
            if waiting.pop(alert.key, None) is None:
                waiting[alert.key] = alert

    def _deliver(self, sink: Sink) -> None:
        waiting = self._waiting[sink.name]
        for key, alert in list(waiting.items()):
            try:
                sink.deliver(alert)
            except (OSError, subprocess.SubprocessError) as error:
                logger.warning(
                    "group=%s: alert not delivered to %s, %d wait: %s",
                    alert.group_id,
                    sink.name,
                    len(waiting),
                    error,
                )
                return
            del waiting[key]

    def _load(self) -> None:
        if self._system.get_file_info(self._path).type == fs.FileType.NotFound:
            return
        with self._system.open_input_stream(self._path) as file:
            kept = json.loads(file.read())
        findings = [Finding(**each) for each in kept["active"]]
        self._active = {each.key: each for each in findings}
        for name, alerts in kept["waiting"].items():
            if name in self._waiting:
                self._waiting[name] = {each.key: each for each in (Alert(**one) for one in alerts)}

    def _save(self) -> None:
        kept = {
            "active": [asdict(each) for each in self._active.values()],
            "waiting": {
                name: [asdict(each) for each in waiting.values()]
                for name, waiting in self._waiting.items()
                if waiting
            },
        }
        self._system.create_dir(self._path.rpartition("/")[0], recursive=True)
        with self._system.open_output_stream(f"{self._path}.new") as file:
            file.write(json.dumps(kept).encode())
        self._system.move(f"{self._path}.new", self._path)


def line_sink(write: Callable[[str], object]) -> Sink:
    """Return a sink that writes each alert as one line of JSON."""
    return Sink("standard output", lambda alert: write(f"{alert.to_json()}\n"))


class _NoRedirect(HTTPRedirectHandler):
    """Takes a redirection as an error: followed, it would be a GET without the alert."""

    @override
    def redirect_request(self, *_: Any) -> None:
        return None


def webhook_sink(url: str) -> Sink:
    """Return a sink that posts each alert as JSON; ConfigError for a URL that is not http or https, or has no host."""
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"a webhook is an http:// or https:// URL, not {url!r}")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"webhook {url!r}: {error}") from None
    if not host or any(each <= " " for each in url):
        raise ConfigError(f"webhook {url!r} is not a URL with a host, and without spaces")
    opener = build_opener(_NoRedirect)

    def deliver(alert: Alert) -> None:
        request = Request(
            url, alert.to_json().encode(), {"Content-Type": "application/json"}, method="POST"
        )
        try:
            with opener.open(request, timeout=_TIMEOUT_S):
                return
        except HTTPError as error:
            error.close()
            raise
        except HTTPException as error:
            # no answer of HTTP: not an OSError, as other failures are
            raise OSError(f"{type(error).__name__}: {error}") from error

    # the rest of the URL may be a secret
    digest = hashlib.sha256(url.encode()).hexdigest()[:8]
    return Sink(f"webhook {host}{'' if port is None else f':{port}'} ({digest})", deliver)


def command_sink(command: str) -> Sink:
    """Return a sink that runs a command for each alert, without a shell, with the JSON on its standard input; what it prints goes to standard error.

    Raises ConfigError if the command is empty, its quotes do not match, or there is no such program.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"command {command!r} cannot be read: {error}") from error
    if not words:
        raise ConfigError("command must name a program")
    if shutil.which(words[0]) is None:
        raise ConfigError(f"command {command!r}: there is no program {words[0]!r}")

    def deliver(alert: Alert) -> None:
        # standard output is that of the alerts alone
        subprocess.run(
            words,
            input=alert.to_json(),
            stdout=_STDERR,
            text=True,
            check=True,
            timeout=_TIMEOUT_S,
        )

    # the arguments may hold a secret
    digest = hashlib.sha256(command.encode()).hexdigest()[:8]
    return Sink(f"command {words[0]} ({digest})", deliver)
