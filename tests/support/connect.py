"""Kafka Connect's distributed workers, started as processes and asked over HTTP."""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from groupsdk.testing.jvm import find_java
from groupsdk.testing.watchdog import WATCHDOG
from tests.support.java import QUICK


RELEASE: Final = "4.3.1"
_CONVERTER: Final = "org.apache.kafka.connect.storage.StringConverter"


def start_worker(
    settings: Path, jars: Sequence[Path], servers: str, group: str, port: int, **more: Any
) -> "subprocess.Popen[bytes]":
    """Start a worker, whose output is written beside its settings; it is to be ended by force, and forgotten.

    Args:
        settings: the file that they are written to.
        more: further settings, with underscores for dots.
    """
    properties = {
        "bootstrap.servers": servers,
        "group.id": group,
        "key.converter": _CONVERTER,
        "value.converter": _CONVERTER,
        **{f"{each}.storage.topic": f"{group}-{each}s" for each in ("config", "offset")},
        "status.storage.topic": f"{group}-status",
        **{f"{each}.storage.replication.factor": 1 for each in ("config", "offset", "status")},
        "listeners": f"http://127.0.0.1:{port}",
        "plugin.discovery": "service_load",
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    settings.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    command = [str(find_java().java), *QUICK, "-cp", ":".join(map(str, jars))]
    command += ["org.apache.kafka.connect.cli.ConnectDistributed", str(settings)]
    with settings.with_suffix(".log").open("wb") as output:
        worker = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    WATCHDOG.watch(worker.pid)
    return worker


def end_worker(worker: "subprocess.Popen[bytes]") -> None:
    """End a worker by force, if it has not ended."""
    worker.kill()
    worker.wait()
    WATCHDOG.forget(worker.pid)


def ask_worker(port: int, path: str, body: Any = None, method: str | None = None) -> Any:
    """Ask a worker; returns its answer, True for an empty one, and None where it refuses or is not there."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            said = answer.read()
            return json.loads(said) if said else True
    except urllib.error.HTTPError as error:
        error.close()
    except OSError:
        pass
    return None
