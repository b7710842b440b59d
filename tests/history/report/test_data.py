"""What the report asks of the tables."""

from pathlib import Path

import pyarrow as pa
import pytest

from examples.history_log import LogWriter, commit
from groupsdk.errors import ConfigError
from groupsdk.history.local import run
from groupsdk.history.report.data import (
    MembershipBar,
    OwnershipSpan,
    client_names,
    collect,
    culprit_name,
    join_ownership,
    ownership_cells,
)
from groupsdk.history.report.page import render
from groupsdk.history.report.tables import ParquetTables
from groupsdk.history.sources.segment_files import segment_tasks
from tests.history.expected_tables import LOGS
from tests.history.report.small import END, at


BEGINS = {0: at(0), 1: at(10), 2: at(20), 3: at(30)}


def joined(*cells: tuple[int, str, str, float]) -> list[OwnershipSpan]:
    """Join cells of generation, label, client and share."""
    names = ("seq", "label", "client_id", "share")
    columns = dict(zip(names, map(list, zip(*cells, strict=True)), strict=True))
    return join_ownership(pa.table(columns), BEGINS, END)


def test_ownership_by_one_client_is_one_span() -> None:
    cells = [(seq, "t-0", "a" if seq < 2 else "b", 1.0) for seq in range(4)]
    assert joined(*cells) == [
        OwnershipSpan("t-0", "a", at(0), at(20), 1.0),
        OwnershipSpan("t-0", "b", at(20), END, 1.0),
    ]


def test_a_gap_and_another_share_end_a_stretch() -> None:
    assert joined((0, "t", "a", 1.0), (2, "t", "a", 1.0), (3, "t", "a", 0.5)) == [
        OwnershipSpan("t", "a", at(0), at(10), 1.0),
        OwnershipSpan("t", "a", at(20), at(30), 1.0),
        OwnershipSpan("t", "a", at(30), END, 0.5),
    ]


def test_a_clock_that_goes_back_makes_no_negative_time() -> None:
    cells = pa.table({"seq": [0], "label": ["t"], "client_id": ["a"], "share": [1.0]})
    found = join_ownership(cells, {0: at(10), 1: at(5)}, END)
    assert found == [OwnershipSpan("t", "a", at(10), at(10), 1.0)]
    assert join_ownership(cells.slice(0, 0), {}, END) == []


def stay(member_id: str, start: int, end: int | None, client_id: str = "rdkafka") -> MembershipBar:
    return MembershipBar(client_id, member_id, at(start), None if end is None else at(end), "")


def test_members_that_share_a_client_id_are_told_apart() -> None:
    first, second = "rdkafka-7f1c9a22-55", "rdkafka-09bd4e11-77"
    stays = [stay(first, 0, None), stay(second, 5, None), stay("a-1", 0, 9, "a")]
    assert client_names(stays, END) == {
        first: "rdkafka 7f1c9a",
        second: "rdkafka 09bd4e",
        "a-1": "a",
    }


def test_a_client_that_is_back_before_it_has_expired_keeps_its_name() -> None:
    stays = [stay("m-1", 0, 1_000), stay("m-2", 960, 2_000), stay("m-3", 2_010, None)]
    assert set(client_names(stays, END).values()) == {"rdkafka"}


def test_pictures_have_the_names_of_members_connectors_and_tasks() -> None:
    columns = {
        "seq": [0, 0, 0],
        "topic": ["logs", "logs", "t"],
        "partition": pa.array([-1, 0, 10], pa.int32()),
        "member_id": ["w-1", "w-2", "gone"],
        "client_id": ["w", "w", "x"],
    }
    cells, by_topic = ownership_cells(pa.table(columns), {"w-1": "w 1", "w-2": "w 2"})
    assert not by_topic
    assert cells.column("label").to_pylist() == ["logs", "logs-0", "t-10"]
    assert cells.column("client_id").to_pylist() == ["w 1", "w 2", "x"]


def test_a_client_with_many_ids_is_shown_with_where_it_runs() -> None:
    assert culprit_name(None, None, None) == ""
    assert culprit_name("worker-7", 1, "/h") == "worker-7"
    assert culprit_name("pod-*", 5, None) == "pod-* (5 ids)"
    assert culprit_name("*", 9, "/10.0.0.9") == "* (9 ids from /10.0.0.9)"


def test_the_tables_of_a_run_are_summed_up(tmp_path: Path) -> None:
    log = LOGS["recorded and scenes"](tmp_path)
    run(segment_tasks(str(log)), str(tmp_path / "out"))
    tables = ParquetTables(str(tmp_path / "out"))
    data = collect(tables)
    assert (data.n_generations, data.n_groups, data.n_commits) == (257, 19, 6_329)
    assert [line.stalled_ms for line in data.overview] == sorted(
        (line.stalled_ms for line in data.overview), reverse=True
    )
    lost = [(part.stalled_ms, part.sure_ms) for part in data.costs]
    assert sum(line.stalled_ms for line in data.overview) == sum(ms for ms, _ in lost) > 0
    assert all(sure_ms <= ms for ms, sure_ms in lost)
    assert sum(part.rebalances for part in data.costs) == data.n_generations
    assert any(part.sure < part.rebalances for part in data.costs)
    assert sum(line.generations for line in data.overview) == data.n_generations
    assert sum(each[2] for each in data.causes_by_time) == data.n_generations
    assert len(data.pages) == 19
    assert {page.group_id for page in data.pages if page.ownership} >= {"java", "migrating"}
    assert max(line.rebalances for line in data.advice) > 4
    assert [line.pays for line in data.advice] == sorted(
        (line.pays for line in data.advice), reverse=True
    )
    assert len(data.storms) == 12
    (only,) = collect(tables, ["calm"]).pages
    assert (only.group_id, len(only.generations), only.what_if[0].rank) == ("calm", 6, 1)
    assert (only.own_assignors, only.label("actual")) == (("range",), "range (actual)")
    assert "Group calm" in render(collect(tables, ["calm"]))
    (nobody,) = collect(tables, ["nobody"]).pages
    assert (nobody.generations, nobody.ownership, nobody.stays) == ([], [], [])
    assert "Group nobody" in render(collect(tables, ["nobody"]))


def test_odd_logs_have_a_report_as_well(tmp_path: Path) -> None:
    run(segment_tasks(str(LOGS["bad input"](tmp_path / "log"))), str(tmp_path / "out"))
    page = render(collect(ParquetTables(str(tmp_path / "out"))))
    assert "Record types that are not known" in page
    assert "Group holes" in page


def test_a_log_of_nothing_but_commits_and_one_of_nothing_have_a_report(tmp_path: Path) -> None:
    folder = tmp_path / "log" / "__consumer_offsets-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020}.log").write_bytes(b"this is no log\n" * 100)
    run(segment_tasks(str(tmp_path / "log")), str(tmp_path / "out"))
    assert "no rebalances" in render(collect(ParquetTables(str(tmp_path / "out"))))
    with LogWriter(tmp_path / "log", 1) as log:
        log.append(1_000, commit("simple", "t", 0, 7, 1_000))
    run(segment_tasks(str(tmp_path / "log")), str(tmp_path / "out"))
    data = collect(ParquetTables(str(tmp_path / "out")))
    assert (data.n_commits, data.n_generations, len(data.rejects)) == (1, 0, 1)
    assert "no rebalances" in render(data)


def test_report_without_tables_says_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="groupsdk history run"):
        ParquetTables(str(tmp_path))
