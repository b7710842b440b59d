"""Real servers of files for the tests: HDFS of Apache Hadoop, and an S3 gateway."""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

import pyspark

from groupsdk.clock import Deadline, SystemClock
from groupsdk.testing.jars import cache_root, fetch, made_once
from groupsdk.testing.jvm import find_java
from groupsdk.testing.ports import LOOPBACK, ReservedPorts
from groupsdk.testing.watchdog import WATCHDOG
from tests.support.missing import GO, lacking


_START_MS: Final = 240_000
_JAVA: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOG_PROVIDER: Final = "org.slf4j:slf4j-simple:1.7.36"
GATEWAY: Final = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
"""An S3 server that keeps objects as files."""
KEY, SECRET = "history", "history-secret"
BUCKET: Final = "history"


def hadoop_version() -> str:
    """Return the version of Hadoop that PySpark brings; what is added to it has to be of the same."""
    jars = Path(pyspark.__file__).parent / "jars"
    (name,) = (each.stem for each in jars.glob("hadoop-client-api-*.jar"))
    return name.rpartition("-")[2]


@dataclass(frozen=True, slots=True)
class Storage:
    """A file system.

    Attributes:
        root: a directory on it.
        settings: of a Spark session that is to use it.
    """

    root: str
    settings: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def hdfs() -> Iterator[Storage]:
    """Run a NameNode and a DataNode of Hadoop's, as processes."""
    jars = fetch([f"org.apache.hadoop:hadoop-client-minicluster:{hadoop_version()}", _LOG_PROVIDER])
    with _directory() as root, ReservedPorts(1) as ports:
        address = f"{LOOPBACK}:{ports.ports[0]}"
        _write_settings(
            root / "conf" / "hdfs-site.xml",
            {
                "fs.defaultFS": f"hdfs://{address}",
                "dfs.namenode.rpc-address": address,
                "dfs.namenode.http-address": f"{LOOPBACK}:0",
                "dfs.namenode.name.dir": str(root / "name"),
                "dfs.datanode.data.dir": str(root / "data"),
                "dfs.datanode.address": f"{LOOPBACK}:0",
                "dfs.datanode.http.address": f"{LOOPBACK}:0",
                "dfs.datanode.ipc.address": f"{LOOPBACK}:0",
                "dfs.replication": "1",
            },
        )
        shutil.copy(root / "conf" / "hdfs-site.xml", root / "conf" / "core-site.xml")
        classpath = ":".join([str(root / "conf"), *map(str, jars)])
        java = [str(find_java().java), *_JAVA, "-cp", classpath]
        name_node = [*java, "org.apache.hadoop.hdfs.server.namenode.NameNode"]
        done = subprocess.run(
            [*name_node, "-format", "-nonInteractive"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-2_000:]
        with (
            _process(name_node, root / "name.log", r"NameNode RPC up at"),
            _process(
                [*java, "org.apache.hadoop.hdfs.server.datanode.DataNode"],
                root / "data.log",
                r"Successfully sent block report|successfully registered with NN",
            ),
        ):
            yield Storage(f"hdfs://{address}", {"spark.hadoop.dfs.replication": "1"})


@contextmanager
def s3() -> Iterator[Storage]:
    """Run an S3 server with a bucket, for "s3a://"."""
    jars = fetch([f"org.apache.hadoop:hadoop-aws:{hadoop_version()}"])
    brought = {each.name for each in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    with _directory() as root, ReservedPorts(1) as ports:
        address = f"{LOOPBACK}:{ports.ports[0]}"
        (root / "objects" / BUCKET).mkdir(parents=True)
        command = [str(_gateway()), "--port", address, "--access", KEY, "--secret", SECRET]
        with _process([*command, "posix", str(root / "objects")], root / "log", re.escape(address)):
            yield Storage(
                f"s3a://{BUCKET}",
                {
                    "spark.jars": ",".join(str(each) for each in jars if each.name not in brought),
                    "spark.hadoop.fs.s3a.endpoint": f"http://{address}",
                    "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
                    "spark.hadoop.fs.s3a.path.style.access": "true",
                    "spark.hadoop.fs.s3a.access.key": KEY,
                    "spark.hadoop.fs.s3a.secret.key": SECRET,
                },
            )


def _gateway() -> Path:
    """Return the S3 server, built once; skips the test where there is no Go, unless GROUPSDK_REQUIRE_GO=1."""
    go = shutil.which("go")
    if go is None:
        lacking("no Go here (go on PATH), which builds the S3 server", GO)
    name = re.sub(r"\W", "-", GATEWAY)

    def make(scratch: Path) -> None:
        subprocess.run(
            [go, "install", GATEWAY],
            env={**os.environ, "GOBIN": str(scratch)},
            check=True,
            capture_output=True,
        )

    return made_once(cache_root() / "go" / name, make) / "versitygw"


@contextmanager
def _directory() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="groupsdk-storage-"))
    WATCHDOG.remove_at_end(root)
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _write_settings(path: Path, settings: Mapping[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = "".join(
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    )
    path.write_text(f"<configuration>{rows}</configuration>", encoding="utf-8")


@contextmanager
def _process(command: list[str], output: Path, ready: str) -> Iterator[None]:
    """Run a process from the line of its output on that says that it is ready."""
    process = WATCHDOG.spawn(command, output)
    try:
        _await(process, output, lambda text: re.search(ready, text) is not None)
        yield
    finally:
        process.kill()
        process.wait()
        WATCHDOG.forget(process.pid)


def _await(
    process: "subprocess.Popen[bytes]", output: Path, is_ready: Callable[[str], bool]
) -> None:
    deadline = Deadline(SystemClock(), _START_MS)
    while not deadline.expired and process.poll() is None:
        with contextlib.suppress(OSError):
            if is_ready(output.read_text(encoding="utf-8", errors="replace")):
                return
        time.sleep(0.1)
    text = output.read_text(encoding="utf-8", errors="replace")
    raise AssertionError(f"a server did not start; the end of its output:\n{text[-3_000:]}")
