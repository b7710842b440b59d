"""Fetch Java libraries with Maven, once per user of the machine, and keep them with whatever else is expensive."""

import contextlib
import fcntl
import hashlib
import logging
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from groupsdk.testing.errors import FetchError, MissingToolError
from groupsdk.testing.jvm import find_java


logger = logging.getLogger(__name__)
_COORDINATE = re.compile(r"([\w.\-]+):([\w.\-]+):([\w.\-]+)")
_TIMEOUT_S = 600
_TAIL_LINES = 15


def _exclusions(without: Sequence[str]) -> str:
    exclusions = []
    for name in without:
        group, _, artifact = map(escape, name.partition(":"))
        exclusions.append(
            f"<exclusion><groupId>{group}</groupId><artifactId>{artifact}</artifactId></exclusion>"
        )
    return f"<exclusions>{''.join(exclusions)}</exclusions>"


def _pom(coordinates: list[str], without: Sequence[str] = ()) -> str:
    dependencies = []
    exclusions = _exclusions(without)
    for coordinate in coordinates:
        match = _COORDINATE.fullmatch(coordinate)
        if match is None:
            raise ValueError(f"Maven coordinate {coordinate!r} is not group:artifact:version")
        group, artifact, version = map(escape, match.groups())
        dependencies.append(
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{version}</version>{exclusions}</dependency>"
        )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>groupsdk</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{''.join(dependencies)}</dependencies></project>"
    )


def _copy_dependencies(
    mvn: str, coordinates: list[str], into: Path, without: Sequence[str]
) -> None:
    with tempfile.TemporaryDirectory(prefix="groupsdk-mvn-") as project:
        pom = Path(project, "pom.xml")
        pom.write_text(_pom(coordinates, without), encoding="utf-8")
        command = [
            mvn,
            "--batch-mode",
            "--no-transfer-progress",
            "--file",
            str(pom),
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            f"-DoutputDirectory={into}",
        ]
        try:
            done = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=_TIMEOUT_S,
                check=False,
                cwd=project,
            )
        except subprocess.TimeoutExpired as error:
            raise FetchError(
                f"Maven took more than {_TIMEOUT_S} s to fetch {coordinates}"
            ) from error
    if done.returncode != 0 or not any(into.glob("*.jar")):
        tail = "\n".join(done.stdout.splitlines()[-_TAIL_LINES:])
        raise FetchError(
            f"Maven could not fetch {', '.join(coordinates)} (exit status {done.returncode}); "
            f"its last lines:\n{tail}"
        )


def fetch(
    coordinates: Sequence[str],
    cache_dir: Path | None = None,
    *,
    alone: bool = False,
    without: Sequence[str] = (),
) -> list[Path]:
    """Return the jars of `coordinates` and of all they need at run time, sorted by name.

    They are fetched by the `mvn` command with the user's own settings the first time, and kept in
    `jars/<hash of the coordinates>` below the cache directory (see `cache_root`). Safe to call from several
    processes at once: one fetches, the others wait.

    Args:
        coordinates: `group:artifact:version` each.
        cache_dir: keep the jars here in place of the common cache.
        alone: fetch only the coordinates themselves, without their dependencies.
        without: dependencies to leave out, `group:artifact` each; `*` stands for any.

    Raises:
        MissingToolError: there is no `mvn` or no Java, and the jars are not yet cached.
        FetchError: Maven failed.
        ValueError: a coordinate is not of the form above.
    """
    wanted = sorted(set(coordinates))
    _pom(wanted)
    excluded = ["*:*"] if alone else sorted(set(without))
    identity = "\n".join([*wanted, *(f"without {name}" for name in excluded)])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:20]

    def make(scratch: Path) -> None:
        mvn = shutil.which("mvn")
        if mvn is None:
            raise MissingToolError(
                "no Maven (mvn) on PATH, which fetches the jars of Apache Kafka. "
                "Install it (Debian and Ubuntu: apt-get install maven)"
            )
        find_java()
        logger.info("fetching %s with Maven into %s", ", ".join(wanted), directory)
        _copy_dependencies(mvn, wanted, scratch, excluded)
        jars = list(scratch.glob("*.jar"))
        size = sum(jar.stat().st_size for jar in jars)
        logger.info("fetched %d jars, %.1f MiB", len(jars), size / 2**20)

    directory = (cache_root() if cache_dir is None else cache_dir) / "jars" / digest
    return sorted(made_once(directory, make).glob("*.jar"))


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
