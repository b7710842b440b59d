"""Checks that a verdict has the findings of all rules, the worst first."""

from docs import list_rules
from groupsdk.verdict import RULES, Severity, judge
from tests.support.observed_groups import group, member, seen


def test_a_healthy_group_has_no_finding() -> None:
    verdict = judge(seen(group(member("a", [0, 1]), member("b", [2])), {0: 3, 1: 0, 2: 1}))

    assert verdict.findings == ()
    assert verdict.severity is Severity.OK


def test_findings_come_with_the_worst_first() -> None:
    idle = member("c", [])
    sick = group(member("a", [0, 1, 2, 3]), member("b", []), idle, member("d"), member("e"))

    verdict = judge(seen(sick, {0: 0}, partitions={"orders": 5}))

    found = [(each.rule, each.severity) for each in verdict.findings]
    assert found == [
        ("unread_partitions", Severity.CRITICAL),
        ("unbalanced", Severity.WARNING),
        ("spare_members", Severity.NOTICE),
    ]
    assert {each.group for each in verdict.findings} == {"g"}


def test_the_page_has_the_rules_of_the_code() -> None:
    for path, text in list_rules.pages().items():
        assert path.read_text(encoding="utf-8") == text, "run python -m docs.list_rules"


def test_each_rule_says_what_it_sees_costs_and_advises() -> None:
    for name, rule in RULES.items():
        assert name == rule.name
        assert all((rule.sees, rule.costs, rule.advises))
