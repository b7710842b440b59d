"""Find the files of an archive, and read them without Spark."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from pyarrow import fs, parquet

from groupsdk.errors import ConfigError
from groupsdk.history.read.reading import TableBatches, read_arrow_batches
from groupsdk.history.sources.filesystems import file_system
from groupsdk.history.tables.raw_table import raw_files
from groupsdk.history.tables.schemas import RAW
from groupsdk.history.tables.stage_tables import BATCH_ROWS


SINK_LOG: Final = "_spark_metadata"
"""Where Spark's stream says which files are complete."""
_ENTRY: Final = re.compile(r"([0-9]+)(\.compact)?")


@dataclass(frozen=True, slots=True)
class ArchiveTask:
    """Reads one file of an archive; for `groupsdk.history.local`."""

    root: str
    path: str
    number: int
    size: int

    @property
    def name(self) -> str:
        return f"part-{self.number:05}-raw"

    def read(self) -> TableBatches:
        return read_arrow_batches(self._batches())

    def _batches(self) -> Iterator[Any]:
        system, _ = file_system(self.root)
        with system.open_input_file(self.path) as opened:
            yield from parquet.ParquetFile(opened).iter_batches(BATCH_ROWS)


def archive_tasks(path: str, cluster_id: str | None = None) -> list[ArchiveTask]:
    """Return the tasks that read an archive, one for each file that its stream's log names, or for all without such a log.

    Files that the log does not name were being written as the stream was stopped. `cluster_id`: the cluster to read of an archive that is a
    Delta table.
    """
    if cluster_id is not None:
        root = file_system(path)[1].rstrip("/")
        return [
            ArchiveTask(path, f"{root}/{name}", number, size)
            for number, (name, size) in enumerate(raw_files(path, cluster_id))
        ]
    system, root = file_system(path)
    folder = f"{root.rstrip('/')}/{RAW}"
    found = system.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
    files = {
        each.path.removeprefix(f"{folder}/"): each
        for each in found
        if each.type == fs.FileType.File
    }
    names = [name for name in files if name.startswith(f"{SINK_LOG}/")]
    wanted = sorted(_complete(system, folder, names) if names else filter(_is_data, files))
    missing = [name for name in wanted if name not in files]
    if missing:
        raise ConfigError(f"{folder} has lost {missing[0]}, which its {SINK_LOG} names")
    if not wanted and not names:
        raise ConfigError(f"{path} has no archive: expected {RAW}/*.parquet in it")
    return [
        ArchiveTask(path, files[name].path, number, files[name].size)
        for number, name in enumerate(wanted)
    ]


def _is_data(name: str) -> bool:
    return name.endswith(".parquet") and not any(part[0] in "._" for part in name.split("/"))


def _complete(system: Any, folder: str, names: list[str]) -> set[str]:
    """Read the sink's log: its last compacted file, and the entries added since."""
    entries = [
        (int(match[1]), match[2] is not None, name)
        for name in names
        if (match := _ENTRY.fullmatch(name.rpartition("/")[2])) is not None
    ]
    summary = max((number for number, compact, _ in entries if compact), default=-1)
    complete: set[str] = set()
    for number, compact, name in sorted(entries):
        if number < summary or (number == summary and not compact):
            continue
        with system.open_input_stream(f"{folder}/{name}") as file:
            # the first line says of which version the log is
            for line in file.read().decode().splitlines()[1:]:
                entry = json.loads(line)
                place = unquote(entry["path"]).rpartition(f"/{RAW}/")[2]
                if entry.get("action") == "delete":
                    complete.discard(place)
                else:
                    complete.add(place)
    return complete
