"""Holds the alert rules to the metrics that are exported, and to Prometheus' own checks."""

import re
from pathlib import Path
from typing import Any, Final

import yaml

from groupsdk.verdict import Severity
from tests.examples.process import ROOT
from tests.support.promtool import promtool
from tests.telemetry.test_dashboard import exported_names


_ALERTS: Final = ROOT / "docs/prometheus-alerts.yaml"
_FIRES: Final = """
rule_files: [{rules}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'groupsdk_group_finding{{group="a", rule="lag_without_members", severity="critical"}}'
        values: '1x100'
      - series: 'groupsdk_group_finding{{group="b", rule="spare_members", severity="notice"}}'
        values: '1x100'
      - series: 'groupsdk_group_lag{{group="night", topic="t", partition="0"}}'
        values: '5x100'
      - series: 'groupsdk_group_members{{group="night"}}'
        values: '0x100'
      - series: 'groupsdk_group_lag{{group="late", topic="t", partition="0"}}'
        values: '0+1000x100'
      - series: 'groupsdk_group_members{{group="late"}}'
        values: '2x100'
      - series: 'groupsdk_group_rebalances_total{{group="storm"}}'
        values: '0+2x100'
      - series: 'groupsdk_cluster_reached{{instance="i"}}'
        values: '1x50 0x50'
      - series: 'groupsdk_cluster_age_seconds{{instance="i"}}'
        values: '1x100'
      - series: 'groupsdk_group_log_read{{instance="i"}}'
        values: '0x100'
      - series: 'groupsdk_member_stable{{group="g", instance="i"}}'
        values: '0x100'
    alert_rule_test:
      - {{alertname: GroupCritical, eval_time: 5m, exp_alerts: [{{exp_labels: {{group: a, rule: lag_without_members, severity: critical}},
          exp_annotations: {{summary: "group a: lag_without_members", description: "Records are not read, or will be lost to the group. groupsdk doctor --group a tells what to change."}}}}]}}
      - {{alertname: GroupWarning, eval_time: 90m, exp_alerts: []}}
      - {{alertname: GroupLagWithoutMembers, eval_time: 30m, exp_alerts: []}}
      - {{alertname: GroupsNotSeen, eval_time: 30m, exp_alerts: []}}
      - {{alertname: MemberFailsToRebalance, eval_time: 90m, exp_alerts: []}}
    promql_expr_test:
      - {{expr: 'count by (alertname) (ALERTS{{alertstate="firing"}})', eval_time: 95m, exp_samples: [
          {{labels: '{{alertname="GroupCritical"}}', value: 1}},
          {{labels: '{{alertname="GroupLagWithoutMembers"}}', value: 1}},
          {{labels: '{{alertname="GroupLagGrows"}}', value: 1}},
          {{labels: '{{alertname="GroupRebalancesOften"}}', value: 1}},
          {{labels: '{{alertname="GroupsNotSeen"}}', value: 1}},
          {{labels: '{{alertname="GroupLogNotRead"}}', value: 1}},
          {{labels: '{{alertname="MemberNotStable"}}', value: 1}}]}}
"""


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(_ALERTS.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_the_alerts_ask_for_metrics_that_are_exported() -> None:
    rules = alerts()
    asked = {name for each in rules for name in re.findall(r"groupsdk_\w+", each["expr"])}
    assert asked <= exported_names()
    assert len({each["alert"] for each in rules}) == len(rules)


def test_each_alert_has_a_severity_and_says_what_it_is() -> None:
    for each in alerts():
        assert each["labels"]["severity"] in {Severity.WARNING.value, Severity.CRITICAL.value}
        assert each["annotations"].keys() == {"summary", "description"}


def test_promtool_accepts_the_rules() -> None:
    assert "SUCCESS" in promtool("check", "rules", str(_ALERTS))


def test_the_alerts_fire_for_what_they_are_for_and_not_before(tmp_path: Path) -> None:
    cases = tmp_path / "cases.yaml"
    cases.write_text(_FIRES.format(rules=_ALERTS))
    assert "SUCCESS" in promtool("test", "rules", str(cases))
