"""Find the sample of a real log, and read Kafka's own dump of it."""

import gzip
import json
import re
from pathlib import Path
from typing import Any


DATA = Path(__file__).parent / "data"
SEGMENTS = DATA / "segments"
BROKER_LOG = DATA / "coordinator-log.txt.gz"

_RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) CreateTime: (?P<ts>\d+) .*?headerKeys: \[\](?P<text>.*)"
)


def partition_of(folder: Path) -> int:
    """Take the partition's number from the name of its directory."""
    return int(folder.name.rpartition("-")[2])


def segment_files() -> list[Path]:
    """List the segment files by partition and offset."""
    return sorted(SEGMENTS.glob("*/*.log"))


def dumped() -> dict[tuple[int, int], tuple[int, str]]:
    """Read Kafka's dump: partition and offset to timestamp and the text of key and payload."""
    found = {}
    for path in sorted((DATA / "dump").glob("*.gz")):
        partition = int(path.name.removesuffix(".txt.gz").rpartition("-")[2])
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                match = _RECORD.match(line.rstrip("\n"))
                if match is not None:
                    place = partition, int(match["offset"])
                    found[place] = int(match["ts"]), match["text"]
    return found


def expected_generations() -> list[dict[str, Any]]:
    """Read the generations that the sample holds."""
    text = (DATA / "expected_generations.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def expected_counts() -> dict[str, Any]:
    """Read how many records of which type the sample holds."""
    found: dict[str, Any] = json.loads((DATA / "expected_counts.json").read_text(encoding="utf-8"))
    return found
