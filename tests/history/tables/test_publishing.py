"""Tables that take the places of others: all of them or none, wherever it is ended."""

from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override


pytest.importorskip("pyspark")

from groupsdk.history.sources.filesystems import StorageDirectory
from groupsdk.history.tables.publishing import STAGING, begin, finish, publish


NAMES = ("generations", "moves", "storms")


class EndedError(Exception):
    """The process was killed."""


class Directory(StorageDirectory):
    """A directory of this machine, without a session; it can be ended at any of its deeds."""

    def __init__(self, root: Path, deeds: int = 1_000) -> None:
        self.root = str(root)
        self._local = root
        self._deeds = deeds

    def _count(self) -> None:
        if not self._deeds:
            raise EndedError
        self._deeds -= 1

    @override
    def delete(self, name: str) -> None:
        self._count()
        super().delete(name)

    @override
    def move(self, source: str, target: str) -> None:
        self._count()
        super().move(source, target)

    @override
    def write(self, name: str, data: bytes) -> str:
        self._count()
        return super().write(name, data)


def fill(root: Path, content: str) -> None:
    """Write tables."""
    for name in NAMES:
        place = root / name / "day=1" / "part-0.parquet"
        place.parent.mkdir(parents=True)
        place.write_text(content)


def contents(root: Path) -> list[str]:
    """Read the tables."""
    return [(root / name / "day=1" / "part-0.parquet").read_text() for name in NAMES]


def test_a_run_takes_the_place_of_another_wherever_it_is_ended(tmp_path: Path) -> None:
    seen: set[str] = set()
    for deeds in range(30):
        root = tmp_path / str(deeds)
        fill(root, "old")
        (root / "raw_records").mkdir()
        fill(root / STAGING, "new")
        try:
            publish(Directory(root, deeds), NAMES)
            ended = False
        except EndedError:
            ended = True
        finish(Directory(root), NAMES)
        found = contents(root)
        # before it was said to be complete nothing has changed; after that everything has
        assert len(set(found)) == 1
        seen |= set(found)
        assert (root / "raw_records").exists()
        if not ended:
            assert found == ["new"] * 3
            assert not (root / STAGING).exists()
            break
    assert seen == {"old", "new"}
    assert deeds > 6


def test_leftovers_of_a_failed_run_are_dropped(tmp_path: Path) -> None:
    fill(tmp_path, "old")
    fill(tmp_path / STAGING, "half")
    begin(Directory(tmp_path), NAMES)
    assert contents(tmp_path) == ["old"] * 3
    assert not (tmp_path / STAGING).exists()


def test_the_first_run_has_nothing_to_replace(tmp_path: Path) -> None:
    fill(tmp_path / STAGING, "new")
    publish(Directory(tmp_path), NAMES)
    assert contents(tmp_path) == ["new"] * 3


def test_a_table_that_was_one_file_can_be_replaced(tmp_path: Path) -> None:
    fill(tmp_path / STAGING, "new")
    (tmp_path / "moves").touch()
    store: Any = Directory(tmp_path)
    publish(store, NAMES)
    assert contents(tmp_path) == ["new"] * 3
