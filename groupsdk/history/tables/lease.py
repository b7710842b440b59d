"""Keep a second process from writing into a directory of tables.

On this machine's file systems that is a kernel lock, which is released when the process that holds it ends, in any way.
Other file systems have none: there a file names the writing process, which renews it while it lives. A newcomer watches
the file for a while by its own clock, so that no two machines have to agree on the time; a file that is not renewed
meanwhile belongs to a dead process.
"""

import fcntl
import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import uuid4

from pyarrow import fs

from groupsdk.errors import ConfigError
from groupsdk.history.sources.filesystems import file_system, is_supported, local_path


logger = logging.getLogger(__name__)

LOCK: Final = "_lock"
"""The file, in the directory of the tables. Its name begins as those do that readers of tables pass over."""
RENEW_S: Final = 5.0
"""How often a lease is renewed."""
STALE_S: Final = 30.0
"""A lease that was not renewed for so long belongs to a dead process."""
SETTLE_S: Final = 2.0
"""Of several that take a lease over together the last to write has it; each looks again so much later."""

Wait = Callable[[float], object]


class Lease(Protocol):
    """The right to write into a directory of tables; for one thread."""

    def check(self) -> None:
        """Raise ConfigError if another process has taken the lease over."""

    def release(self) -> None: ...


def take(out: str) -> Lease:
    """Acquire the right to write into a directory of tables.

    Raises ConfigError if another process has it, or pyarrow does not know the place.
    """
    system, root = file_system(out)
    if local_path(out) is not None:
        return KernelLock(root)
    return RenewedFile(system, root)


@contextmanager
def held(root: str) -> Iterator[None]:
    """Hold the right to write into a directory of tables; storage that only Spark supports has no lease."""
    if not is_supported(root):
        yield
        return
    lease = take(root)
    try:
        yield
    finally:
        lease.release()


class KernelLock:
    def __init__(self, root: str) -> None:
        Path(root).mkdir(parents=True, exist_ok=True)
        self._root = root
        # the file stays after the release: a lock on a deleted file would not exclude anyone
        self._descriptor = os.open(f"{root}/{LOCK}", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._descriptor, 1_000, 0).decode(errors="replace").strip()
            self.release()
            raise _refused(root, holder or "another process") from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{_myself()}\n".encode(), 0)

    def check(self) -> None:
        if self._descriptor < 0:
            raise _refused(self._root, "another process")

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self.release()


class RenewedFile:
    """A file that a thread renews.

    A process that stands still for longer than `STALE_S` may be taken for dead. It notices with `check`, so that it loses the
    update that it was about to commit, and not the tables.
    """

    def __init__(
        self, system: Any, root: str, *, wait: Wait | None = None, renew: bool = True
    ) -> None:
        self._system = system
        self._root = root
        self._path = f"{root}/{LOCK}"
        self._id = uuid4().hex
        self._renewals = 0
        self._released = threading.Event()
        self._acquire(wait or self._released.wait)
        self._thread: threading.Thread | None = None
        if renew:
            self._thread = threading.Thread(
                target=self._renew_on, name="groupsdk history lease", daemon=True
            )
            self._thread.start()

    def check(self) -> None:
        found = self._read()
        if found is None or found["id"] != self._id:
            raise _refused(self._root, "another process" if found is None else found["holder"])

    def renew(self) -> None:
        """Renew the file, to show that the holder is alive. Raises OSError if the file system cannot be reached."""
        self.check()
        self._write()

    def release(self) -> None:
        """Delete the file, if it is still this lease's."""
        if self._released.is_set():
            return
        self._released.set()
        if self._thread is not None:
            self._thread.join()
        # one that cannot be deleted is stale soon
        with suppress(ConfigError, OSError):
            self.check()
            self._system.delete_file(self._path)

    def _acquire(self, wait: Wait) -> None:
        held = self._read()
        watched = 0.0
        while held is not None:
            if watched >= STALE_S:
                logger.warning("history: %s is gone, and its lease is taken over", held["holder"])
                break
            wait(RENEW_S)
            watched += RENEW_S
            now = self._read()
            if now is not None and now != held:
                raise _refused(self._root, now["holder"])
            held = now
        self._write()
        wait(SETTLE_S)
        self.check()

    def _renew_on(self) -> None:
        while not self._released.wait(RENEW_S):
            try:
                self.renew()
            except ConfigError:
                # `check` says so before anything is committed
                return
            except OSError as error:
                logger.warning("history: the lease of %s was not renewed: %s", self._root, error)

    def _read(self) -> dict[str, Any] | None:
        if self._system.get_file_info(self._path).type == fs.FileType.NotFound:
            return None
        try:
            with self._system.open_input_stream(self._path) as file:
                found: dict[str, Any] = json.loads(file.read())
        except FileNotFoundError:
            return None
        except ValueError:
            # it is just being written, or its writer died over it
            return {"id": "", "holder": "another process", "renewals": 0}
        return found

    def _write(self) -> None:
        self._renewals += 1
        said = {"id": self._id, "holder": _myself(), "renewals": self._renewals}
        self._system.create_dir(self._root, recursive=True)
        with self._system.open_output_stream(self._path) as file:
            file.write(json.dumps(said).encode())


def _myself() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _refused(root: str, holder: str) -> ConfigError:
    return ConfigError(
        f"{holder} writes into {root}: end it first, or choose another directory for --out"
    )
