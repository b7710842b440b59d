"""A server of Spark Connect from PySpark's own package, on this machine."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark


_STARTED = "Spark Connect server started at"


@contextmanager
def connect_server(root: Path, more: Mapping[str, str] | None = None) -> Iterator[str]:
    """Run a server, with its files below `root` and more settings; yields the URL for clients."""
    home = Path(pyspark.__file__).parent
    root.mkdir(parents=True, exist_ok=True)
    (root / "log4j2.properties").write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.stdout.ref = console\n"
        "appender.console.type = Console\nappender.console.name = console\n"
        "appender.console.layout.type = PatternLayout\nappender.console.layout.pattern = %m%n%ex\n",
        encoding="utf-8",
    )
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(root),
        "spark.sql.warehouse.dir": str(root / "warehouse"),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"
        f" -Dlog4j2.configurationFile={root / 'log4j2.properties'}",
        **(more or {}),
    }
    command = [
        str(home / "bin" / "spark-submit"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--master", "local[2]", "--driver-memory", "1g"),
        *(word for key, value in settings.items() for word in ("--conf", f"{key}={value}")),
        "spark-internal",
    ]
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    server = subprocess.Popen(
        command,
        env=environment,
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert server.stdout is not None
    try:
        lines: list[str] = []
        for line in server.stdout:
            lines.append(line)
            if _STARTED in line:
                break
        else:
            raise AssertionError("no server of Spark Connect: " + "".join(lines[-20:]))
        # it must not wait for somebody to read what it says
        with (root / "server.log").open("w", encoding="utf-8") as log:
            drain = subprocess.Popen(["cat"], stdin=server.stdout, stdout=log)
            yield f"sc://127.0.0.1:{line.strip().rpartition(':')[2]}"
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()
    drain.wait()
