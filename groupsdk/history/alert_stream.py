"""Report generations and storms of a live log, with Spark's stateful streaming."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import DataFrame, functions as f
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from typing_extensions import override

from groupsdk.history.groups.explaining import STORM_GENERATIONS, STORM_WINDOW_MS
from groupsdk.history.groups.live_alerts import Alert, AlertState, end_quiet_storm, next_alerts


COLUMNS: Final = (
    "group_id string, kind string, generation int, ts timestamp, cause string, joined int, gone int,"
    " members int, rebalances int, src_offset bigint"
)
"""The columns of an alert; see `groups.live_alerts.Alert`."""

_NAMES: Final = tuple(column.split()[0] for column in COLUMNS.split(", "))
_GROUP_METADATA: Final = "0002"


def alert_stream(
    raw: DataFrame,
    *,
    storm_generations: int = STORM_GENERATIONS,
    storm_window_ms: int = STORM_WINDOW_MS,
    timers: bool = True,
) -> DataFrame:
    """Turn a stream of raw records into a stream of alerts.

    Spark keeps the last generation of each group in its state store, which has to be RocksDB
    (`session.SETTINGS`), and in the checkpoint: a query that is started again tells nothing twice. Each
    batch takes some seconds whatever is in it, so trigger no more often than every ten.

    Args:
        raw: of `archive.read_stream`.
        storm_generations: so many generations...
        storm_window_ms: ...within so long make a storm.
        timers: tell of the end of a storm also where nothing comes after it. Spark then makes empty batches
            for the sake of its clock, and a query that is to end with what is there (`availableNow`) never
            does: say False for that; the end of a storm is told with the next generation.
    """
    length = f.conv(f.hex(f.substring("key", 3, 2)), 16, 10).cast("int")
    return (
        raw.filter((f.hex(f.substring("key", 1, 2)) == _GROUP_METADATA) & ~f.col("control"))
        .select(
            f.try_validate_utf8(
                f.expr("substring(key, 5, int(conv(hex(substring(key, 3, 2)), 16, 10)))").cast(
                    "string"
                )
            ).alias("group_id"),
            *("src_offset", "ts", "key", "value"),
        )
        .filter(f.col("group_id").isNotNull() & (length > 0))
        .groupBy("group_id")
        .transformWithStateInPandas(
            GroupWatcher(storm_generations, storm_window_ms, timers=timers),
            COLUMNS,
            "Append",
            "ProcessingTime" if timers else "None",
        )
    )


class GroupWatcher(StatefulProcessor):
    """Feeds each group's records to `groups.live_alerts` and keeps its state.

    Args:
        storm_generations: this many rebalances within the window are a storm.
        storm_window_ms: the window, in milliseconds.
        timers: whether to report the end of a storm without a further record, by a timer of Spark.
    """

    def __init__(self, storm_generations: int, storm_window_ms: int, *, timers: bool) -> None:
        self._timers = timers
        self._generations = storm_generations
        self._window_ms = storm_window_ms

    @override
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState("watch", "text string")

    @override
    def handleInputRows(
        self, key: Any, rows: Iterator[Any], timerValues: TimerValues
    ) -> Iterator[Any]:
        state = self._load()
        found: list[Alert] = []
        # a batch may bring them in any order, and the state only knows what was last
        every = [row for frame in rows for row in frame.itertuples(index=False)]
        for row in sorted(every, key=lambda each: each.src_offset):
            value = None if row.value is None else bytes(row.value)
            state, told = next_alerts(
                state,
                row.src_offset,
                row.ts.value // 1_000_000,
                bytes(row.key),
                value,
                storm_generations=self._generations,
                storm_window_ms=self._window_ms,
            )
            found += told
        self._store(state)
        if state.storming and self._timers:
            now_ms = timerValues.getCurrentProcessingTimeInMs()
            self._handle.registerTimer(now_ms + self._window_ms)
        if found:
            yield _frame(key[0], found)

    @override
    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Any]:
        now_ms = timerValues.getCurrentProcessingTimeInMs()
        # a later generation set a later timer, which then is the one that counts
        if any(each > now_ms for each in self._handle.listTimers()):
            return
        state, told = end_quiet_storm(self._load(), now_ms)
        self._store(state)
        found = list(told)
        if found:
            yield _frame(key[0], found)

    @override
    def close(self) -> None:
        """Do nothing: Spark keeps the state."""

    def _load(self) -> AlertState:
        found = self._state.get() if self._state.exists() else None
        return AlertState() if found is None else AlertState.from_text(found[0])

    def _store(self, state: AlertState) -> None:
        self._state.update((state.to_text(),))


def _frame(group_id: str, found: list[Alert]) -> Any:
    import pandas as pd

    rows = [
        (
            group_id,
            each.kind,
            each.generation,
            datetime.fromtimestamp(each.ts_ms / 1000, UTC).replace(tzinfo=None),
            each.cause,
            each.joined,
            each.gone,
            each.members,
            each.rebalances,
            each.offset,
        )
        for each in found
    ]
    return pd.DataFrame(rows, columns=list(_NAMES))
