"""`groupsdk history fleet`: the histories of many clusters, and what stands still where."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from groupsdk.telemetry.openmetrics import Family, text_format


if TYPE_CHECKING:
    from groupsdk.history.fleet.summary import FleetSummary


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
