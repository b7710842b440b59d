"""Judge a group: all rules over one observation. Pure."""

from collections.abc import Mapping
from typing import Final

from groupsdk.verdict.observation import Observation, Thresholds
from groupsdk.verdict.rules import cluster, lag, members, unrest
from groupsdk.verdict.rules.rule import Rule
from groupsdk.verdict.values import Finding, GroupVerdict


RULES: Final[Mapping[str, Rule]] = {
    each.name: each for each in (*lag.RULES, *members.RULES, *unrest.RULES, *cluster.RULES)
}
"""All rules by name."""
_DEFAULTS: Final = Thresholds()


def judge(observation: Observation, thresholds: Thresholds = _DEFAULTS) -> GroupVerdict:
    """Apply all rules to what is known of a group. The most severe findings come first, of equals the surer ones."""
    found = [
        Finding(rule.name, each.severity, observation.group_id, *each[1:])
        for rule in RULES.values()
        for each in rule.check(observation, thresholds)
    ]
    found.sort(key=lambda each: (-each.severity.rank, -each.confidence))
    return GroupVerdict(observation.group_id, observation.at_ms, tuple(found))
