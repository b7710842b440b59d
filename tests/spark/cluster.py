"""A standalone Spark cluster on this machine: a master and workers, each a process of its own."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pyspark

import groupsdk
from groupsdk.clock import Deadline, SystemClock
from groupsdk.testing.jvm import find_java
from groupsdk.testing.watchdog import WATCHDOG


HOME: Final = Path(pyspark.__file__).parent
_START_MS: Final = 120_000


class ClusterError(Exception):
    """A part of the cluster did not start; the text is what it wrote."""


@contextmanager
def standalone(root: Path, workers: int = 2) -> Iterator[str]:
    """Start a master and workers of one core each; gives the master's address.

    Args:
        root: where they write their logs and unpack what applications bring.
    """
    with ExitStack() as stack:
        master = stack.enter_context(_process("master.Master", root / "master", "--port", "0"))
        (address,) = _written(master, r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            place = root / f"worker-{number}"
            options = ("--cores", "1", "--memory", "1g", "--work-dir", str(place / "work"), address)
            worker = stack.enter_context(_process("worker.Worker", place, *options))
            _written(worker, "Successfully registered with master")
        yield address


@contextmanager
def _process(name: str, place: Path, *options: str) -> Iterator[Path]:
    place.mkdir(parents=True)
    log = place / "log"
    # its environment is that of a machine that knows nothing of this checkout
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("PYTHON", "PYSPARK", "SPARK"))
    }
    command = [
        *(str(find_java().java), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        *("-cp", f"{HOME / 'jars'}/*", f"org.apache.spark.deploy.{name}"),
        *("--host", "127.0.0.1", "--webui-port", "0", *options),
    ]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=place,
            env={
                **environment,
                "SPARK_HOME": str(HOME),
                "SPARK_LOCAL_IP": "127.0.0.1",
                # what PySpark brings does not say it, as a whole distribution does
                "SPARK_SCALA_VERSION": "2.13",
            },
        )
    WATCHDOG.watch(process.pid)
    try:
        yield log
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        WATCHDOG.forget(process.pid)


def _written(log: Path, pattern: str) -> tuple[str, ...]:
    """Wait until a line is in the log; gives what the pattern takes from it."""
    deadline = Deadline(SystemClock(), _START_MS)
    while not deadline.expired:
        match = re.search(pattern, log.read_text(encoding="utf-8", errors="replace"))
        if match is not None:
            return match.groups()
        threading.Event().wait(0.1)
    raise ClusterError(log.read_text(encoding="utf-8", errors="replace"))


def packed_environment(root: Path) -> Path:
    """Pack what executors need but do not have, as `venv-pack` would: a Python at env/bin, and this library.

    The interpreter and the packages of other projects are those of this machine, without what makes this checkout
    known to them: `groupsdk` comes from the archive or not at all.

    Returns:
        The archive; what is in it stands in `env` beside it, as the driver needs it as well.
    """
    env = root / "env"
    (env / "bin").mkdir(parents=True)
    packages = sysconfig.get_path("purelib")
    script = env / "bin" / "python"
    script.write_text(
        "#!/bin/sh\n"
        'home=$(cd "$(dirname "$0")/.." && pwd)\n'
        f'export PYTHONPATH="$home/lib:${{PYTHONPATH:+$PYTHONPATH:}}{packages}"\n'
        # without site: its .pth files are how a checkout is found
        f'exec "{os.path.realpath(sys.executable)}" -S "$@"\n',
        encoding="utf-8",
    )
    script.chmod(0o755)
    archive = root / "env.tar.gz"
    source = Path(groupsdk.__file__).parents[1]
    for name in ("groupsdk", "assignors"):
        shutil.copytree(
            source / name, env / "lib" / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(env, ".")
    return archive
