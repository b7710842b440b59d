"""What a session opens to others: nothing; and what its workers are forked from."""

import gc
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark


_LISTENING = "0A"


def family(pid: int) -> Iterator[int]:
    """Give a process and all that it has started."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        # threads and short-lived children of a JVM end at any moment
        with suppress(FileNotFoundError, ProcessLookupError):
            for child in (task / "children").read_text().split():
                yield from family(int(child))


def listening(pid: int) -> set[str]:
    """Find the addresses that a process listens on, as Linux tells them."""
    links = [str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()]
    sockets = {match[1] for link in links if (match := re.fullmatch(r"socket:\[(\d+)\]", link))}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == _LISTENING and inode in sockets:
                words = [local[at : at + 8] for at in range(0, len(local.partition(":")[0]), 8)]
                packed = b"".join(bytes.fromhex(word)[::-1] for word in words)
                address = ip_address(packed)
                found.add(str(getattr(address, "ipv4_mapped", None) or address))
    return found


def test_a_local_session_listens_on_the_loopback_only(spark: Any) -> None:
    # with the workers' daemon
    assert spark.range(4).mapInArrow(lambda batches: batches, "id bigint").count() == 4
    java = spark._jvm.java.lang.ProcessHandle.current().pid()
    addresses: list[str] = []
    for pid in [*family(java)]:
        with suppress(FileNotFoundError, ProcessLookupError):
            addresses += listening(pid)
    assert addresses
    assert [each for each in addresses if not ip_address(each).is_loopback] == []
    assert spark.sparkContext.uiWebUrl is None


def test_spill_directory_is_private_to_the_user(spark: Any) -> None:
    place = Path(spark.sparkContext.getConf().get("spark.local.dir"))
    assert place.stat().st_mode & 0o777 == 0o700
    assert list(place.glob("blockmgr-*"))


def test_workers_are_forked_from_a_process_that_has_imported_the_history(spark: Any) -> None:
    def parents(batches: Iterable[Any]) -> Iterator[Any]:
        place = Path("/proc", str(os.getppid()))
        command = place.joinpath("cmdline").read_text().replace("\0", " ")
        has_arrow = "pyarrow" in place.joinpath("maps").read_text()
        for _ in batches:
            yield pa.RecordBatch.from_pydict(
                {"command": [command], "arrow": [has_arrow], "frozen": [gc.get_freeze_count()]}
            )

    found = (
        spark.range(1).mapInArrow(parents, "command string, arrow boolean, frozen bigint").collect()
    )
    assert found
    assert all("groupsdk.history.spark_daemon pyspark.worker" in each.command for each in found)
    assert all(each.arrow for each in found)
    assert all(each.frozen > 10_000 for each in found)


def test_workers_do_not_compile_pyspark_out_of_its_archive(spark: Any) -> None:
    def loaded_from(batches: Iterable[Any]) -> Iterator[Any]:
        import py4j  # type: ignore[import-untyped]
        import pyspark as loaded

        for _ in batches:
            yield pa.RecordBatch.from_pydict(
                {"pyspark": [loaded.__file__], "py4j": [py4j.__file__]}
            )

    found = spark.range(1).mapInArrow(loaded_from, "pyspark string, py4j string").collect()
    assert [Path(each.pyspark) for each in found] == [Path(pyspark.__file__)]
    assert all(".zip" not in each.py4j for each in found)


def test_a_spark_that_pip_has_not_installed_keeps_its_archives() -> None:
    archives = ["/opt/spark/python/lib/pyspark.zip", "/opt/spark/python/lib/py4j-src.zip"]
    script = "import sys, groupsdk.history.spark_daemon; print(*sys.path, sep='\\n')"
    environment = {
        **os.environ,
        "SPARK_HOME": "/opt/spark",
        "PYTHONPATH": os.pathsep.join([*archives, *sys.path]),
    }
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert set(archives) <= set(done.stdout.split("\n"))
