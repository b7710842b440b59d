"""Checks the values of a verdict."""

from groupsdk.verdict import Finding, GroupVerdict, Severity


def test_severities_rank_from_ok_to_critical() -> None:
    assert sorted(Severity, key=lambda each: each.rank) == [
        *(Severity.OK, Severity.NOTICE, Severity.WARNING, Severity.CRITICAL)
    ]


def test_a_verdict_is_as_severe_as_its_first_finding() -> None:
    finding = Finding("growing_lag", Severity.WARNING, "g", "saw", "cost", "change", 0.8)

    assert GroupVerdict("g", 0, (finding,)).severity is Severity.WARNING
    assert GroupVerdict("g", 0).severity is Severity.OK
