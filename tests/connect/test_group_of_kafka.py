"""Looks with the commands and the live page at a group of Kafka Connect's own workers on a real Apache Kafka."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from groupsdk.cli.main import main
from groupsdk.testing import LocalKafka
from groupsdk.web.page import ClusterPage
from tests.clients.test_connect import worker
from tests.connect.workers import eventually


_START_S = 90.0


async def tasks_on_page(servers: str, group_id: str, count: int) -> list[dict[str, Any]]:
    """What the page shows of a group's connectors and tasks, when so many run."""
    page = ClusterPage({"bootstrap.servers": servers}, [group_id], interval_s=0.05)
    following = asyncio.create_task(page.follow())
    try:
        async with asyncio.timeout(_START_S):
            version = -1
            while True:
                version = await page.wait(version, _START_S)
                sections = await page.sections(group_id, first=False)
                tasks: list[dict[str, Any]] = [
                    json.loads(each) for each in sections["tasks"].values()
                ]
                if [each["state"] for each in tasks] == ["RUNNING"] * count:
                    return tasks
    finally:
        following.cancel()


@pytest.mark.timeout(300)
def test_a_group_of_kafkas_workers_is_seen_by_every_command(
    kafka: LocalKafka, group_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*words: str) -> str:
        capsys.readouterr()
        assert main([*words, "--bootstrap-servers", kafka.bootstrap_servers]) == 0
        return capsys.readouterr().out

    settings = {
        "group_id": group_id,
        "config_storage_topic": f"{group_id}-connect-configs",
        "offset_storage_topic": f"{group_id}-connect-offsets",
        "status_storage_topic": f"{group_id}-connect-status",
    }
    names = ("left", "right")
    directories = [tmp_path / name for name in names]
    for directory in directories:
        directory.mkdir()
    with (
        worker(kafka, directories[0], **settings) as first,
        worker(kafka, directories[1], **settings) as second,
    ):
        for name, directory in zip(names, directories, strict=True):
            (directory / "source.txt").write_text("one\n")
            config = {
                "connector.class": "FileStreamSource",
                "file": str(directory / "source.txt"),
                "topic": f"{group_id}-lines",
                "topic.creation.default.partitions": "1",
                "topic.creation.default.replication.factor": "1",
                "tasks.max": "1",
            }
            first.until("/connectors", {"name": name, "config": config})
        eventually(lambda: all(map(first.runs, names)), first.said, _START_S)

        def members() -> Any:
            (described,) = json.loads(said("groups", "describe", group_id, "--json"))
            assert described["protocol_type"] == "connect"
            found = described["members"]
            is_shared = [len(each["assignment"]["tasks"]) for each in found] == [1, 1]
            return found if described["state"] == "Stable" and is_shared else None

        found = eventually(members, second.said, _START_S)
        urls = {f"http://127.0.0.1:{each.port}/" for each in (first, second)}
        assert {each["subscription"]["url"] for each in found} == urls
        tasks = sorted(task for each in found for task in each["assignment"]["tasks"])
        assert tasks == ["left-0", "right-0"]
        connectors = sorted(name for each in found for name in each["assignment"]["connectors"])
        assert connectors == ["left", "right"]
        shown = said("groups", "members", group_id)
        for word in ("left-0", "right-0", *(each["client_id"] for each in found)):
            assert word in shown
        (seen,) = json.loads(said("watch", group_id, "--json", "--count", "1"))["groups"]
        assert seen["assignor"] == "sessioned"
        assert [each["assignment"] for each in seen["members"]] == [
            each["assignment"] for each in found
        ]
        # in statuses workers are called as Kafka calls them, and so they are on the page
        on_page = asyncio.run(tasks_on_page(kafka.bootstrap_servers, group_id, 4))
        for each in on_page:
            status = first.until(f"/connectors/{each['name'].removesuffix('-0')}/status")
            kept = status["tasks"][0] if each["is_task"] else status["connector"]
            assert (each["worker"], each["state"]) == (kept["worker_id"], kept["state"])
