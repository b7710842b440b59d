"""Tests the options of the live page."""

from types import SimpleNamespace
from typing import Any

import pytest

from groupsdk.admin.descriptions import GroupDescription, GroupType, PartitionLag
from groupsdk.admin.watching import ClusterView, WatchedGroup
from groupsdk.cli.command import ExitCode
from groupsdk.cli.page import page_families
from groupsdk.verdict import KnownLog
from groupsdk.web.page import PageState
from tests.cli.conftest import Run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["127.0.0.1"], "--web must be HOST:PORT, such as 127.0.0.1:8080, not '127.0.0.1'"),
        (["127.0.0.1:99999"], "--web must be HOST:PORT"),
        (["0.0.0.0:8080"], "0.0.0.0 can be reached by others: give --web-user"),
        (["127.0.0.1:0", "--web-user", "a"], "give both --web-user and GROUPSDK_WEB_PASSWORD"),
        (["127.0.0.1:0"], "bootstrap.servers is missing"),
    ],
)
def test_a_page_that_cannot_be_served_is_said(run: Run, words: list[str], said: str) -> None:
    failed = run("watch", "--web", *words, code=ExitCode.WRONG_USE)
    assert said in failed.err


def test_metrics_have_the_findings_of_the_page() -> None:
    left = WatchedGroup(
        GroupDescription("g", GroupType.CLASSIC, "Empty", "consumer", "", 1),
        0,
        (PartitionLag("t", 0, 0, 700),),
    )
    state = PageState()
    views = [ClusterView(at_ms, (left,)) for at_ms in (0, 61_000)]
    for each in views:
        state.take(each, {})
    page: Any = SimpleNamespace(known_log=KnownLog(), view=views[-1], verdicts=state.verdicts)

    families = {each.name: each for each in page_families(page)}

    assert families["groupsdk_group_lag"].samples[0][1] == 700
    assert [labels for labels, _ in families["groupsdk_group_finding"].samples] == [
        {"group": "g", "rule": "lag_without_members", "severity": "critical"}
    ]
