"""A broker's data directory: its owner, its partitions, and their checkpoints (Kafka: LogManager)."""

import json
import logging
import re
import uuid
from base64 import urlsafe_b64decode
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from groupsdk.broker.log import checkpoints
from groupsdk.broker.log.errors import (
    DirectoryLockedError,
    LogDirectoryError,
    StorageError,
    storage_error,
    storage_errors,
)
from groupsdk.broker.log.files import Files
from groupsdk.broker.settings.topic import LogConfig
from groupsdk.wire.primitives import kafka_uuid


if TYPE_CHECKING:
    from groupsdk.broker.log.partition_log import PartitionLog


logger = logging.getLogger(__name__)
LOCK: Final = ".lock"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
PARTITION_METADATA: Final = "partition.metadata"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
CONTROLLERS_LOG: Final = "__cluster_metadata"
"""The metadata log of Kafka's controllers may be in the same directory; it is never opened."""

_DELETED_AT_ONCE: Final = 64
"""How many logs are renamed, or removed, in a step: some milliseconds' work."""
_PARTITION: Final = re.compile(r"([A-Za-z0-9._-]{1,249})-(\d{1,9})")
_DELETED: Final = re.compile(r".*\.[0-9a-f]{32}-delete")
_TOPIC_ID: Final = re.compile(r"topic_id:\s+([A-Za-z0-9_-]{22})")

Partition = tuple[str, int]


def uuid_of(text: str) -> uuid.UUID:
    """Parse an id in Kafka's format, 22 characters of URL-safe base64 without padding; ValueError if it is not one."""
    return uuid.UUID(bytes=urlsafe_b64decode(f"{text}=="))


class LogDirectory:
    """Opens, creates and deletes the logs in one directory, which belongs to one broker at a time.

    The layout is Kafka's: `<topic>-<partition>` directories, `meta.properties`, checkpoint files, and a marker
    file of a clean shutdown. Create it by `open`. Not thread-safe: one thread calls it.
    """

    def __init__(self, files: Files, path: str) -> None:
        """Prepare an unopened directory; use `open` instead."""
        self.files = files
        self.path = path
        self.was_clean = False
        """Whether the broker before closed everything."""
        self._logs: dict[Partition, PartitionLog] = {}
        self._found: dict[Partition, uuid.UUID | None] = {}
        self._recovery_points: dict[Partition, int] = {}
        self._log_starts: dict[Partition, int] = {}
        self._cleaner_offsets: dict[Partition, int] = {}
        self._owes_checkpoint = True  # to forget deleted logs; at first not known
        self._has_one_checkpoint = False
        self._is_checkpoint_due = False

    @classmethod
    def open(cls, files: Files, path: str, *, cluster_id: str, node_id: int) -> "LogDirectory":
        """Lock a directory and list its partitions.

        Create it, with its parents, for its owner only if it does not exist. The ids are written into a new directory;
        those of an existing one must be the same.

        Raises:
            DirectoryLockedError: another broker, or Kafka, has locked it.
            LogDirectoryError: it belongs to another cluster or node.
        """
        directory = cls(files, path.rstrip("/"))
        lock = directory._path(LOCK)
        try:
            files.make_directory(directory.path)
            files.lock(lock)
        except BlockingIOError as error:
            raise DirectoryLockedError(
                f"the data directory {path} is in use: {error.strerror} ({lock})"
            ) from error
        except OSError as error:
            raise storage_error("opening a data directory", path, error) from error
        try:
            directory._load(cluster_id, node_id)
        except BaseException:
            files.unlock(lock)
            raise
        return directory

    @property
    def found(self) -> dict[Partition, uuid.UUID | None]:
        """A copy of the partitions on disk, opened or not, with their topic ids; None: no id was recorded."""
        return dict(self._found)

    def exists(self, topic: str, partition: int) -> bool:
        """Return whether a partition is on disk, opened or not."""
        return (topic, partition) in self._found

    def holds_records(self, topic: str, partition: int) -> bool:
        """Return whether a partition has a non-empty segment, without opening its log."""
        directory = self._path(f"{topic}-{partition}")
        with storage_errors("looking through", directory):
            names = self.files.names(directory)
            return any(
                name.endswith(".log") and self.files.size(f"{directory}/{name}") for name in names
            )

    def log(
        self,
        topic: str,
        partition: int,
        config: LogConfig,
        now_ms: int,
        *,
        topic_id: uuid.UUID | None = None,
    ) -> "PartitionLog":
        """Return the log of a partition, opening or creating it.

        Raises:
            LogDirectoryError: the directory belongs to another topic of the same name, or the name is not valid.
        """
        key = (topic, partition)
        known = self._logs.get(key)
        if known is not None:
            return known
        match = _PARTITION.fullmatch(f"{topic}-{partition}")
        if match is None or match[1] != topic:
            raise LogDirectoryError(
                f"{topic!r} is not a valid topic name, or {partition} is not a valid partition"
            )
        directory = self._path(f"{topic}-{partition}")
        if key in self._found:
            there = self._found[key]
            if topic_id is not None and there is not None and there != topic_id:
                raise LogDirectoryError(
                    f"{directory} belongs to another topic of the same name: its topic id is"
                    f" {kafka_uuid(there)}, not {kafka_uuid(topic_id)}"
                )
        else:
            self._make(directory, topic_id)
            self._found[key] = topic_id
            self._forget(key)
        # takes a third of a broker's start, and a broker without records does not need it
        from groupsdk.broker.log.partition_log import PartitionLog

        log = PartitionLog.open(
            self.files,
            directory,
            config,
            now_ms,
            clean=self.was_clean and key in self._recovery_points,
            recovery_point=self._recovery_points.get(key, 0),
            log_start_offset=self._log_starts.get(key, 0),
            cleaned_offset=self._cleaner_offsets.get(key, 0),
            on_checkpoint=self._checkpoint_soon,
        )
        self._logs[key] = log
        return log

    def delete(self, topics: Collection[str]) -> None:
        """Delete all logs of some topics at once; see `deletion`."""
        for _ in self.deletion(topics, lambda _: True):
            pass

    def deletion(
        self, topics: Collection[str], is_deleted: Callable[[str], bool]
    ) -> Generator[None, None, None]:
        """Delete all logs of some topics, and forget their checkpoints, in steps; does nothing for a topic without logs.

        The checkpoints, which have a line for each log, are written once for all of them. The directories are renamed
        first, so a crash in between never leaves part of a log. `is_deleted` tells between two steps which topics still
        are: one of the same name may have been created.
        """
        found = [key for key in self._found if key[0] in topics]
        if not found and not self._owes_checkpoint:
            return
        self._owes_checkpoint = True
        deleted: list[str] = []
        try:
            for number, key in enumerate(found, 1):
                if is_deleted(key[0]):
                    self._hide(*key, deleted)
                if not number % _DELETED_AT_ONCE:
                    yield
            # after a crash, a new topic of the same name must not adopt these
            written = self._is_checkpointed()
            if len(deleted) > _DELETED_AT_ONCE:
                yield
            for number, path in enumerate(deleted, 1):
                self.files.remove_directory(path)
                if not number % _DELETED_AT_ONCE:
                    yield
            if not written:
                # on a full disk there is room for it only now
                self.checkpoint()
            self._owes_checkpoint = False
        except OSError as error:
            raise storage_error("deleting", error.filename or self.path, error) from error

    def _is_checkpointed(self) -> bool:
        try:
            self.checkpoint()
        except StorageError:
            return False
        return True

    def _hide(self, topic: str, partition: int, deleted: list[str]) -> None:
        """Rename a log's directory, so that a crash cannot leave half a log, and add its new name to `deleted`."""
        path = self._path(f"{topic}-{partition}")
        if self.files.exists(path):
            hidden = self._path(f"{topic[:200]}-{partition}.{uuid.uuid4().hex}-delete")
            # a flush for each of very many takes minutes; the checkpoint that follows flushes all
            self.files.rename(path, hidden, sync=False)
            deleted.append(hidden)
        self._logs.pop((topic, partition), None)
        self._found.pop((topic, partition), None)
        self._forget((topic, partition))

    def checkpoint(self) -> None:
        """Write the recovery point, compaction point and start offset of each log."""
        for key, log in self._logs.items():
            self._recovery_points[key] = log.recovery_point
            _note(self._log_starts, key, log.log_start_offset)
            _note(self._cleaner_offsets, key, log.cleaned_offset)
        for name, offsets in (
            (RECOVERY_POINTS, self._recovery_points),
            (LOG_STARTS, self._log_starts),
            (CLEANER_OFFSETS, self._cleaner_offsets),
            (HIGH_WATERMARKS, {key: log.high_watermark for key, log in self._logs.items()}),
        ):
            checkpoints.write_offsets(self.files, self._path(name), offsets)

    @contextmanager
    def one_checkpoint(self) -> Iterator[None]:
        """Write the checkpoint at the end, once, where logs within ask for it; raise StorageError if that fails."""
        self._has_one_checkpoint = True
        try:
            yield
        finally:
            self._has_one_checkpoint = False
            if self._is_checkpoint_due:
                self._is_checkpoint_due = False
                self.checkpoint()

    def _checkpoint_soon(self) -> None:
        if self._has_one_checkpoint:
            self._is_checkpoint_due = True
        else:
            self.checkpoint()

    def close(self) -> None:
        """Close all logs, record the clean shutdown, and release the directory.

        Disk errors are logged, not raised; the next start then treats the shutdown as a crash.
        """
        clean = True
        for log in self._logs.values():
            try:
                log.close()
            except StorageError as error:
                clean = False
                logger.warning("%s: not closed cleanly: %s", log.directory, error)
        try:
            self.checkpoint()
            # a log that was never opened is unchanged
            if clean and (self.was_clean or self._logs.keys() >= self._found.keys()):
                marker = json.dumps({"version": 0, "brokerEpoch": -1}, separators=(",", ":"))
                checkpoints.write_text(self.files, self._path(CLEAN_SHUTDOWN), marker)
        except StorageError as error:
            logger.warning("%s: not closed cleanly: %s", self.path, error)
        self._logs.clear()
        try:
            self.files.unlock(self._path(LOCK))
            self.files.close()
        except OSError as error:
            logger.warning("%s: cannot release the lock: %s", self.path, error)

    def _forget(self, key: Partition) -> None:
        self._recovery_points.pop(key, None)
        self._log_starts.pop(key, None)
        self._cleaner_offsets.pop(key, None)

    def _path(self, name: str) -> str:
        return f"{self.path}/{name}"

    def _load(self, cluster_id: str, node_id: int) -> None:
        self._load_meta(cluster_id, node_id)
        clean = self._path(CLEAN_SHUTDOWN)
        with storage_errors("opening a data directory", self.path):
            self.was_clean = self.files.exists(clean)
            self.files.remove(clean)
            names = self.files.names(self.path)
            for name in names:
                if _DELETED.fullmatch(name):
                    self.files.remove_directory(self._path(name))
        self._recovery_points = checkpoints.read_offsets(self.files, self._path(RECOVERY_POINTS))
        self._log_starts = checkpoints.read_offsets(self.files, self._path(LOG_STARTS))
        self._cleaner_offsets = checkpoints.read_offsets(self.files, self._path(CLEANER_OFFSETS))
        for name in names:
            match = _PARTITION.fullmatch(name)
            if match is not None and match[1] != CONTROLLERS_LOG:
                self._found[match[1], int(match[2])] = self._topic_id(name)

    def _load_meta(self, cluster_id: str, node_id: int) -> None:
        path = self._path(META_PROPERTIES)
        found = checkpoints.read_properties(self.files, path)
        if found is None:
            lines = (
                "#",
                f"cluster.id={cluster_id}",
                f"directory.id={kafka_uuid(uuid.uuid4())}",
                f"node.id={node_id}",
                "version=1",
                "",
            )
            checkpoints.write_text(self.files, path, "\n".join(lines))
            return
        cluster = found.get("cluster.id", cluster_id)
        there = found.get("node.id", found.get("broker.id", str(node_id)))
        if cluster != cluster_id or there != str(node_id):
            raise LogDirectoryError(
                f"the data directory {self.path} belongs to node {there} of the cluster"
                f" {cluster}, not to node {node_id} of the cluster {cluster_id} (see {path})"
            )

    def _topic_id(self, name: str) -> uuid.UUID | None:
        path = self._path(f"{name}/{PARTITION_METADATA}")
        match = _TOPIC_ID.search(checkpoints.read_text(self.files, path) or "")
        return None if match is None else uuid_of(match[1])

    def _make(self, directory: str, topic_id: uuid.UUID | None) -> None:
        with storage_errors("making a log", directory):
            self.files.make_directory(directory)
            if topic_id is not None:
                text = f"version: 0\ntopic_id: {kafka_uuid(topic_id)}\n"
                self.files.write(f"{directory}/{PARTITION_METADATA}", 0, text.encode())


def _note(offsets: dict[Partition, int], key: Partition, offset: int) -> None:
    # as in Kafka, zeros are left out
    if offset or key in offsets:
        offsets[key] = offset
