"""Fetch Java libraries with Maven, once."""

import hashlib
import logging
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from groupsdk.testing.cache import cache_root, made_once
from groupsdk.testing.errors import FetchError, MissingToolError
from groupsdk.testing.jvm import find_java


_LOG = logging.getLogger(__name__)
_COORDINATE = re.compile(r"([\w.\-]+):([\w.\-]+):([\w.\-]+)")
_TIMEOUT_S = 600
_TAIL_LINES = 15


_NOTHING_MORE = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


def _pom(coordinates: list[str], *, alone: bool = False) -> str:
    dependencies = []
    for coordinate in coordinates:
        match = _COORDINATE.fullmatch(coordinate)
        if match is None:
            raise ValueError(f"Maven coordinate {coordinate!r} is not group:artifact:version")
        group, artifact, version = map(escape, match.groups())
        dependencies.append(
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{version}</version>{_NOTHING_MORE if alone else ''}</dependency>"
        )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>groupsdk</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{''.join(dependencies)}</dependencies></project>"
    )


def _copy_dependencies(mvn: str, coordinates: list[str], into: Path, *, alone: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="groupsdk-mvn-") as project:
        pom = Path(project, "pom.xml")
        pom.write_text(_pom(coordinates, alone=alone), encoding="utf-8")
        command = [
            *(mvn, "--batch-mode", "--no-transfer-progress", "--file", str(pom)),
            *(
                "dependency:copy-dependencies",
                "-DincludeScope=runtime",
                f"-DoutputDirectory={into}",
            ),
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
            raise FetchError(f"Maven took over {_TIMEOUT_S} s to fetch {coordinates}") from error
    if done.returncode != 0 or not any(into.glob("*.jar")):
        tail = "\n".join(done.stdout.splitlines()[-_TAIL_LINES:])
        raise FetchError(
            f"Maven could not fetch {', '.join(coordinates)} (exit status {done.returncode}); "
            f"its last lines:\n{tail}"
        )


def fetch(
    coordinates: Sequence[str], cache_dir: Path | None = None, *, alone: bool = False
) -> list[Path]:
    """Return the jars of `coordinates` and of all they need at run time, sorted by name.

    They are fetched by the `mvn` command with the user's own settings the first time, and kept in
    `jars/<hash of the coordinates>` below the cache directory (see `cache_root`). Safe to call from several
    processes at once: one fetches, the others wait.

    Args:
        coordinates: `group:artifact:version` each.
        cache_dir: keep the jars here in place of the common cache.
        alone: fetch only those that are named, as what they need is there already.

    Raises:
        MissingToolError: there is no `mvn` or no Java, and the jars are not yet cached.
        FetchError: Maven failed.
        ValueError: a coordinate is not of the form above.
    """
    wanted = sorted(set(coordinates))
    _pom(wanted)
    identity = "\n".join([*wanted, "alone"] if alone else wanted)
    digest = hashlib.sha256(identity.encode()).hexdigest()[:20]

    def make(scratch: Path) -> None:
        mvn = shutil.which("mvn")
        if mvn is None:
            raise MissingToolError(
                "no Maven (mvn) on PATH, which fetches the jars of Apache Kafka. "
                "Install it (Debian and Ubuntu: apt-get install maven)"
            )
        find_java()
        _LOG.info("fetching %s with Maven into %s", ", ".join(wanted), directory)
        _copy_dependencies(mvn, wanted, scratch, alone=alone)
        jars = list(scratch.glob("*.jar"))
        size = sum(jar.stat().st_size for jar in jars)
        _LOG.info("fetched %d jars, %.1f MiB", len(jars), size / 2**20)

    directory = (cache_root() if cache_dir is None else cache_dir) / "jars" / digest
    return sorted(made_once(directory, make).glob("*.jar"))
