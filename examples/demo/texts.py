"""Choose the texts, the modules of this Python's standard library, and count their words."""

import re
import sysconfig
from collections import Counter
from collections.abc import Sequence
from pathlib import Path


_SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "__pycache__"}
_WORD = re.compile(rb"[a-z]{2,}")


def standard_library(limit: int) -> list[Path]:
    """Return at most `limit` modules, evenly picked; the same list for the same Python.

    Raises:
        SystemExit: this Python keeps its standard library where it cannot be read as files.
    """
    root = Path(sysconfig.get_path("stdlib"))
    files = sorted(
        path for path in root.rglob("*.py") if not _SKIPPED & set(path.relative_to(root).parts)
    )
    if not files:
        raise SystemExit(f"demo: {root} holds no modules to count the words of")
    count = min(limit, len(files))
    return [files[index * len(files) // count] for index in range(count)]


def count_words(path: Path) -> Counter[str]:
    """Count the words of one text: runs of letters, in lower case."""
    words = _WORD.findall(path.read_bytes().lower())
    return Counter({word.decode(): count for word, count in Counter(words).items()})


def units_of(shard: int, shards: int, files: Sequence[Path]) -> list[int]:
    """Return the units of a shard: the indexes of its texts."""
    return list(range(shard, len(files), shards))
