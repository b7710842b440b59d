"""Run Kafka Connect's distributed worker and ours in one group: each takes the other's signed requests (KIP-507)."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.connect import ConnectWorker
from groupsdk.connect.rest.api import RestServer
from groupsdk.connect.rest.session_key import SessionKey, SessionKeySettings
from groupsdk.connect.store.config_backing_store import connector_records
from groupsdk.connect.store.status_backing_store import TopicUse
from groupsdk.http.settings import HttpSettings
from groupsdk.testing.ports import ReservedPorts
from tests.clients.test_connect import Worker as JavaWorker, worker as java_worker
from tests.connect.workers import app, eventually
from tests.support.topics import read_records


pytestmark = [pytest.mark.timeout(240), pytest.mark.usefixtures("kafka_installed")]
_START_S = 90.0


def settings_of(group: str) -> dict[str, str]:
    """What both kinds of workers of a group are told."""
    return {
        "group_id": group,
        "config_storage_topic": f"{group}-configs",
        "offset_storage_topic": f"{group}-offsets",
        "status_storage_topic": f"{group}-status",
    }


@contextmanager
def our_worker(broker: EmbeddedBroker, group: str) -> Iterator[ConnectWorker]:
    """A worker of ours, which answers to HTTP."""
    with ReservedPorts(1) as reserved:
        settings = HttpSettings(port=reserved.ports[0])
        worker = app(bootstrap_servers=broker.bootstrap_servers, **settings_of(group)).start(
            url=settings.url
        )
        server = RestServer(worker, settings)
        server.start()
        try:
            yield worker
        finally:
            server.stop()
            assert worker.stop(60)


def ask(worker: JavaWorker, method: str, path: str, body: bytes, headers: dict[str, str]) -> int:
    """The status that a worker of Kafka's answers."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{worker.port}{path}",
        body,
        {"Content-Type": "application/json", **headers},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return int(error.code)


def test_kafkas_leader_takes_what_is_signed_with_its_key(
    broker: EmbeddedBroker, group_id: str, tmp_path: Path
) -> None:
    with java_worker(broker, tmp_path, **settings_of(group_id)) as java:
        eventually(lambda: java.ask("/connectors") == [], java.said, _START_S)
        with our_worker(broker, group_id) as ours:
            eventually(lambda: ours.leader_url == f"http://127.0.0.1:{java.port}/", java.said)
            assert ours.admin.protocol == "sessioned"
            key = eventually(lambda: ours.admin.configs().session_key)
            body = json.dumps([{"file": "x"}]).encode()
            signed = SessionKeySettings().headers(key, body)
            other = SessionKeySettings().headers(SessionKey(b"x" * 32, "HmacSHA256", 0), body)
            path = "/connectors/none/tasks"
            # 404: the signature is right, and there is no such connector
            assert ask(java, "POST", path, body, signed) == 404
            assert ask(java, "POST", path, body, other) == 403
            assert ask(java, "POST", path, body, {}) == 400


def test_kafkas_follower_hands_its_tasks_to_our_leader_and_runs_them(
    broker: EmbeddedBroker, group_id: str, tmp_path: Path
) -> None:
    source, topic = tmp_path / "source.txt", f"{group_id[-8:]}-lines"
    source.write_text("one\ntwo\n")
    broker.create_topic(topic, 1)
    config = {
        "name": "source",
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "file": str(source),
        "topic": topic,
        "tasks.max": "1",
    }
    with our_worker(broker, group_id) as ours:
        eventually(lambda: ours.is_leader and ours.admin.configs().session_key)
        with java_worker(broker, tmp_path, **settings_of(group_id)) as java:
            eventually(
                lambda: len(broker.groups[group_id].members) == 2, java.said, timeout_s=_START_S
            )
            eventually(lambda: ours.leader_url is not None)
            # a class of Kafka's, which our own interface refuses; whoever runs it plans its tasks
            ours.requests.put(
                lambda: ours._leader.write(connector_records("source", config))
            ).result(60)
            eventually(lambda: len(ours.admin.configs().task_ids("source")) == 1, java.said)
            (task,) = ours.admin.configs().task_configs.values()
            assert task["task.class"] == "org.apache.kafka.connect.file.FileStreamSourceTask"
            # exactly-once source tasks have their former producers fenced by the leader before they start
            eventually(lambda: ours.admin.configs().fenced_tasks == {"source": 1}, java.said)
            task_path = "/connectors/source/tasks/0/status"
            eventually(lambda: java.until(task_path)["state"] == "RUNNING", java.said)
            assert java.until(task_path)["worker_id"] == f"127.0.0.1:{java.port}"
            found = read_records(broker.bootstrap_servers, topic, 2)
            assert [each.value() for each in found] == [b"one", b"two"]
            # each kind reads which topics the other's tasks use (KIP-558)
            eventually(lambda: list(ours.admin.topics("source")) == [topic], java.said)
            ours._store.put_topic(TopicUse("of-ours", "source", 0, 1))

            def told() -> bool:
                said = java.ask("/connectors/source/topics")
                return bool(said) and set(said["source"]["topics"]) == {topic, "of-ours"}

            eventually(told, java.said)
            ours.admin.forget_topics("source")
            eventually(
                lambda: "of-ours" not in java.until("/connectors/source/topics")["source"]["topics"]
            )
