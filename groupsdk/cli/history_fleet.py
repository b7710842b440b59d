"""What `groupsdk history fleet` and `slo` show: what stands still where, and how groups meet their objectives."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from groupsdk.telemetry.openmetrics import Family, text_format


if TYPE_CHECKING:
    from groupsdk.history.fleet.summary import FleetSummary
    from groupsdk.history.slo import Budget


def metrics_text(summary: "FleetSummary") -> str:
    """Return the summary in Prometheus' text format, as the textfile collector of node_exporter reads it."""
    clusters = summary.clusters
    up = tuple(({"cluster": each.run.cluster_id}, float(each.run.is_done)) for each in clusters)
    ends = tuple(
        ({"cluster": each.run.cluster_id}, each.log_end_ms / 1000)
        for each in clusters
        if each.log_end_ms is not None
    )
    return text_format(
        [
            Family("groupsdk_history_read", "gauge", "1 if the cluster's log was read", up),
            Family("groupsdk_history_log_end_seconds", "gauge", "Time of the last record", ends),
            *_standing(summary),
            *slo_families(
                [
                    ({"cluster": each.run.cluster_id}, budget)
                    for each in clusters
                    for budget in each.budgets
                ]
            ),
        ]
    )


def _standing(summary: "FleetSummary") -> Sequence[Family]:
    partitions: dict[tuple[str, str, str], int] = {}
    longest: dict[tuple[str, str, str], float] = {}
    for line in summary.standing:
        place = line.cluster_id, line.what.group_id, line.team
        partitions[place] = partitions.get(place, 0) + len(line.what.partitions)
        longest[place] = max(longest.get(place, 0.0), line.standing_ms / 1000)
    labels = {
        place: {"cluster": place[0], "group": place[1], "team": place[2]} for place in partitions
    }
    return [
        Family(
            "groupsdk_history_standing_partitions",
            "gauge",
            "Partitions of the group that stand still",
            tuple((labels[place], float(count)) for place, count in partitions.items()),
        ),
        Family(
            "groupsdk_history_standing_seconds",
            "gauge",
            "For how long the one has stood still that has for the longest",
            tuple((labels[place], seconds) for place, seconds in longest.items()),
        ),
    ]


_SLO: Final = "groupsdk_history_slo_"
_SLO_GAUGES: Final = {
    "objective_ratio": "The share that is to be read in time",
    "good_ratio": "The share of partition-seconds that was read in time",
    "budget_left_ratio": "The part of the error budget that is left",
    "late_partitions": "Partitions that stand still",
}
SLO_COLUMNS: Final = (
    *("group", "objective", "good %", "budget left", "burn 1h", "burn 6h", "burn 3d"),
    *("late now", "alert"),
)


def slo_rows(found: Iterable["Budget"]) -> list[tuple[Any, ...]]:
    """Return a row of text for each group, in the order of `SLO_COLUMNS`."""
    return [
        (
            each.group_id,
            f"{each.percent:g} % within {each.within_ms / 1_000:g} s",
            f"{each.good_percent:.3f}",
            f"{each.budget_left:.0%}",
            *(
                "" if rate is None else f"{rate:.1f}"
                for rate in (each.burn_1h, each.burn_6h, each.burn_3d)
            ),
            each.late,
            each.alert,
        )
        for each in found
    ]


def slo_families(found: Sequence[tuple[Mapping[str, str], "Budget"]]) -> list[Family]:
    """Return gauges of each group's objective; each budget comes with labels of its own, as of its cluster."""
    labels = [{**own, "group": each.group_id} for own, each in found]

    values = [
        (each.percent / 100, each.good_percent / 100, each.budget_left, float(each.late))
        for _, each in found
    ]
    burns = tuple(
        ({**own, "window": window}, rate)
        for own, (_, each) in zip(labels, found, strict=True)
        for window, rate in each.burns.items()
        if rate is not None
    )
    gauges = [
        Family(_SLO + name, "gauge", text, tuple(zip(labels, column, strict=True)))
        for (name, text), column in zip(
            _SLO_GAUGES.items(), zip(*values, strict=True), strict=False
        )
    ]
    text = "How many times as fast as allowed the error budget is spent"
    return [*gauges, Family(f"{_SLO}burn_rate", "gauge", text, burns)]
