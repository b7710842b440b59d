"""Holds what docs/history.md says of the made-up day to the day, without a Spark session."""

from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

from docs import draw_history
from docs.regions import filled
from examples.history_day import write_day
from groupsdk.history.explain.assignor_replay import (
    PastGeneration,
    ReplayedMember,
    ReplayRow,
)
from groupsdk.history.explain.timeline.rows import GroupRecord, MemberRow
from groupsdk.history.report.data import GroupPage, WhatIf
from groupsdk.history.sources.segment_files import segment_tasks
from groupsdk.history.tables.stages import RECORDS
from tests.history.explain.timelines import follow_groups, replay


def past_generations(root: Path, group_id: str) -> list[PastGeneration]:
    """Read the generations of a group from segment files."""
    records = []
    for task in segment_tasks(str(root)):
        for name, batch in task.read():
            records += [
                GroupRecord(
                    *(row["group_id"], row["src_partition"], row["src_offset"]),
                    int(row["ts"].timestamp() * 1000),
                    *(row["leader_epoch"], row["key"], row["value"]),
                )
                for row in batch.to_pylist()
                if name == RECORDS and row["group_id"] == group_id and row["key"]
            ]
    members: defaultdict[tuple[int, int], list[ReplayedMember]] = defaultdict(list)
    for row in follow_groups(records):
        if isinstance(row, MemberRow):
            each = row.member
            members[row.seq, row.generation].append(
                ReplayedMember(
                    each.member_id, each.instance_id, each.topics, each.rack_id, each.assigned
                )
            )
    return [
        PastGeneration(group_id, *place, False, sorted(joined))
        for place, joined in sorted(members.items())
    ]


def test_the_page_says_what_the_replay_of_the_day_says(tmp_path: Path) -> None:
    write_day(tmp_path)
    rows: defaultdict[str, list[ReplayRow]] = defaultdict(list)
    for row in replay(past_generations(tmp_path, draw_history.GROUP), ["cooperative-sticky"]):
        assert row.problem is None
        rows[row.assignor].append(row)
    what_if = [
        WhatIf(
            assignor=name,
            generations=len(each),
            moves=sum(row.moved for row in each),
            revoked=sum(row.revoked for row in each),
            mean_stddev=sum(row.stddev for row in each) / len(each),
            worst_spread=None,
            problems=0,
            rank=0,
        )
        for name, each in rows.items()
    ]
    end = datetime(2026, 10, 3, tzinfo=UTC)
    page = GroupPage(draw_history.GROUP, "classic", (), (), False, (), 0, what_if, end)
    ((path, text),) = filled("history.md", {"what-if": draw_history.what_if(page)}).items()
    assert path.read_text(encoding="utf-8") == text, "run python -m docs.draw_history"


def test_the_picture_of_the_page_is_small() -> None:
    assert 10_000 < draw_history.PICTURE.stat().st_size < 200_000
