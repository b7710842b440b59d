"""Holds the state that pages are sent to the views that it is made of."""

import asyncio
import json
from typing import Any

from groupsdk.admin.descriptions import (
    Assignment,
    GroupDescription,
    GroupType,
    Member,
    PartitionLag,
    Subscription,
)
from groupsdk.admin.watching import ClusterView, Rebalance, WatchedGroup
from groupsdk.assignment import TopicPartition
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.web.connect_tasks import FollowedGroup
from groupsdk.web.page import ClusterPage, PageState
from groupsdk.web.sections import Sections
from tests.cli.peers import own_protocol
from tests.support.proxy import FaultProxy


def view_of(
    at_ms: int, *groups: WatchedGroup, rebalances: tuple[Rebalance, ...] = ()
) -> ClusterView:
    return ClusterView(at_ms, groups, rebalances, seen_ms=at_ms)


def watched(name: str, *members: Member, lag: int = 0, kind: str = "consumer") -> WatchedGroup:
    described = GroupDescription(name, GroupType.CLASSIC, "Stable", kind, "range", 1, members)
    return WatchedGroup(described, 1, (PartitionLag("t", 0, 0, lag),))


def values(sections: Sections) -> dict[str, dict[str, Any]]:
    return {
        name: {key: json.loads(text) for key, text in section.items()}
        for name, section in sections.items()
    }


def test_lag_changes_without_a_change_of_rows() -> None:
    state = PageState()
    state.take(view_of(1_000, watched("a", lag=3), watched("b", lag=1)), {})
    before = state.overview()
    state.take(view_of(2_000, watched("a", lag=4), watched("b", lag=1)), {})
    after = state.overview()
    assert values(after)["lags"] == {"a": 4, "b": 1}
    assert after["groups"]["b"] is before["groups"]["b"]
    assert values(after)["groups"]["b"]["members"] == 0
    assert values(state.row("a"))["lags"] == {"a": 4}
    assert values(state.row("none")) == {"groups": {}, "lags": {}}
    assert json.loads(state.trends()["a"]) == [4]
    assert list(state.trends("b")) == ["b"]
    assert state.began_ms == 1_000


def test_rebalance_that_goes_on_is_replaced_by_its_end() -> None:
    state = PageState()
    running = Rebalance(group_id="a", began_ms=900)
    state.take(view_of(1_000, watched("a"), rebalances=(running,)), {})
    assert values(state.detail("a"))["rebalances"]["900"]["length_ms"] is None
    done = Rebalance(group_id="a", began_ms=900, ended_ms=1_500)
    state.take(ClusterView(2_000, (watched("a"),), (done,), seen_ms=2_000, just_ended=(done,)), {})
    assert values(state.detail("a"))["rebalances"]["900"]["length_ms"] == 600


def test_tasks_of_connects_workers_with_the_changes_among_them() -> None:
    worker = Member(
        "w",
        "worker-1",
        "/127.0.0.1",
        subscription=Subscription(url="http://w:8083/"),
        assignment=Assignment(connectors=("logs",), tasks=("logs-0", "logs-1")),
    )
    group = watched("g", worker, kind="connect")
    tasks = FollowedGroup("g").tasks(group.description)
    state = PageState()
    state.take(view_of(1_500, group), {"g": tasks})
    state.take(view_of(2_500, group), {"g": tasks[:2]})
    detail = values(state.detail("g"))
    assert list(detail["tasks"]) == ["logs", "logs-0"]
    assert detail["tasks"]["logs-0"]["worker"] == "w:8083"
    assert [each["text"] for each in detail["changes"].values()] == ["logs-1 is gone"]


def test_group_that_is_gone_has_empty_sections() -> None:
    state = PageState()
    state.take(view_of(1_000, watched("a", Member("m", "c", "/h"))), {})
    assert values(state.detail("a"))["members"]["m"]["client_id"] == "c"
    state.take(view_of(2_000), {})
    assert set(map(len, state.detail("a").values())) == {0}


def test_groups_are_found_by_what_they_read() -> None:
    member = Member("m", "c", "/h", assignment=Assignment((TopicPartition("orders", 1),)))
    state = PageState()
    state.take(view_of(1_000, watched("a", member), watched("b")), {})
    assert state.find(["orders"]) == ["a"]


def test_silent_brokers_are_told_while_the_look_waits_and_figures_keep_their_time() -> None:
    async def followed(page: ClusterPage, proxy: FaultProxy) -> tuple[ClusterView, ...]:
        async def until(condition: Any) -> ClusterView:
            version = -1
            while not condition(page.view):
                version = await page.wait(version, 60)
            return page.view

        following = asyncio.ensure_future(page.follow())
        try:
            seen = await until(lambda view: view.groups)
            proxy.black_hole()
            silent = await until(lambda view: view.asking_since_ms is not None)
            look = values(await page.sections(None, first=False))["look"]
            assert look["asking_since_ms"] <= look["now_ms"]
            assert look["seen_ms"] == silent.seen_ms
            proxy.black_hole(silent=False)
            proxy.disconnect()
            again = await until(
                lambda view: view.asking_since_ms is None and view.seen_ms > silent.seen_ms
            )
        finally:
            following.cancel()
        return seen, silent, again

    with (
        EmbeddedBroker() as broker,
        FaultProxy() as proxy,
        own_protocol(broker.bootstrap_servers, "g"),
    ):
        proxy.connect_to(broker.bootstrap_servers)
        page = ClusterPage({"bootstrap.servers": proxy.bootstrap_servers}, interval_s=0.02)
        seen, silent, again = asyncio.run(followed(page, proxy))
    assert silent.groups == seen.groups == again.groups
    assert silent.error is None
