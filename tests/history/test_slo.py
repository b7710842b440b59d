"""Service level objectives: what counts as read in time, how fast a budget burns, and what is wrong in their file."""

from pathlib import Path
from typing import Any

import pytest

from examples.history_log import LogWriter, Seat, commit, generation
from groupsdk.errors import ConfigError
from groupsdk.history import local
from groupsdk.history.follow.updater import Updater
from groupsdk.history.pipeline import Options
from groupsdk.history.report.tables import ParquetTables
from groupsdk.history.slo import (
    NEEDED,
    PAGE,
    TICKET,
    Budget,
    Objective,
    budgets,
    budgets_of,
    read_objectives,
)
from groupsdk.history.sources.segment_files import segment_tasks
from groupsdk.history.standing import log_end_ms
from tests.history.expected_tables import digests
from tests.history.follow.log_parts import follow, pieces, raw_of


START_MS = 1_790_899_200_000
HOUR_S = 3_600
DAY_MS = 86_400_000


def write(
    log: LogWriter, group: str, until_s: int, *pauses: tuple[int, int], every_s: int = 5
) -> None:
    """Write commits of two partitions, but in the pauses: from the first second up to the second."""
    log.append(START_MS, generation(group, 1, {"m": Seat("c", {group: [0, 1]})}))
    for second in range(0, until_s + 1, every_s):
        if not any(begin < second < end for begin, end in pauses):
            now = START_MS + 1_000 * second
            log.append(now, *(commit(group, group, n, second, now) for n in range(2)))


def found(root: Path, *objectives: Objective) -> dict[str, Budget]:
    local.run(
        segment_tasks(str(root / "log")),
        str(root / "out"),
        Options(assignors=(), slos=objectives),
    )
    tables = ParquetTables(str(root / "out"))
    written = budgets_of(tables.read("slo", Budget._fields))
    # what a run writes is what the command computes from its tables
    end_ms = log_end_ms(tables)
    assert end_ms is not None
    needed: dict[str, Any] = {name: tables.read(name, columns) for name, columns in NEEDED.items()}
    assert written == list(budgets(objectives, needed, end_ms))
    return {each.group_id: each for each in written}


def test_a_budget_is_spent_by_what_was_not_read_in_time(tmp_path: Path) -> None:
    with LogWriter(tmp_path / "log", 0) as log:
        write(log, "calm", HOUR_S)
        # both partitions stand still for two minutes: 90 s of each are late
        write(log, "paused", HOUR_S, (600, 720))
        write(log, "slow", HOUR_S, every_s=60)
        write(log, "nobody's", HOUR_S)
    objective = Objective("[cps]*", 99.0)
    by_group = found(tmp_path, objective)
    assert by_group.keys() == {"calm", "paused", "slow"}
    calm, paused = by_group["calm"], by_group["paused"]
    assert (calm.bad_ms, calm.good_percent, calm.budget_left, calm.alert) == (0, 100.0, 1.0, None)
    assert (paused.partitions, paused.total_ms) == (2, 2 * HOUR_S * 1_000)
    assert paused.bad_ms == 2 * 90_000
    assert paused.good_percent == 97.5
    assert paused.budget_left == -1.5
    # it spent 2.5 times what it may in this hour, and nothing in the last minutes; no other hour is known
    assert (paused.burn_1h, paused.burn_5m, paused.alert) == (2.5, 0.0, None)
    assert paused.burn_6h == round(2.5 / 6, 3)
    # 60 s are usual there
    assert by_group["slow"].bad_ms == 0


def test_what_stands_still_at_the_end_counts_and_pages(tmp_path: Path) -> None:
    with LogWriter(tmp_path / "log", 0) as log:
        write(log, "stopped", HOUR_S, (2_000, HOUR_S + 1))
        write(log, "calm", HOUR_S)
    stopped = found(tmp_path, Objective("*", 99.0))["stopped"]
    assert stopped.late == 2
    assert stopped.bad_ms == 2 * (1_600 - 30) * 1_000
    assert stopped.burn_5m == 100.0
    assert stopped.alert == PAGE


def test_a_group_that_has_left_is_not_late(tmp_path: Path) -> None:
    with LogWriter(tmp_path / "log", 0) as log:
        write(log, "nightly", 600)
        now = START_MS + 605_000
        log.append(now, generation("nightly", 2, {}, ts_ms=now))
        write(log, "calm", HOUR_S)
    nightly = found(tmp_path, Objective("*", 99.0))["nightly"]
    assert (nightly.late, nightly.bad_ms, nightly.total_ms) == (0, 0, 2 * 600_000)


@pytest.mark.parametrize(
    ("percent", "pause_s", "alert"),
    # of a month, two percent of the budget in an hour is 14.4 times as fast as allowed
    [(99.0, 600, PAGE), (97.0, 600, None), (90.0, 600, None), (99.9, 200, PAGE)],
)
def test_a_page_needs_a_fast_burn_in_both_windows(
    percent: float, pause_s: int, alert: str | None, tmp_path: Path
) -> None:
    end_s = 8 * HOUR_S
    with LogWriter(tmp_path / "log", 0) as log:
        write(log, "g", end_s, (end_s - pause_s - 10, end_s - 10))
    found_ = found(tmp_path, Objective("g", percent))["g"]
    assert found_.alert == alert, found_


def test_a_slow_burn_is_a_ticket(tmp_path: Path) -> None:
    pauses = [(at, at + 60) for at in range(0, 24 * HOUR_S, 2_000)]
    with LogWriter(tmp_path / "log", 0) as log:
        write(log, "g", 24 * HOUR_S, *pauses)
    # half a minute in half an hour is 1.5 %
    (budget,) = found(tmp_path, Objective("g", 99.7)).values()
    assert budget.alert == TICKET, budget
    assert budget.burn_6h is not None
    assert 4 < budget.burn_6h < 6


def test_following_has_the_budgets_of_one_run(tmp_path: Path) -> None:
    with LogWriter(tmp_path / "log", 0, batch_records=20) as log:
        write(log, "paused", HOUR_S, (600, 720), (1_800, 2_200))
        write(log, "stopped", HOUR_S, (2_000, HOUR_S + 1))
    options = Options(assignors=(), slos=(Objective("*", 99.0, period_ms=DAY_MS),))
    local.run(segment_tasks(str(tmp_path / "log")), str(tmp_path / "out"), options)
    updater = Updater(str(tmp_path / "followed"), "the log", options, buckets=2)
    follow(updater, pieces(raw_of(tmp_path / "log"), 6, seed=4))
    updater.close()
    assert digests(tmp_path / "followed") == digests(tmp_path / "out")
    assert digests(tmp_path / "out")["slo"][0] == 2


def test_objectives_are_read_from_toml(tmp_path: Path) -> None:
    file = tmp_path / "slo.toml"
    file.write_text(
        '[[slo]]\ngroups = "pay-*"\npercent = 99.5\n'
        '[[slo]]\ngroups = "*"\npercent = 95\nwithin = 300\ndays = 7\n'
    )
    assert read_objectives(str(file)) == (
        Objective("pay-*", 99.5, 30_000, 30 * DAY_MS),
        Objective("*", 95.0, 300_000, 7 * DAY_MS),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "declares no objective"),
        ("[[slo]]\npercent = 99", "needs groups"),
        ('[[slo]]\ngroups = "*"', "percent of slo '\\*' must be a number from 1 to 99.9999"),
        ('[[slo]]\ngroups = "*"\npercent = 100', "from 1 to 99.9999, not 100"),
        ('[[slo]]\ngroups = "*"\npercent = true', "not True"),
        ('[[slo]]\ngroups = "*"\npercent = 99\nwithin = 1', "within .* from 10 to 86400"),
        ('[[slo]]\ngroups = "*"\npercent = 99\nday = 7', "did you mean days"),
        ("slo = 7", r"tables \[\[slo\]\]"),
        ("[[slo", "is not TOML"),
    ],
)
def test_a_file_that_declares_something_else_is_refused(
    text: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "slo.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_objectives(str(file))
