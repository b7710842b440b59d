"""File access: on disk, or in memory with simulated crashes that lose unsynced data.

A log reaches its files only through `Files`, so a test can simulate a power loss at every write.
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from groupsdk.lazy_imports import override


if TYPE_CHECKING:
    from groupsdk.wire.records.batch import Buffer


MAX_OPEN_FILES: Final = 256
"""The most descriptors kept open, locks excluded."""


class Files(Protocol):
    """Read and write files by path.

    Every call raises OSError as the operating system does. Paths use `/` as separator. Not thread-safe: one thread
    calls it.
    """

    def read(self, path: str, position: int, size: int) -> bytes:
        """Read up to `size` bytes from a byte position; fewer at the end of the file."""
        ...

    def write(self, path: str, position: int, data: "Buffer") -> None:
        """Write all of `data` at a byte position; create the file if it does not exist.

        If it raises, part of the data may have been written.
        """
        ...

    def size(self, path: str) -> int:
        """Return the size of a file in bytes."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether a file or directory exists."""
        ...

    def truncate(self, path: str, size: int) -> None:
        """Truncate a file to `size` bytes."""
        ...

    def sync(self, path: str) -> None:
        """Sync a file's content, or a directory's entries, to the disk."""
        ...

    def rename(self, source: str, target: str, *, sync: bool = True) -> None:
        """Rename a file or a directory, replacing an existing file.

        Without `sync` the new name reaches the disk with the next one of its directory that is synced.
        """
        ...

    def remove(self, path: str) -> None:
        """Remove a file if it exists."""
        ...

    def names(self, path: str) -> list[str]:
        """List the names in a directory, sorted, without their path; empty if it does not exist."""
        ...

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents if they do not exist."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove a directory and its content."""
        ...

    def lock(self, path: str) -> None:
        """Acquire the exclusive lock of a lock file, made if missing; BlockingIOError, with the holder, if it is held."""
        ...

    def unlock(self, path: str) -> None:
        """Release a lock taken by this object; does nothing for another one."""
        ...

    def close(self) -> None:
        """Close all open files; they are reopened when used again."""
        ...


def replace_file(files: Files, path: str, data: "Buffer", *, sync: bool = True) -> None:
    """Write a file by way of `<path>.tmp`, so that a failure or a crash leaves the old content or the new."""
    beside = f"{path}.tmp"
    try:
        files.remove(beside)
        files.write(beside, 0, data)
        if sync:
            files.sync(beside)
        files.rename(beside, path)
    except OSError:
        with contextlib.suppress(OSError):
            files.remove(beside)
        raise


_LOCKS: Final[dict[str, int]] = {}
"""The locks of this process: the operating system's do not hold within one."""


class DiskFiles:
    """Files of the operating system, with a bounded number of open descriptors."""

    def __init__(self) -> None:
        self._open: dict[str, int] = {}
        self._locks: dict[str, int] = {}
        self._new: dict[str, set[str]] = {}
        """For a directory, what is in it whose names may not be on the disk yet."""

    def read(self, path: str, position: int, size: int) -> bytes:
        descriptor = self._open.get(path)
        if descriptor is None:
            descriptor = self._opened(path, os.O_RDWR)
        data = os.pread(descriptor, size, position)
        # the system may return fewer bytes than there are, at 2 GiB or when a signal arrives
        while len(data) < size:
            more = os.pread(descriptor, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def write(self, path: str, position: int, data: "Buffer") -> None:
        descriptor = self._open.get(path)
        if descriptor is None:
            descriptor = self._opened_or_made(path)
        written = os.pwrite(descriptor, data, position)
        while written < len(data):
            more = os.pwrite(descriptor, memoryview(data)[written:], position + written)
            if more == 0:
                raise OSError(errno.EIO, "write returned 0 bytes", path)
            written += more

    def size(self, path: str) -> int:
        return Path(path).stat().st_size

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def truncate(self, path: str, size: int) -> None:
        descriptor = self._open.get(path)
        os.ftruncate(self._opened(path, os.O_RDWR) if descriptor is None else descriptor, size)

    def sync(self, path: str) -> None:
        descriptor = self._open.get(path)
        if descriptor is not None:
            os.fsync(descriptor)
        else:
            _sync(path)
        self._sync_name(path)

    def rename(self, source: str, target: str, *, sync: bool = True) -> None:
        self._forget(source)
        self._forget(target)
        for path in [path for path in self._open if path.startswith(f"{source}/")]:
            self._forget(path)
        below = _directories(source) if self._new else []
        Path(source).replace(target)
        for each in below:
            if each in self._new:
                self._new[f"{target}{each.removeprefix(source)}"] = self._new.pop(each)
        self._named(source)
        self._made(target)
        if sync:
            self._sync_name(target)

    def remove(self, path: str) -> None:
        self._forget(path)
        self._named(path)
        Path(path).unlink(missing_ok=True)

    def names(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))  # noqa: PTH208 - creating a Path for each name takes four times as long
        except FileNotFoundError:
            return []

    def make_directory(self, path: str) -> None:
        place = Path(path)
        missing = [each for each in (place, *place.parents) if not each.exists()]
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        for each in missing:
            self._made(str(each))

    def remove_directory(self, path: str) -> None:
        for name in [name for name in self._open if name.startswith(f"{path}/")]:
            self._forget(name)
        if self._new:
            for each in _directories(path):
                self._new.pop(each, None)
            self._named(path)
        from shutil import rmtree  # takes longer to import than the rest of this module

        rmtree(path)

    def lock(self, path: str) -> None:
        """Take the kind of lock that Java takes, so Kafka and groupsdk exclude each other."""
        place = str(Path(path).resolve())
        if place in _LOCKS:
            raise BlockingIOError(
                errno.EAGAIN, f"locked by this process (pid {_LOCKS[place]})", path
            )
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
            os.close(descriptor)
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            text = f"locked by {holder or 'another process'}"
            raise BlockingIOError(errno.EAGAIN, text, path) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"groupsdk broker, pid {os.getpid()}\n".encode(), 0)
        self._locks[place] = descriptor
        _LOCKS[place] = os.getpid()

    def unlock(self, path: str) -> None:
        place = str(Path(path).resolve())
        descriptor = self._locks.pop(place, None)
        if descriptor is not None:
            _LOCKS.pop(place, None)
            os.ftruncate(descriptor, 0)
            os.close(descriptor)

    def close(self) -> None:
        for path in list(self._open):
            self._forget(path)

    def _sync_name(self, path: str) -> None:
        """Sync the directory of a new file, which holds its name, and the parents created for it."""
        while self._new:
            parent, name = os.path.split(path)
            if name not in self._new.get(parent, ()):
                return
            del self._new[parent]
            _sync(parent or ".")
            path = parent

    def _made(self, path: str) -> None:
        """Note a name that is not on the disk yet."""
        parent, name = os.path.split(path)
        self._new.setdefault(parent, set()).add(name)

    def _named(self, path: str) -> None:
        """Note that a name need not reach the disk any more."""
        parent, name = os.path.split(path)
        names = self._new.get(parent, set())
        names.discard(name)
        if not names:
            self._new.pop(parent, None)

    def _opened_or_made(self, path: str) -> int:
        try:
            return self._opened(path, os.O_RDWR)
        except FileNotFoundError:
            descriptor = self._opened(path, os.O_RDWR | os.O_CREAT)
        self._made(path)
        return descriptor

    def _opened(self, path: str, flags: int) -> int:
        if len(self._open) >= MAX_OPEN_FILES:
            # close the one opened first: tracking use would cost more than reopening a file now and then
            self._forget(next(iter(self._open)))
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
        self._open[path] = descriptor
        return descriptor

    def _forget(self, path: str) -> None:
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)


def _directories(path: str) -> list[str]:
    """List a directory and all below it; empty for a file."""
    return [each for each, _, _ in os.walk(path)]


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(slots=True)
class _MemoryFile:
    data: bytearray = field(default_factory=bytearray)
    synced: bytes = b""


class MemoryFiles:
    """Files in memory, for brokers without a data directory and for the simulator.

    A crash keeps names and renames, as on a file system with a journal, but only synced content; so a file may exist
    and be empty.

    Attributes:
        capacity_bytes: the size of the simulated disk; a larger write stores what fits and raises ENOSPC. None:
            unlimited.
        before: called with the name of every changing call ("write", "truncate", "sync", "rename", "remove",
            "make_directory", "remove_directory") and its path, before the change; an exception it raises is
            propagated, and nothing changes.
    """

    def __init__(
        self,
        *,
        capacity_bytes: int | None = None,
        before: Callable[[str, str], None] | None = None,
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.before = before
        self._files: dict[str, _MemoryFile] = {}
        self._directories: set[str] = set()
        self._children: dict[str, set[str]] = {}
        """The names in each directory, as a broker of 10,000 partitions lists one directory after the other."""
        self._locks: set[str] = set()

    @property
    def total_bytes(self) -> int:
        return sum(len(file.data) for file in self._files.values())

    def crash(self, torn: int = 0) -> None:
        """Simulate a power loss: files keep `torn` bytes after what was synced, and locks are released."""
        self._locks.clear()
        for file in self._files.values():
            kept = len(file.synced)
            survived = file.data[kept : kept + torn] if len(file.data) > kept else b""
            file.data = bytearray(file.synced + survived)
            file.synced = bytes(file.data)

    def kill(self) -> None:
        """Simulate the death of the process: files stay as they are, and locks are released."""
        self._locks.clear()

    def read(self, path: str, position: int, size: int) -> bytes:
        return bytes(self._file(path).data[position : position + size])

    def write(self, path: str, position: int, data: "Buffer") -> None:
        self._announce("write", path)
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = _MemoryFile()
            self._enter(path)
        if position > len(file.data):
            file.data += bytes(position - len(file.data))
        room = len(data)
        if self.capacity_bytes is not None:
            growth = max(position + len(data) - len(file.data), 0)
            room = len(data) - max(growth - max(self.capacity_bytes - self.total_bytes, 0), 0)
        file.data[position : position + room] = data[:room]
        if room < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def size(self, path: str) -> int:
        return len(self._file(path).data)

    def exists(self, path: str) -> bool:
        return path in self._files or path in self._directories

    def truncate(self, path: str, size: int) -> None:
        self._announce("truncate", path)
        del self._file(path).data[size:]

    def sync(self, path: str) -> None:
        self._announce("sync", path)
        if path not in self._directories:
            file = self._file(path)
            file.synced = bytes(file.data)

    def rename(self, source: str, target: str, *, sync: bool = True) -> None:
        del sync  # a crash keeps all names
        self._announce("rename", source)
        if source not in self._directories:
            self._file(source)
        moved = [source, *self._below(source)]
        for path in moved:
            place = f"{target}{path.removeprefix(source)}"
            if path in self._files:
                self._files[place] = self._files.pop(path)
            elif path in self._directories:
                self._directories.remove(path)
                self._directories.add(place)
            self._enter(place)
        for path in reversed(moved):
            self._leave(path)

    def remove(self, path: str) -> None:
        self._announce("remove", path)
        self._files.pop(path, None)
        self._leave(path)

    def names(self, path: str) -> list[str]:
        return sorted(self._children.get(path, ()))

    def make_directory(self, path: str) -> None:
        self._announce("make_directory", path)
        self._directories.add(path)
        self._enter(path)

    def remove_directory(self, path: str) -> None:
        self._announce("remove_directory", path)
        gone = [path, *self._below(path)]
        for each in gone:
            self._files.pop(each, None)
            self._directories.discard(each)
        for each in reversed(gone):
            self._leave(each)

    def lock(self, path: str) -> None:
        if path in self._locks:
            raise BlockingIOError(errno.EAGAIN, "locked by another broker in this process", path)
        self._locks.add(path)

    def unlock(self, path: str) -> None:
        self._locks.discard(path)

    def close(self) -> None:
        """See `Files.close`."""

    @override
    def __repr__(self) -> str:
        return f"MemoryFiles({len(self._files)} files, {self.total_bytes} bytes)"

    def _announce(self, call: str, path: str) -> None:
        if self.before is not None:
            self.before(call, path)

    def _enter(self, path: str) -> None:
        directory, slash, name = path.rpartition("/")
        while slash and name not in (names := self._children.setdefault(directory, set())):
            names.add(name)
            directory, slash, name = directory.rpartition("/")

    def _leave(self, path: str) -> None:
        """Remove a name that no longer exists from its directory, and so on upwards."""
        while not (path in self._files or path in self._directories or self._children.get(path)):
            self._children.pop(path, None)
            path, slash, name = path.rpartition("/")
            if not slash or path not in self._children:
                break
            self._children[path].discard(name)

    def _below(self, path: str) -> Iterator[str]:
        for name in self._children.get(path, ()):
            inner = f"{path}/{name}"
            yield inner
            yield from self._below(inner)

    def _file(self, path: str) -> _MemoryFile:
        file = self._files.get(path)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return file
