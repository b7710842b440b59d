"""Follow `__consumer_offsets` beside what watches groups, with a share of the time of one processor core."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from groupsdk.admin.cluster import LATEST, ClusterClient
from groupsdk.admin.coordinator_log import OFFSETS_TOPIC, next_offset
from groupsdk.admin.descriptions import matches
from groupsdk.assignment import TopicPartition
from groupsdk.clock import WallClock
from groupsdk.error_code import ErrorCode
from groupsdk.errors import BrokerError, GroupSdkError, broker_error
from groupsdk.verdict.log_reader import records_from
from groupsdk.verdict.observation import KnownLog, LoggedGroup, Obstacle, ObstacleKind
from groupsdk.verdict.questions import obstacle, offsets_retention_ms
from groupsdk.verdict.recent_log import KEPT_MS, RecentLogs


logger = logging.getLogger(__name__)

T = TypeVar("T")

_QUESTION: Final = "the groups' log"
SHARE: Final = 0.1
"""The share of a processor core that reading may take."""
INTERVAL_S: Final = 2.0
_REFUSED_S: Final = 60.0
"""The time until a right that is missing, or a log that does not exist yet, is looked for again."""
_FETCH_BYTES: Final = 512 * 1024
_BACK_MS: Final = 8 * 24 * 3_600_000
"""How far back reading begins: for how long groups have been empty, and whether that is usual."""
_MOST: Final = 50_000
"""The most records of a partition that are read at once: its last ones. Others are skipped."""


NOT_READ: Final = KnownLog(
    problem=Obstacle(ObstacleKind.OTHER, _QUESTION, "switched off", optional=True)
)


class LogFollower:
    """Reads the log of the groups that match shell patterns, incrementally, and keeps their last hour in memory.

    Belongs to one event loop; `known` may be read on any thread.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        patterns: Collection[str] = (),
        *,
        timeout_s: float = 15.0,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._settings = dict(settings)
        self._patterns = tuple(patterns)
        self._timeout_s = timeout_s
        self._interval_s = interval_s
        self._clock = WallClock()
        self._logs = RecentLogs(partial(matches, patterns=self._patterns))
        self._next: dict[int, int] = {}
        """The next offset to read of each partition."""
        self._since_ms: dict[int, int] = {}
        self._busy_s = 0.0
        self._read_once = asyncio.Event()
        self.known = KnownLog(is_begun=False)

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[None]:
        """Follow the log in a task of its own during the with block."""
        following = asyncio.ensure_future(self.follow())
        try:
            yield
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following

    async def has_read(self) -> None:
        """Wait until the log was read up to its end, or could not be read."""
        await self._read_once.wait()

    async def follow(self) -> None:
        """Read until cancelled; what prevents it is `known.problem`."""
        while True:
            pause_s = self._interval_s
            try:
                async with ClusterClient(self._settings, timeout_s=self._timeout_s) as client:
                    await self._follow(client)
            except (GroupSdkError, OSError) as error:
                problem = obstacle(error, _QUESTION, "Read", OFFSETS_TOPIC, optional=True)
                self._fail(problem)
                if isinstance(error, BrokerError) and not error.retriable:
                    pause_s = _REFUSED_S
            except Exception as error:
                logger.exception("reading the groups' log failed; those who watch go on without it")
                self._fail(Obstacle(ObstacleKind.OTHER, _QUESTION, repr(error), optional=True))
                pause_s = _REFUSED_S
            await asyncio.sleep(pause_s)

    def _fail(self, problem: Obstacle) -> None:
        self.known = replace(self.known, problem=problem)
        self._read_once.set()

    async def _follow(self, client: ClusterClient) -> None:
        kept_ms = None
        with suppress(BrokerError):
            kept_ms = await offsets_retention_ms(client)
        while True:
            described = (await client.metadata([OFFSETS_TOPIC])).topics.get(OFFSETS_TOPIC)
            code = described.error_code if described else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            # it is created for the first group
            if code and code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise broker_error(code, f"topic {OFFSETS_TOPIC}")
            numbers = described.partitions if described and not code else ()
            await self._read(client, [TopicPartition(OFFSETS_TOPIC, each) for each in numbers])
            now_ms = self._clock.now_ms()
            groups = await self._work(lambda: self._settle(now_ms))  # noqa: B023  # awaited here
            self.known = KnownLog(groups, kept_ms)
            self._read_once.set()
            await asyncio.sleep(self._interval_s)

    async def _read(self, client: ClusterClient, places: Sequence[TopicPartition]) -> None:
        """Read partitions up to their present ends."""
        ends = await client.list_offsets(dict.fromkeys(places, LATEST)) if places else {}
        await self._begin(client, ends)
        for place, end in ends.items():
            start = self._next[place.partition]
            while start < end:
                data = await client.fetch(place, start, max_bytes=_FETCH_BYTES, max_wait_ms=0)
                records = data.records or b""
                await self._work(lambda: self._take(records, place.partition, start))  # noqa: B023
                # compaction may have taken what was there up to the end
                after = next_offset(records, start)
                start = after if after > start else end
                self._next[place.partition] = start

    async def _begin(self, client: ClusterClient, ends: Mapping[TopicPartition, int]) -> None:
        """Choose where to begin in partitions that are new, and skip what is too much to read, or is gone."""
        far = [
            place
            for place, end in ends.items()
            for start in (self._next.get(place.partition, -1),)
            if start < 0 or not end - _MOST <= start <= end
        ]
        if not far:
            return
        now_ms = self._clock.now_ms()
        firsts = await client.list_offsets(dict.fromkeys(far, now_ms - _BACK_MS))
        self._logs.lose({each.partition for each in far})
        for place in far:
            end = ends[place]
            first = firsts[place] if firsts[place] >= 0 else end
            self._next[place.partition] = start = max(first, end - _MOST)
            self._since_ms[place.partition] = now_ms - _BACK_MS if start == first else -1

    def _settle(self, now_ms: int) -> Mapping[str, LoggedGroup]:
        known = self._logs.known()
        self._logs.forget(now_ms - KEPT_MS)
        return known

    def _take(self, records: bytes, partition: int, start: int) -> None:
        for record, leader_epoch in records_from(records, start):
            if self._since_ms[partition] < 0:
                self._since_ms[partition] = record.timestamp
            self._logs.take(record, partition, leader_epoch, self._since_ms[partition])

    async def _work(self, what: Callable[[], T]) -> T:
        """Compute beside the loop, then rest until the share is kept."""

        def timed() -> tuple[T, float]:
            began_s = time.thread_time()
            return what(), time.thread_time() - began_s

        result, busy_s = await asyncio.to_thread(timed)
        self._busy_s += busy_s
        if self._busy_s > 0.02:
            rest_s, self._busy_s = self._busy_s * (1 / SHARE - 1), 0.0
            await asyncio.sleep(rest_s)
        return result
