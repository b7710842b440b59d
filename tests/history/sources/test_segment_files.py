"""Segment files found and read, wherever they lie and whatever else lies there."""

import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from examples.history_log import Seat, commit, generation
from groupsdk.errors import ConfigError
from groupsdk.history.local import run
from groupsdk.history.pipeline import Options
from groupsdk.history.sources import segment_files as module
from groupsdk.history.sources.segment_files import (
    TOPIC,
    SegmentTask,
    find_segments,
    segment_tasks,
)
from groupsdk.wire.records.batch import HEADER_SIZE, LENGTH_END, crc32c
from groupsdk.wire.records.control import build_marker
from groupsdk.wire.records.record import Record, build_batch
from tests.history.expected_tables import digests, rows_of
from tests.history.made_logs import write_transactions
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


def test_file_that_is_not_a_segment_is_left_out(tmp_path: Path) -> None:
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


def test_a_directory_that_links_lead_to_again_counts_once(tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(b"x")
    (folder / f"{1:020}.log").symlink_to("/no/such/file")
    (folder / f"{2:020}.log").symlink_to(folder / f"{2:020}.log")
    (tmp_path / "around").symlink_to(tmp_path)
    (tmp_path / "again").symlink_to(folder)
    assert found(tmp_path) == [(0, f"{0:020}.log")]


def test_names_that_no_broker_gives_are_left_out(tmp_path: Path) -> None:
    for name in ("-00", "-4294967296", "-\N{ARABIC-INDIC DIGIT ONE}", "-1-delete", "--1", "-7"):
        folder = tmp_path / f"__consumer_offsets{name}"
        folder.mkdir()
        (folder / f"{0:020}.log").write_bytes(b"x")
    assert found(tmp_path) == [(7, f"{0:020}.log")]


def test_a_name_that_cannot_be_read_says_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    os.mkdir(os.fsencode(tmp_path / "data") + b"/\xff")  # noqa: PTH102 - no Path of these bytes
    with pytest.raises(ConfigError, match=r"data has a name in it that is not UTF-8"):
        found(tmp_path)


class Refusing:
    """A file system on which one directory may not be listed."""

    def __init__(self, name: str) -> None:
        self._system = fs.LocalFileSystem()
        self._name = name

    def get_file_info(self, asked: Any) -> Any:
        """Answer as the real one does, unless it is for that directory."""
        if isinstance(asked, fs.FileSelector) and asked.base_dir.endswith(self._name):
            raise PermissionError(f"Cannot list directory '{asked.base_dir}'")
        return self._system.get_file_info(asked)


def test_unreadable_folder_is_an_error_unless_it_belongs_to_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("lost+found", "disk", "__consumer_offsets-0"):
        (tmp_path / name).mkdir()
    (tmp_path / "__consumer_offsets-0" / f"{0:020}.log").write_bytes(b"x")

    def refuse(name: str) -> None:
        monkeypatch.setattr(module, "file_system", lambda path: (Refusing(name), path))

    for name in ("disk", "__consumer_offsets-0"):
        refuse(name)
        with pytest.raises(ConfigError, match=f"{name} may not be listed"):
            found(tmp_path)
    refuse("lost+found")
    assert found(tmp_path) == [(0, f"{0:020}.log")]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/no/such/place", "/no/such/place does not exist"),
        (__file__, "is not a segment file of a partition"),
        ("nonsense://bucket/x", "does not support the file system"),
    ],
)
def test_a_path_that_is_wrong_says_so(path: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        find_segments(path)


def test_a_file_is_read_in_pieces_of_the_size_that_is_asked_for() -> None:
    first = segment_tasks(str(SEGMENTS))[0]
    sizes = []
    for chunk_bytes in (1_000, 10**6):
        batches = list(SegmentTask(first.root, first.segment, chunk_bytes).raw())
        assert sum(batch.num_rows for batch in batches) == 236
        sizes.append(len(batches))
    assert sizes[0] > sizes[1] == 1


def test_records_that_two_files_have_count_once(tmp_path: Path) -> None:
    """A broker's directory that was copied while the cleaner put one file in the place of several."""
    for name in ("once", "twice"):
        (tmp_path / name).mkdir()
        write_transactions(tmp_path / name)
    files = sorted((tmp_path / "twice").rglob("*.log"))
    assert len(files) > 3
    files[0].write_bytes(b"".join(file.read_bytes() for file in files[:3]))
    for suffix in (".cleaned", ".swap", ".deleted"):
        files[1].with_suffix(f".log{suffix}").write_bytes(files[1].read_bytes())
    for name in ("once", "twice"):
        run(segment_tasks(str(tmp_path / name)), str(tmp_path / f"of {name}"))
    assert digests(tmp_path / "of twice") == digests(tmp_path / "of once")
    rows = [
        [batch.num_rows for task in segment_tasks(str(tmp_path / name)) for batch in task.raw()]
        for name in ("once", "twice")
    ]
    assert sum(rows[0]) == sum(rows[1])


def test_empty_batches_markers_and_large_records_are_no_damage(tmp_path: Path) -> None:
    """An empty batch, which the cleaner keeps for its producer's sequence, markers alone, and a record of megabytes."""
    folder = tmp_path / "log" / "__consumer_offsets-0"
    folder.mkdir(parents=True)
    filled = build_batch([Record(10, 1_000, b"k", b"v")], 10, 0, 5, 0, 3)
    empty = bytearray(filled[:HEADER_SIZE])
    empty[8:12] = (HEADER_SIZE - LENGTH_END).to_bytes(4)
    empty[57:61] = bytes(4)
    empty[17:21] = crc32c(bytes(empty[21:])).to_bytes(4)
    mark = partial(build_marker, 5, 0, coordinator_epoch=0, timestamp_ms=2_000)
    # longer than a piece that is read
    wide = Seat("c", {"t": range(5)}, tuple(f"{n}" * 10_000 for n in range(100, 300)))
    parts = [
        bytes(empty),
        mark(committed=False, base_offset=20),
        mark(committed=True, base_offset=900),
        build_batch(
            [Record(901, 3_000, *commit("g", "t", 0, 7, 3_000)), Record(902, 3_000, b"", None)], 901
        ),
        build_batch([Record(903, 3_000, *generation("g", 1, {"m": wide}))], 903),
    ]
    (folder / f"{5:020}.log").write_bytes(b"".join(parts))
    run(segment_tasks(str(tmp_path / "log")), str(tmp_path / "out"))
    rejects = [dict(row)["reason"] for row in rows_of(tmp_path / "out" / "rejects")]
    assert len(rejects) == 1  # the record without a key
    (quality,) = map(dict, rows_of(tmp_path / "out" / "quality"))
    assert (quality["records"], quality["bad_batches"], quality["first_offset"]) == (5, 0, 5)
    (made,) = map(dict, rows_of(tmp_path / "out" / "generations"))
    assert made["n_partitions"] == 5


@pytest.mark.parametrize("content", ["", "that of the next file"])
def test_a_first_file_that_is_emptied_or_replaced_is_a_gap(tmp_path: Path, content: str) -> None:
    log = Path(shutil.copytree(SEGMENTS, tmp_path / "segments"))
    first, second = sorted((log / "__consumer_offsets-1").glob("*.log"))
    first.write_bytes(second.read_bytes() if content else b"")
    run(segment_tasks(str(log)), str(tmp_path / "out"))
    found = {row["src_partition"]: row for row in map(dict, rows_of(tmp_path / "out" / "quality"))}
    assert (found[1]["first_offset"], found[1]["records"]) == (0, 300)
    assert found[1]["offset_gaps"] == int(second.stem)
    assert found[3]["offset_gaps"] == 0


def note(directory: Path, **offsets: dict[int, int]) -> None:
    """Write a broker's checkpoints into its data directory, with the offset of each partition."""
    for name, of in offsets.items():
        lines = [f"{TOPIC} {partition} {offset}" for partition, offset in of.items()]
        lines += ["__consumer_offsets-again 1 999999", "what is damaged"]
        text = "\n".join(["0", str(len(lines)), *lines, ""])
        (directory / f"{name.replace('_', '-')}-checkpoint").write_text(text, encoding="utf-8")


def quality_of(log: Path, out: Path) -> dict[int, tuple[int, int, int, int]]:
    """Return by partition the first offset, the last one, the records and the missing offsets."""
    run(segment_tasks(str(log)), str(out), Options(assignors=()))
    names = ("first_offset", "last_offset", "records", "offset_gaps")
    rows = map(dict[str, Any], rows_of(out / "quality"))
    return {row["src_partition"]: tuple(row[each] for each in names) for row in rows}


def test_records_that_only_the_brokers_notes_know_of_are_a_gap(tmp_path: Path) -> None:
    log = Path(shutil.copytree(SEGMENTS, tmp_path / "segments"))
    whole = quality_of(log, tmp_path / "whole")
    ends = {partition: last + 1 for partition, (_, last, *_) in whole.items()}
    # a data directory that is complete has none
    note(log, recovery_point_offset=ends, replication_offset=ends, log_start_offset={})
    assert quality_of(log, tmp_path / "noted") == whole
    for file in (log / "__consumer_offsets-1").glob("*.log"):
        file.write_bytes(b"")
    note(log, recovery_point_offset=ends | {7: 0, 9: 80}, replication_offset=ends | {9: 100})
    found = quality_of(log, tmp_path / "emptied")
    assert found[1] == (0, ends[1] - 1, 0, ends[1])
    # the partition has no directory any more
    assert found[9] == (0, 99, 0, 100)
    assert found[3] == whole[3]
    assert sorted(found) == [1, 3, 9]
    # of a directory that is named itself, the others are not missed
    assert sorted(quality_of(log / "__consumer_offsets-3", tmp_path / "one")) == [3]


def test_what_lies_before_the_first_file_is_a_gap_where_the_log_begins_earlier(
    tmp_path: Path,
) -> None:
    """As where the first files of a partition are in remote storage, or were deleted by hand."""
    log = Path(shutil.copytree(SEGMENTS, tmp_path / "segments"))
    first, second, *_ = sorted((log / "__consumer_offsets-1").glob("*.log"))
    first.unlink()
    local = quality_of(log, tmp_path / "local")
    assert local[1][0] == int(second.stem)
    note(log, log_start_offset={1: 3})
    found = quality_of(log, tmp_path / "out")
    assert found[1] == (3, *local[1][1:3], local[1][3] + int(second.stem) - 3)
    # records below it are no gap: they are there
    note(log, log_start_offset={1: int(second.stem) + 1})
    assert quality_of(log, tmp_path / "later") == local


def test_an_empty_file_after_others_is_no_gap(tmp_path: Path) -> None:
    log = Path(shutil.copytree(SEGMENTS, tmp_path / "segments"))
    (log / "__consumer_offsets-1" / f"{536:020}.log").write_bytes(b"")
    (log / "__consumer_offsets-7").mkdir()
    (log / "__consumer_offsets-7" / f"{0:020}.log").write_bytes(b"")
    assert [each.partition for each in find_segments(str(log))] == [1, 1, 3, 3, 3]
