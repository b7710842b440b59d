"""Segment files found and read, wherever they lie and whatever else lies there."""

from pathlib import Path

import pytest


pytest.importorskip("pyspark")

from groupsdk.errors import ConfigError
from groupsdk.history.sources.segments import (
    SegmentFile,
    SegmentsReader,
    find_segments,
    read_rows,
)
from tests.history.sample import SEGMENTS, segment_files


def found(path: Path) -> list[tuple[int, str]]:
    """List partitions and names of the files."""
    return [(each.partition, Path(each.path).name) for each in find_segments(str(path))]


def test_files_are_found_from_every_place_that_people_name() -> None:
    every = [(int(path.parent.name[-1]), path.name) for path in segment_files()]
    assert found(SEGMENTS) == every
    assert found(SEGMENTS.parent) == every
    assert found(SEGMENTS / "__consumer_offsets-3") == every[2:]
    assert found(segment_files()[0]) == every[:1]
    assert [each.partition for each in find_segments(SEGMENTS.resolve().as_uri())] == [
        1,
        1,
        3,
        3,
        3,
    ]


def test_what_is_no_segment_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    for name in (
        *(
            "00000000000000000000.index",
            "00000000000000000000.log.deleted",
            "leader-epoch-checkpoint",
        ),
        *("00000000000000000007.log.swap", "00000000000000000003.timeindex"),
    ):
        (folder / name).write_bytes(b"x")
    (folder / f"{5:020}.log").write_bytes(b"")
    (tmp_path / "jobs-0").mkdir()
    (tmp_path / "jobs-0" / f"{0:020}.log").write_bytes(b"x")
    with pytest.raises(ConfigError, match=r"expected __consumer_offsets-<partition>/\*\.log"):
        found(tmp_path)
    (folder / f"{0:020}.log").write_bytes(b"x")
    assert found(tmp_path) == [(0, f"{0:020}.log")]


def test_the_copies_of_two_brokers_are_not_counted_twice(tmp_path: Path) -> None:
    for broker in ("broker-1", "broker-2"):
        folder = tmp_path / broker / "__consumer_offsets-0"
        folder.mkdir(parents=True)
        (folder / f"{0:020}.log").write_bytes(b"x")
    with pytest.raises(ConfigError, match="name the directory of one broker"):
        found(tmp_path)
    assert found(tmp_path / "broker-1")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/no/such/place", "there is no /no/such/place"),
        (__file__, "is no segment file of a partition"),
        ("nonsense://bucket/x", "no file system is known"),
    ],
)
def test_a_path_that_is_wrong_says_so(path: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        find_segments(path)
    with pytest.raises(ConfigError, match=r"land=.* goes with the kind 'rest'"):
        SegmentsReader({"path": str(SEGMENTS), "kind": "commits", "land": "out"})
    with pytest.raises(ConfigError, match="needs the path"):
        SegmentsReader({})


def test_a_file_is_read_in_pieces_of_the_size_that_is_asked_for() -> None:
    path = segment_files()[0]
    segment = SegmentFile(str(path), 1, path.stat().st_size)
    sizes = []
    for chunk_bytes in (1_000, 10**6):
        with path.open("rb") as file:
            batches = list(read_rows(file, segment, "raw", chunk_bytes=chunk_bytes))
        assert sum(batch.num_rows for batch in batches) == 236
        sizes.append(len(batches))
    assert sizes[0] > sizes[1] == 1
