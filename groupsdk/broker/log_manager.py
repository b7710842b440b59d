"""Manage the logs of all partitions: opened on first use, maintained and shortened in the background."""

import logging
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from groupsdk.broker.catalogue import Catalogue, Topic
from groupsdk.broker.coordinator.runtime.scheduler import Scheduler, Timer
from groupsdk.broker.log.directory import LogDirectory, Partition
from groupsdk.broker.log.errors import CorruptLogError, StorageError
from groupsdk.broker.log.files import DiskFiles
from groupsdk.broker.settings.table import BrokerConfig
from groupsdk.broker.settings.topic import LogConfig, topic_defaults
from groupsdk.errors import GroupSdkError


if TYPE_CHECKING:
    from groupsdk.broker.log.partition_log import PartitionLog
    from groupsdk.broker.log.segment import Segment


logger = logging.getLogger(__name__)
_NEVER_MS: Final = 2**63 - 1


class LogManager:
    """The logs of a cluster, in one data directory (Kafka: LogManager).

    Not thread-safe: one thread calls it.

    Args:
        in_steps: calls one step of retention or compaction, between which requests are served.

    Attributes:
        opening: the steps that open unused logs for retention; None: they are not running.
    """

    def __init__(
        self,
        directory: LogDirectory,
        config: BrokerConfig,
        catalogue: Catalogue,
        scheduler: Scheduler,
        in_steps: Callable[[Callable[[], Any]], Any],
    ) -> None:
        self._directory = directory
        self._config = config
        self._catalogue = catalogue
        self._scheduler = scheduler
        self._in_steps = in_steps
        self.open: dict[Partition, PartitionLog] = {}
        """The open logs; read-only for callers."""
        self._open_partitions: dict[str, list[int]] = {}
        self._defaults: LogConfig | None = None
        self._compacting: Iterator[None] | None = None
        self.opening: Iterator[None] | None = None
        self._upkeep = False
        self._flushing = False
        self._next_compaction: Timer | None = None
        self._stopped = False
        self._said: dict[Partition, str] = {}

    @property
    def path(self) -> str:
        """The data directory."""
        return self._directory.path

    def disk_space(self) -> tuple[int, int]:
        """Return the size of the disk and its free space, in bytes; -1 for each in memory, or if it cannot be read."""
        if not isinstance(self._directory.files, DiskFiles):
            return -1, -1
        from shutil import disk_usage  # only a description of the disk needs it

        try:
            found = disk_usage(self.path)
        except OSError as error:
            logger.warning("%s: cannot read the free space: %s", self.path, error)
            return -1, -1
        return found.total, found.free

    @property
    def defaults(self) -> LogConfig:
        """The defaults for topics without settings of their own."""
        if self._defaults is None:
            self._defaults = topic_defaults(self._config)
        return self._defaults

    def topic_config(self, name: str) -> LogConfig:
        """Return the effective settings of a topic: its own, and the broker's defaults."""
        entries = dict(self._catalogue.config("topic", name))
        return LogConfig.parse(entries, self.defaults) if entries else self.defaults

    def get(self, topic: Topic, partition: int) -> "PartitionLog":
        """Return a partition's log; open it on first use, with recovery after a crash."""
        place = (topic.name, partition)
        found = self.open.get(place)
        if found is None:
            config = self.topic_config(topic.name)
            found = self.open[place] = self._directory.log(
                topic.name,
                partition,
                config,
                self._scheduler.now_ms(),
                topic_id=topic.topic_id,
            )
            self._open_partitions.setdefault(topic.name, []).append(partition)
            self._look_after(config)
        return found

    def report(self, name: str, partition: int, error: GroupSdkError) -> None:
        """Log a disk failure or a corrupt file, once per problem, as clients repeat their requests."""
        text = str(error)
        if (
            isinstance(error, (StorageError, CorruptLogError))
            and self._said.get((name, partition)) != text
        ):
            self._said[name, partition] = text
            logger.warning("%s-%d: %s", name, partition, text)

    def exists(self, name: str, partition: int) -> bool:
        """Return whether a partition has a directory, without opening its log."""
        return (name, partition) in self.open or self._directory.exists(name, partition)

    def is_open(self, name: str, partition: int) -> bool:
        """Return whether the log of a partition is open, so that `get` reads no file."""
        return (name, partition) in self.open

    def one_checkpoint(self) -> AbstractContextManager[None]:
        """Write one checkpoint for all logs whose start moves within; it has a line for each log of the broker."""
        return self._directory.one_checkpoint()

    def deletion(self, names: Collection[str]) -> Generator[None, None, None]:
        """Delete the logs of topics that the catalogue lists as deleted, with their files, in steps."""
        for name in names:
            for partition in self._open_partitions.pop(name, ()):
                self.open.pop((name, partition), None)
        yield from self._directory.deletion(names, self._catalogue.deleted.__contains__)

    def config_changed(self, name: str) -> None:
        """Apply the changed settings of a topic to its open logs."""
        config = self.topic_config(name)
        for partition in self._open_partitions.get(name, ()):
            self.open[name, partition].config = config
            self._look_after(config)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Replace the broker's settings, and update the configuration of every open log."""
        backoff_changed = config.log_cleaner_backoff_ms != self._config.log_cleaner_backoff_ms
        self._config = config
        self._defaults = None
        if self._next_compaction is not None and backoff_changed:
            self._next_compaction.cancel()
            self._compact_again()
        for name in self._open_partitions:
            self.config_changed(name)

    def opened(self) -> "Iterator[tuple[Partition, PartitionLog]]":
        """Iterate over a copy of the open logs."""
        yield from list(self.open.items())

    def start_upkeep(self) -> None:
        """Start the periodic tasks: retention, compaction, flushes, checkpoints and expiration of producers."""
        self._upkeep = True
        config = self._config
        self._every(config.log_retention_check_interval_ms, self._retain)
        self._every(config.producer_id_expiration_check_interval_ms, self._expire_producers)
        self._every(config.log_flush_offset_checkpoint_interval_ms, self._checkpoint)
        for log in self.open.values():
            self._look_after(log.config)

    def _look_after(self, config: LogConfig) -> None:
        """Start the frequent tasks that logs with these settings need, and most brokers never do."""
        if not self._upkeep:
            return
        if not self._flushing and config.flush_ms < _NEVER_MS:
            self._flushing = True
            self._every(self._config.log_flush_scheduler_interval_ms, self._flush)
        enabled = config.compact and self._config.log_cleaner_enable
        if self._next_compaction is None and enabled:
            self._compact_again()

    def _compact_again(self) -> None:
        def run() -> None:
            if not self._stopped:
                self._compact_again()
                self._compact()

        self._next_compaction = self._scheduler.after(
            max(self._config.log_cleaner_backoff_ms, 1), run
        )

    def _every(self, interval_ms: int, work: Callable[[], None]) -> None:
        def run() -> None:
            if not self._stopped:
                self._scheduler.after(interval_ms, run)
                work()

        self._scheduler.after(interval_ms, run)

    def _retain(self) -> None:
        now_ms = self._scheduler.now_ms()
        self._for_each_log("retention", lambda log: enforce_retention(log, now_ms))
        if self.opening is None:
            closed = [each for each in sorted(self._directory.found) if each not in self.open]
            if closed:
                self.opening = self._opened_for_upkeep(closed)
                self._in_steps(self._open_on)

    def _opened_for_upkeep(self, places: list[Partition]) -> Iterator[None]:
        """Open unused logs as well, as their records also expire."""
        for place in places:
            yield
            name, partition = place
            topic = self._catalogue.topics.get(name)
            if topic is None or partition >= len(topic.partitions) or place in self.open:
                continue
            try:
                if self._directory.holds_records(name, partition):
                    enforce_retention(self.get(topic, partition), self._scheduler.now_ms())
            except GroupSdkError as error:
                self.report(name, partition, error)

    def _open_on(self) -> None:
        # after an unforeseen failure, the next round starts over
        opening, self.opening = self.opening, None
        self.opening = self._go_on(opening, self._open_on)

    def _expire_producers(self) -> None:
        now_ms, after_ms = self._scheduler.now_ms(), self._config.producer_id_expiration_ms
        self._for_each_log("expiry", lambda log: log.producers.expire(now_ms, after_ms))

    def _for_each_log(self, what: str, work: "Callable[[PartitionLog], Any]") -> None:
        """Do something with every open log, each in a step of its own."""

        def go_on() -> None:
            for place, log in remaining:
                if not self._stopped and self.open.get(place) is log:
                    self._try(place, what, partial(work, log))
                    self._in_steps(go_on)
                    return

        remaining = self.opened()
        self._in_steps(go_on)

    def _flush(self) -> None:
        now_ms = self._scheduler.now_ms()
        for place, log in self.opened():
            self._try(place, "flush", partial(log.flush_if_due, now_ms))

    def _checkpoint(self) -> None:
        self._try(("", -1), "checkpoint", self._directory.checkpoint)

    def _compact(self) -> None:
        """Compact one log after the other, a little at a time."""
        if self._compacting is None:
            self._compacting = self._compaction()
            self._in_steps(self._compact_on)

    def _compaction(self) -> Iterator[None]:
        from groupsdk.broker.log.cleaner import is_due

        for place, log in self.opened():
            yield
            now_ms = self._scheduler.now_ms()
            if not (log.config.compact and is_due(log, now_ms)):
                continue
            try:
                for _ in log.compaction(now_ms):
                    yield
                    if self._stopped or self.open.get(place) is not log:
                        break
            except GroupSdkError as error:
                logger.warning("%s-%d: compaction failed: %s", *place, error)

    def _compact_on(self) -> None:
        compacting, self._compacting = self._compacting, None
        self._compacting = self._go_on(compacting, self._compact_on)

    def _go_on(
        self, work: Iterator[None] | None, again: Callable[[], None]
    ) -> Iterator[None] | None:
        """Run one step of a long task, and schedule the next; None if it is finished."""
        if work is None or self._stopped or next(work, self) is self:
            return None
        self._in_steps(again)
        return work

    def _try(self, place: Partition, what: str, work: Callable[[], Any]) -> None:
        try:
            work()
        except GroupSdkError as error:
            logger.warning("%s-%d: %s failed: %s", *place, what, error)

    def close(self) -> None:
        """Stop the periodic tasks, flush everything and close the files."""
        self._stopped = True
        self._compacting = self.opening = None
        self._directory.close()
        self.open.clear()
        self._open_partitions.clear()


_UNLIMITED: Final = -1


def enforce_retention(log: "PartitionLog", now_ms: int) -> int:
    """Delete whole segments from the start of a log. Return how many were deleted.

    A segment's age counts from its latest timestamp. The last segment is deleted only by age; a new one is rolled
    first. Of logs without the policy "delete" only segments before the start of the log are deleted: such a one is
    left where records were deleted up to the end of the last segment, and another segment followed.
    """
    count = _before_start(log)
    if log.config.delete:
        count = max(count, _too_old(log, now_ms), _too_much(log))
    if not count:
        return 0
    if count == len(log.segments):
        log.roll(now_ms)
    offset = log.bases[count]
    logger.info(
        "%s: deleting %d segments before offset %d (retention.ms=%d, retention.bytes=%d)",
        log.directory,
        count,
        offset,
        log.config.retention_ms,
        log.config.retention_bytes,
    )
    log.advance_start(offset)
    return count


def _before_start(log: "PartitionLog") -> int:
    return sum(base <= log.log_start_offset for base in log.bases[1:])


def _latest(segment: "Segment") -> int:
    # records without timestamps are as old as their segment
    return segment.max_timestamp if segment.max_timestamp >= 0 else segment.created_ms


def _too_old(log: "PartitionLog", now_ms: int) -> int:
    limit = log.config.retention_ms
    if limit == _UNLIMITED:
        return 0
    count = 0
    for segment in log.segments:
        if now_ms - _latest(segment) <= limit or (segment is log.segments[-1] and not segment.size):
            break
        count += 1
    return count


def _too_much(log: "PartitionLog") -> int:
    limit = log.config.retention_bytes
    if limit == _UNLIMITED:
        return 0
    surplus = log.size - limit
    count = 0
    for segment in log.segments[:-1]:
        surplus -= segment.size
        if surplus < 0:
            break
        count += 1
    return count
