"""File systems by path, and the folders that tasks write into."""

from pathlib import Path

import pytest


pytest.importorskip("pyarrow")

from groupsdk.errors import ConfigError
from groupsdk.history.sources.places import file_system, made_empty


def test_a_path_and_its_uri_are_the_same_place(tmp_path: Path) -> None:
    assert file_system(str(tmp_path))[1] == file_system(tmp_path.as_uri())[1] == str(tmp_path)


def test_a_file_system_that_is_not_known_is_said() -> None:
    with pytest.raises(ConfigError, match="s4://bucket"):
        file_system("s4://bucket/history")


def test_folders_are_emptied_and_made(tmp_path: Path) -> None:
    (tmp_path / "a" / "day=1").mkdir(parents=True)
    (tmp_path / "a" / "day=1" / "old").touch()
    (tmp_path / "kept").touch()
    for place in (str(tmp_path), tmp_path.as_uri()):
        assert made_empty(place, ("a", "b/c")) == place
        assert sorted(each.name for each in tmp_path.rglob("*")) == ["a", "b", "c", "kept"]


def test_nothing_is_done_where_only_spark_knows_the_file_system() -> None:
    assert made_empty("s3a://bucket/history", ("a",)) is None
