"""The values of a verdict: findings with their severities."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is; compare by `rank`."""

    OK = "ok"
    """Nothing was found: the severity of a group without findings, never of a finding."""
    NOTICE = "notice"
    """Something is wasted, or will matter later."""
    WARNING = "warning"
    """Records are late, or work is repeated."""
    CRITICAL = "critical"
    """Records are not read, or will be lost to the group."""

    @property
    def rank(self) -> int:
        """From 0 for OK to 3 for CRITICAL."""
        return _RANKS[self]


_RANKS = {each: rank for rank, each in enumerate(Severity)}


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule that applies to a group; the sentences are for people."""

    rule: str
    """The name of the rule, a key of `groupsdk.verdict.RULES`."""
    severity: Severity
    group: str
    saw: str
    """The evidence, with its figures."""
    cost: str
    """The consequence if nothing is changed."""
    change: str
    """The remedy: a setting, a command or an action; several, if the evidence allows several causes."""
    confidence: float
    """From 0 to 1: the probability that the finding is right."""


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """All findings about one group, the most severe first."""

    group: str
    at_ms: int
    """When the group was observed, in milliseconds since 1970."""
    findings: tuple[Finding, ...] = ()

    @property
    def severity(self) -> Severity:
        """The severity of the first finding; OK if there are none."""
        return self.findings[0].severity if self.findings else Severity.OK
