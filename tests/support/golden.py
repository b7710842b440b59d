"""Golden files: what Kafka answered once, kept as JSON in gzip so that a comparison needs no Java."""

import gzip
import json
from pathlib import Path
from typing import Any


def read_golden(path: Path) -> Any:
    """Return the value that a golden file holds."""
    return json.loads(gzip.decompress(path.read_bytes()))


def write_golden(path: Path, value: object, *, sort_keys: bool = False) -> None:
    """Write a golden file; the same value gives the same bytes."""
    text = json.dumps(value, indent=0, ensure_ascii=False, sort_keys=sort_keys)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
