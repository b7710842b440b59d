"""Holds what workers ask of each other: signed with the group's key, and refused as Kafka Connect refuses."""

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaException, Producer
from starlette.requests import Request
from typing_extensions import override

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.connect.connectors.admin import ConnectorAdmin
from groupsdk.connect.errors import RequestSignatureError
from groupsdk.connect.rest.api import RestServer
from groupsdk.connect.rest.forwarding import InternalRequests
from groupsdk.connect.rest.session_key import SessionKeySettings
from groupsdk.connect.store.config_backing_store import connector_records
from groupsdk.connect.worker import ConnectWorker
from groupsdk.http.settings import HttpSettings
from tests.connect.rest.test_api import Client, served
from tests.connect.workers import app, eventually, standalone


CONFIG = {"connector.class": "Counting", "count": "1"}
TASKS = json.dumps([{"task.id": "t7"}, {"task.id": "t8"}]).encode()


class Patient(Client):
    """Asks again where the answer is that the group rebalances."""

    @override
    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        ask = super().__call__

        def accepted() -> tuple[int, Any] | None:
            answer = ask(method, path, body, **headers)
            return None if answer[0] == 409 else answer

        return cast(tuple[int, Any], eventually(accepted))


@contextmanager
def answering(
    broker: EmbeddedBroker, group: str, settings: HttpSettings | None = None, **more: Any
) -> Iterator[tuple[ConnectWorker, Client]]:
    """A worker that leads a group and answers."""
    worker = app().start({"group.id": group, "bootstrap.servers": broker.bootstrap_servers}, **more)
    try:
        with RestServer(worker, settings or HttpSettings(port=0)) as server:
            eventually(lambda: worker.is_leader)
            worker.admin.put_connector("c", CONFIG).result(60)
            eventually(lambda: len(worker.admin.configs().task_ids("c")) == 1)
            yield worker, Patient(server)
    finally:
        assert worker.stop(60)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.mark.timeout(300)
def test_only_signed_requests_are_taken(broker: EmbeddedBroker, group_id: str) -> None:
    settings = HttpSettings(port=0, user="alice", password="secret")
    with answering(broker, group_id, settings, inter_worker_key_ttl_ms=0) as (worker, ask):
        key = eventually(lambda: worker.admin.configs().session_key)
        signed = SessionKeySettings().headers(key, TASKS)
        # by no password
        assert ask("GET", "/connectors")[0] == 401
        assert ask("POST", "/connectors/c/tasks", TASKS)[0] == 400
        code, said = ask("POST", "/connectors/c/tasks", b"[]", **signed)
        assert (code, said["error_code"]) == (403, 403)
        assert ask("POST", "/connectors/none/tasks", TASKS, **signed)[0] == 404
        # of a class that is not known here: what it knows our own leader plans itself
        records = connector_records("java", {"connector.class": "org.example.Source"})
        worker.requests.put(lambda: worker._leader.write(records)).result(60)
        assert ask("POST", "/connectors/java/tasks", TASKS, **signed) == (204, b"")
        configs = worker.admin.configs()
        ids = [configs.task_configs[each]["task.id"] for each in configs.task_ids("java")]
        assert ids == ["t7", "t8"]
        wrong = b'[{"task.id": 7}]'
        code, said = ask(
            "POST", "/connectors/c/tasks", wrong, **SessionKeySettings().headers(key, wrong)
        )
        assert (code, said["message"]) == (400, "tasks: each must be a JSON object of strings")
        # the tasks of before made the group rebalance, when no worker knows who leads
        password = "Basic YWxpY2U6c2VjcmV0"
        assert ask("PUT", "/connectors/c/stop", Authorization=password)[0] == 204
        code, said = ask("POST", "/connectors/c/tasks", TASKS, **signed)
        assert (code, "stopped" in said["message"]) == (400, True)


def test_only_the_path_tells_what_is_signed() -> None:
    asked = InternalRequests(cast(ConnectorAdmin, SimpleNamespace(signs_requests=True)))
    for path, host, signed in (
        ("/connectors/c/tasks", b"h", True),
        ("/connectors/c/tasks", b"h/else?", True),
        ("/connectors", b"h", False),
        ("/connectors", b"h/connectors/c/tasks?", False),
        ("/connectors", b"h/connectors/c/tasks#", False),
    ):
        scope = {"type": "http", "method": "POST", "path": path, "headers": [(b"host", host)]}
        assert asked.are_signed(Request(scope)) is signed


def test_unsigned_internal_request_is_not_read() -> None:
    settings = SessionKeySettings()
    worker = SimpleNamespace(signs_requests=True, protocol="sessioned", session_keys=settings)
    asked = InternalRequests(cast(ConnectorAdmin, worker))

    async def receive() -> dict[str, object]:
        raise AssertionError("the body is read")

    scope = {"type": "http", "method": "POST", "path": "/connectors/c/tasks", "headers": []}
    with pytest.raises(
        RequestSignatureError,
        match="a request between workers needs X-Connect-Authorization and X-Connect-",
    ):
        asyncio.run(asked.put_task_configs(Request(scope, receive)))


@pytest.mark.timeout(300)
def test_fencing_takes_the_producers_of_former_tasks(broker: EmbeddedBroker, group_id: str) -> None:
    with answering(broker, group_id) as (worker, ask):
        key = eventually(lambda: worker.admin.configs().session_key)
        signed = SessionKeySettings().headers(key, b"")
        assert ask("PUT", "/connectors/c/fence")[0] == 400

        def fence(name: str) -> int:
            return ask("PUT", f"/connectors/{name}/fence", **signed)[0]

        assert fence("c") == 204
        assert worker.admin.configs().fenced_tasks == {"c": 1}
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "transactional.id": f"{group_id}-c-0",
                "logger": logging.getLogger("producer"),
            }
        )
        producer.init_transactions(60)
        producer.begin_transaction()
        assert fence("c") == 204
        producer.produce("out", b"late")
        with pytest.raises(KafkaException):
            producer.commit_transaction(60)
        assert fence("none") == 404


@pytest.mark.timeout(300)
def test_keys_are_rotated_and_older_signatures_refused(
    broker: EmbeddedBroker, group_id: str
) -> None:
    with answering(broker, group_id, inter_worker_key_ttl_ms=300, plan_interval_ms=100) as (
        worker,
        ask,
    ):
        first = eventually(lambda: worker.admin.configs().session_key)
        eventually(lambda: worker.admin.configs().session_key != first)
        old = SessionKeySettings().headers(first, b"")
        assert ask("PUT", "/connectors/c/fence", **old)[0] == 403


@pytest.mark.timeout(300)
def test_older_protocols_sign_nothing(broker: EmbeddedBroker, group_id: str) -> None:
    settings = HttpSettings(port=0, user="alice", password="secret")
    with answering(broker, group_id, settings, connect_protocol="compatible") as (
        worker,
        ask,
    ):
        assert worker.admin.configs().session_key is None
        # so the password is asked for
        assert ask("PUT", "/connectors/c/fence")[0] == 401
        assert ask("PUT", "/connectors/c/fence", Authorization="Basic YWxpY2U6c2VjcmV0")[0] == 204


def test_a_worker_that_is_alone_has_nobody_to_answer_to() -> None:
    with standalone() as worker, served(worker) as ask:
        assert ask("PUT", "/connectors/c/fence")[0] == 404
