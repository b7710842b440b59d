"""Prepare the files that broker starts need: jars, a formatted directory, a class archive."""

import hashlib
import logging
import re
import shutil
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from groupsdk.lazy_imports import override
from groupsdk.testing.errors import BrokerStartError
from groupsdk.testing.jars import cache_root, fetch, made_once
from groupsdk.testing.jvm import Jvm, find_java


logger = logging.getLogger(__name__)
_FORMAT_TIMEOUT_S = 120
_SCALA = "2.13"
# The provider of slf4j 1.7, the version that Kafka's jars are built against. Without one a broker that
# cannot start says nothing at all.
_LOG_PROVIDER = "org.slf4j:slf4j-simple:1.7.36"
# The command line tools, which the server's jar declares but no broker loads. Those of 4.4.0 are not on
# Maven Central, so asking for them would make that release impossible to start.
_NOT_A_BROKERS = ("org.apache.kafka:kafka-tools", "org.apache.kafka:kafka-tools-api")
_VERSION = re.compile(r"\d+\.\d+\.\d+(-\w+)?")


def _uuid() -> str:
    """Return a random id in Kafka's spelling: 22 characters, the first no dash."""
    while (text := urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


@dataclass(frozen=True, slots=True)
class Scram:
    """A SCRAM credential that exists from the first start on; its password is not in the repr."""

    mechanism: str
    name: str
    password: str

    @property
    def argument(self) -> str:
        """The argument of Kafka's StorageTool."""
        return f"{self.mechanism}=[name={self.name},password={self.password}]"

    @override
    def __repr__(self) -> str:
        return f"Scram({self.mechanism}, {self.name})"


@dataclass(frozen=True, slots=True)
class Installation:
    """An installed version of Apache Kafka, with the Java that runs it, and its class path."""

    version: str
    jvm: Jvm
    jars: tuple[Path, ...]

    def command(self, main: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
        """Return the command line that runs a class, tuned for a short-lived process."""
        return [
            str(self.jvm.java),
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:-UsePerfData",
            "-Djava.awt.headless=true",
            *options,
            "-cp",
            ":".join(map(str, self.jars)),
            main,
            *arguments,
        ]

    def _cached(self, kind: str, *parts: str) -> Path:
        identity = "\n".join((self.version, *map(str, self.jars), *parts))
        digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
        return cache_root() / kind / f"{self.version}-{digest}"

    @property
    def class_archive(self) -> Path:
        """Where the AppCDS archive is, once a training run has made it."""
        return self._cached("classes", self.jvm.full_version, str(self.jvm.home)) / "kafka.jsa"

    def format(self, data_dir: Path, node_id: int, cluster_id: str, scram: Sequence[Scram]) -> None:
        """Format a directory as the empty storage of a node.

        Kafka's own tool formats one directory for each version and set of users; it is copied here and
        given its own ids, which is 2 s faster than to run the tool."""
        users = sorted(user.argument for user in scram)

        def make(scratch: Path) -> None:
            scratch.chmod(0o700)
            self._run_storage_tool(scratch, users)

        template = made_once(self._cached("formatted", *users), make)
        shutil.copytree(template / "data", data_dir, dirs_exist_ok=True)
        identity = {"node.id": str(node_id), "cluster.id": cluster_id, "directory.id": _uuid()}
        meta = data_dir / "meta.properties"
        lines = [line for line in meta.read_text().splitlines() if "=" in line]
        kept = [line for line in lines if line.partition("=")[0] not in identity]
        meta.write_text("\n".join([*kept, *(f"{k}={v}" for k, v in identity.items()), ""]))

    def _run_storage_tool(self, scratch: Path, users: Sequence[str]) -> None:
        properties = scratch / "format.properties"
        properties.write_text(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:9093\n"
            "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\n"
            f"controller.listener.names=CONTROLLER\nlog.dirs={scratch / 'data'}\n"
        )
        arguments = ["format", "--config", str(properties), "--cluster-id", _uuid()]
        for user in users:
            arguments += ["--add-scram", user]
        done = subprocess.run(
            self.command("kafka.tools.StorageTool", *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_FORMAT_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise BrokerStartError(
                f"Kafka's StorageTool failed to format the log directory:\n{done.stdout[-2000:]}"
            )
        properties.unlink()


def install(version: str) -> Installation:
    """Return Apache Kafka `version`, fetching it if it is not cached."""
    if _VERSION.fullmatch(version) is None:
        raise ValueError(f"Kafka version must have the form 4.3.1, not {version!r}")
    jvm = find_java()
    jars = fetch(
        [f"org.apache.kafka:kafka_{_SCALA}:{version}", _LOG_PROVIDER], without=_NOT_A_BROKERS
    )
    return Installation(version=version, jvm=jvm, jars=tuple(jars))


def new_cluster_id() -> str:
    return _uuid()
