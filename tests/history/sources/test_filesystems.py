"""File systems by path, and the folders that tasks write into."""

from pathlib import Path

import pytest


pytest.importorskip("pyarrow")

from groupsdk.errors import ConfigError
from groupsdk.history.sources.filesystems import (
    file_system,
    is_supported,
    local_path,
    prepare_folders,
)


def test_a_path_and_its_uri_are_the_same_place(tmp_path: Path) -> None:
    with_space = tmp_path / "a b"
    for place in (str(with_space), with_space.as_uri(), f"file:{with_space}"):
        assert file_system(place)[1] == str(with_space)
        assert local_path(place) == with_space
        assert is_supported(place)
    for elsewhere in ("s3a://bucket/a", "hdfs://name/a", "viewfs://table/a"):
        assert local_path(elsewhere) is None


def test_a_file_system_that_is_not_known_is_said() -> None:
    with pytest.raises(ConfigError, match="s4://bucket"):
        file_system("s4://bucket/history")


def test_folders_are_emptied_and_made(tmp_path: Path) -> None:
    (tmp_path / "a" / "day=1").mkdir(parents=True)
    (tmp_path / "a" / "day=1" / "old").touch()
    (tmp_path / "kept").touch()
    for place in (str(tmp_path), tmp_path.as_uri(), f"file:{tmp_path}"):
        assert prepare_folders(place, ("a", "b/c")) == str(tmp_path)
        assert sorted(each.name for each in tmp_path.rglob("*")) == ["a", "b", "c", "kept"]


def test_nothing_is_done_where_only_spark_knows_the_file_system() -> None:
    assert prepare_folders("s3a://bucket/history", ("a",)) is None


def test_a_link_to_itself_is_a_path_that_is_not_there(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(link)
    found = local_path(str(link))
    assert found is not None
    assert not found.exists()
