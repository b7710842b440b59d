"""Cache expensive artifacts, once per user of the machine."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path


def cache_root() -> Path:
    """Return where jars, class archives and formatted directories are kept.

    `GROUPSDK_CACHE` when it is set, else `groupsdk` below `XDG_CACHE_HOME` or `~/.cache`.
    """
    own = os.environ.get("GROUPSDK_CACHE")
    if own:
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "groupsdk"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of `path` against all other processes of the machine.

    The lock file stays: removing it would let two processes hold locks on different files.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(path.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def made_once(path: Path, make: Callable[[Path], None]) -> Path:
    """Return directory `path`; when it is not there, have `make` fill it first.

    `make` is given an empty directory beside `path`, which becomes `path` in one step when `make`
    has returned: a reader sees nothing or all of it, and a killed process leaves nothing behind
    that is taken for whole. Of several processes one makes it and the others wait.
    """
    if path.is_dir():
        return path
    with locked(path):
        if path.is_dir():
            return path
        scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        try:
            make(scratch)
            scratch.rename(path)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return path
