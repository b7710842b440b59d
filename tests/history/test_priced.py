"""The price of advice held to logs in which the same work was done with the change and without it, in both directions."""

import statistics
from collections import defaultdict
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow.dataset as ds
import pytest

from groupsdk.history.explain.commit_spans import allowance_ms
from groupsdk.history.local import run
from groupsdk.history.sources.segment_files import segment_tasks
from tests.history.expected_tables import unpack
from tests.history.recording.with_and_without import PRICED


class Priced(NamedTuple):
    """What was told of one group, and what happened; in partition-seconds without progress."""

    before_s: float
    after_s: float
    told_s: float
    pays: bool


@pytest.fixture(scope="module")
def priced(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Priced]:
    stalled: dict[str, dict[str, float]] = {}
    advice: dict[tuple[str, str], dict[str, Any]] = {}
    for way in ("without", "with"):
        root = tmp_path_factory.mktemp(way)
        run(segment_tasks(str(unpack([f"priced/{way}"], root))), str(root / "out"))
        stalled[way] = standstill(ds.dataset(str(root / "out" / "offset_commits")))
        if way == "without":
            rows = ds.dataset(str(root / "out" / "advice")).to_table().to_pylist()
            advice = {(row["group_id"], row["advice"]): row for row in rows}
    found = {}
    for group, (name, _) in PRICED.items():
        told = advice[group, name]
        before_s, after_s = (stalled[way][group] for way in stalled)
        told_s = before_s - told["spared_ms"] / 1000 + told["added_ms"] / 1000
        found[group] = Priced(before_s, after_s, told_s, told["pays"])
    return found


def standstill(commits: Any) -> dict[str, float]:
    """Sum up from every single commit for how long partitions of each group stood still."""
    columns = ("group_id", "topic", "partition", "commit_ts")
    of_partition: defaultdict[tuple[str, str, int], list[float]] = defaultdict(list)
    for row in commits.to_table(columns=list(columns)).to_pylist():
        place = row["group_id"], row["topic"], row["partition"]
        of_partition[place].append(row["commit_ts"].timestamp())
    found: defaultdict[str, float] = defaultdict(float)
    for (group, _, _), times in of_partition.items():
        times.sort()
        gaps = [after - before for before, after in pairwise(times)]
        allowed = allowance_ms(1000 * statistics.median(gaps)) / 1000
        found[group] += sum(max(0.0, gap - allowed) for gap in gaps)
    return found


@pytest.mark.parametrize(
    ("group", "pays"),
    [
        ("static-quick", True),
        ("deployed", True),
        ("static-long", False),
        ("static-scaled", False),
        ("session-crashes", False),
    ],
)
def test_a_change_pays_where_the_other_log_shows_less_standstill(
    group: str, pays: bool, priced: dict[str, Priced]
) -> None:
    found = priced[group]
    assert found.pays == pays == (found.after_s < found.before_s), found
    assert abs(found.told_s - found.after_s) <= max(6, 0.2 * found.after_s), found


def test_what_others_need_to_rejoin_counts_as_absence(priced: dict[str, Priced]) -> None:
    # the other log shows neither a gain nor a loss, and too much is told
    found = priced["session-pauses"]
    assert abs(found.after_s - found.before_s) < 2, found
    assert not found.pays
    assert found.after_s < found.told_s < 2 * found.after_s


def test_a_cooperative_group_waits_for_its_slowest_member_twice(priced: dict[str, Priced]) -> None:
    # a gain is told, and there was none
    found = priced["cooperative-slow"]
    assert found.pays
    assert abs(found.after_s - found.before_s) < 3, found
    assert 0.7 * found.after_s < found.told_s < found.after_s
