"""Make up what a small report shows."""

from datetime import UTC, datetime, timedelta

from groupsdk.history.report.costs import NO_REBALANCE, CausePart, ClockBar
from groupsdk.history.report.data import (
    AdviceLine,
    GenerationMark,
    GroupLine,
    GroupPage,
    MembershipBar,
    OwnershipSpan,
    ReportData,
    StormLine,
    WhatIf,
)
from groupsdk.history.slo import Budget


START = datetime(2026, 10, 2, tzinfo=UTC)
NAME = "<b>g</b> $x_1$"


def at(seconds: float) -> datetime:
    """Return a time of the report."""
    return START + timedelta(seconds=seconds)


END = at(3600)
PARTS = (
    CausePart("join", 2, 2, 6_000, 6_000),
    CausePart("something new", 1, 0, 1_250, 0),
    CausePart(NO_REBALANCE, 0, 0, 1_000, 1_000),
)


def small_page() -> GroupPage:
    """Make up one group: two clients, three generations, four stays."""
    causes = ("join", "expiry", "something new")
    marks = [
        GenerationMark(n, n + 1, at(600 + 30 * n), causes[n], "log", 0.9, "", 2, n, None, n == 1)
        for n in range(3)
    ]
    ownership = [
        OwnershipSpan("t-0", "client-1", at(600), at(630), 1.0),
        OwnershipSpan("t-0", "client-2", at(630), END, 1.0),
        OwnershipSpan("t-10", "client-1", at(600), END, 1.0),
    ]
    stays = [
        MembershipBar("client-1", "m-1", at(600), at(630), "expiry"),
        MembershipBar("client-1", "m-2", at(640), at(650), "group_deleted"),
        MembershipBar("client-2", "m-3", at(600), None, ""),
        MembershipBar("client-2", "m-4", at(610), at(610), "leave"),
    ]
    what_if = [
        WhatIf("sticky", 3, 17, 20, 0.25, 1, 0, 1),
        WhatIf("actual", 3, 40, 80, 0.5, 2, 0, 2),
        WhatIf("broken", 3, 0, 0, None, None, 3, 3),
    ]
    return GroupPage(NAME, "classic", marks, ownership, False, stays, 0, what_if, END)


def small_report() -> ReportData:
    """Make up a whole report."""
    return ReportData(
        start=START,
        end=END,
        overview=[GroupLine(NAME, "classic", 3, 1.0, 1234, 1, "join", 8_250, PARTS)],
        n_groups=1,
        n_generations=3,
        n_commits=4321,
        causes_by_time=[(at(600), "join", 2, 2), (at(660), "something new", 1, 0)],
        bucket="minute",
        coordinator_changes=[at(630)],
        gaps=[("join", 2, 100, 200, 8_250)],
        lag=[(NAME, "lower_bound", 1, 2, 4321)],
        storms=[StormLine(NAME, at(600), at(660), 3, 5, "join 3", "client-1", 8_250)],
        advice=[
            AdviceLine(
                NAME,
                "static_membership",
                "group.instance.id=x",
                pays=True,
                rebalances=2,
                moves=5,
                revoked=0,
                spared_ms=8_250,
                added_ms=1_000,
                late_spared=80,
                late_added=10,
                back=1,
                gone=1,
                of_rebalances=3,
                evidence=[(1, 2), (2, 3)],
                more=4,
            )
        ],
        quality=[(1, 0, 99, 90, 10, 1, 2, "99: 2", 4, START, END)],
        rejects=[("damaged", 3)],
        pages=[small_page()],
        costs=PARTS,
        clock=[ClockBar(NAME, at(600), at(606), "join", 2, 6_000)],
        budgets=[
            Budget(
                *(NAME, 99.5, 30_000, 86_400_000, 2, 1, 7_200_000, 90_000, 98.75, -1.5),
                *(None, 0.0, 2.5, 2.5, 2.5, "page"),
            )
        ],
    )
