"""Holds what the page makes of Connect's statuses, standbys and assignments."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from groupsdk.admin.cluster import ClusterClient
from groupsdk.admin.descriptions import (
    Assignment,
    GroupDescription,
    GroupType,
    Member,
    Subscription,
)
from groupsdk.admin.groups import describe_group
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.web.connect_tasks import FollowedGroup, GroupStatuses, ShownTask, TaskHistory
from groupsdk.wire.connect_protocol import ConnectorTaskId
from tests.connect.workers import app, eventually


def task(state: str, owner: str = "", **more: Any) -> ShownTask:
    fields: dict[str, Any] = {"group_id": "g", "connector": "logs", "task": 0, "worker": owner}
    return ShownTask(**{**fields, **more}, state=state, owner=owner)


def texts(history: TaskHistory) -> list[str]:
    return [each["text"] for each in history.events]


def test_moves_restarts_and_failures_are_told_with_how_long_they_took() -> None:
    history = TaskHistory()
    failed = "Traceback\n  ...\nValueError: no"
    for at_ms, seen in (
        (0, task("RUNNING", "a")),
        (1_000, task("UNASSIGNED", worker="a")),
        (2_500, task("RUNNING", "b")),
        (3_000, task("RESTARTING", "b", trace=failed)),
        (3_500, task("RUNNING", "b")),
        (4_000, task("FAILED", "b", trace=failed)),
        (5_000, task("FAILED", "b", trace=failed)),
        (6_000, task("PAUSED", "b")),
        (7_000, task("UNASSIGNED", worker="b")),
        (8_000, task("RUNNING", "b")),
        (9_000, task("RUNNING", "c")),
    ):
        history.observe(at_ms, "g", [seen])
    assert texts(history) == [
        "logs-0 is given up by a",
        "logs-0 moved from a to b after 1.5 s",
        "logs-0 raised and starts again: ValueError: no",
        "logs-0 is running, was restarting",
        "logs-0 failed: ValueError: no",
        "logs-0 is paused, was failed",
        "logs-0 is given up by b",
        "logs-0 is back on b after 1.0 s",
        "logs-0 moved from b to c",
    ]
    assert history.restarts(task("RUNNING")) == 1
    history.observe(10_000, "g", [])
    assert texts(history)[-1] == "logs-0 is gone"
    assert history.restarts(task("RUNNING")) == 0


def test_initial_tasks_and_renamed_workers_are_no_news() -> None:
    history = TaskHistory()
    history.observe(0, "g", [task("RUNNING", "m-1", worker="client")])
    history.observe(1, "g", [task("RUNNING", "m-1", worker="host:8083")])
    assert texts(history) == []
    history.observe(2, "g", [task("RUNNING", "m-1"), task("UNASSIGNED", task=1)])
    assert texts(history) == ["logs-1 is new"]


def said(*records: tuple[str, object | None]) -> GroupStatuses:
    found = GroupStatuses()
    for key, value in records:
        found.apply(key.encode(), None if value is None else json.dumps(value).encode())
    return found


def test_statuses_are_those_of_the_newest_generation() -> None:
    def status(state: str, generation: object) -> Mapping[str, object]:
        return {"state": state, "worker_id": "w", "generation": generation}

    found = said(
        ("status-task-a-0", status("RUNNING", 2)),
        ("status-task-a-0", status("UNASSIGNED", 1)),
        ("status-task-a-1", {"schema": {}, "payload": status("FAILED", 1)}),
        ("status-task-a-2", status("RUNNING", 1)),
        ("status-task-a-2", None),
        ("status-task-a-3", status("RUNNING", "one")),
        ("status-topic-t:connector-a", {"topic": {}}),
        ("groupsdk-standbys", {"generation": 1, "members": ["m"], "tasks": {"a": {"0": [7]}}}),
        ("groupsdk-standbys", {"generation": 3, "members": ["m"], "tasks": {"a": {"0": [0]}}}),
        ("groupsdk-standbys", {"generation": 2, "members": [], "tasks": {}}),
        ("groupsdk-standbys", ["none"]),
    )
    found.apply(b"status-task-a-0", b"{")
    found.apply(None, b"{}")
    assert {key: value["state"] for key, value in found.statuses.items()} == {
        "status-task-a-0": "RUNNING",
        "status-task-a-1": "FAILED",
    }
    assert found.standbys == {ConnectorTaskId("a", 0): ("m",)}


def test_task_owners_are_kept_while_the_group_rebalances() -> None:
    worker = Member(
        "m-1",
        "c",
        "/h",
        subscription=Subscription(url="http://[::1"),
        assignment=Assignment(connectors=("a",), tasks=("a-b-10", "a-b-9")),
    )
    stable = GroupDescription(
        "g", GroupType.CLASSIC, "Stable", "connect", "sessioned", 1, (worker,)
    )
    followed = FollowedGroup("g")
    expected = [("a", "m-1"), ("a-b-9", "m-1"), ("a-b-10", "m-1")]
    assert [(each.name, each.owner) for each in followed.tasks(stable)] == expected
    joining = replace(worker, subscription=Subscription(), assignment=Assignment())
    rebalancing = replace(stable, state="PreparingRebalance", members=(joining,))
    found = followed.tasks(rebalancing)
    assert [(each.name, each.owner) for each in found] == expected
    assert {each.worker for each in found} == {"[::1"}
    assert followed.tasks(replace(stable, state="Empty", members=())) == []


def test_a_groups_status_topic_is_read_as_it_grows() -> None:
    async def look(servers: str, followed: FollowedGroup) -> list[ShownTask]:
        async with ClusterClient({"bootstrap.servers": servers}) as client:
            await followed.read(client)
            return followed.tasks(await describe_group(client, "g"))

    with EmbeddedBroker() as broker:
        servers = broker.bootstrap_servers
        worker = app(task_restart_max=0).start(
            {"group.id": "g", "bootstrap.servers": servers}, worker_id="w:1"
        )
        followed, never = FollowedGroup("g"), FollowedGroup("other")
        try:
            config = {"connector.class": "Failing"}
            worker.admin.put_connector("f", config).result(60)

            def failed() -> list[ShownTask]:
                found = asyncio.run(look(servers, followed))
                return [each for each in found if each.state == "FAILED"]

            (shown,) = eventually(failed)
            assert (shown.name, shown.owner) == ("f-0", worker.member_id)
            assert "this one always fails" in (shown.trace or "")
            assert asyncio.run(look(servers, never))[0].state == "ASSIGNED"
            worker.admin.delete_connector("f").result(60)
            eventually(lambda: asyncio.run(look(servers, followed)) == [])
        finally:
            worker.stop()
