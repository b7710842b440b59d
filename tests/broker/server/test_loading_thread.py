"""Test that the code which the first request of its kind needs is loaded off the loop."""

import subprocess
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest
from pytest_mock import MockerFixture

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.broker.server import call, connection
from groupsdk.broker.server.broker import LoadingThread
from groupsdk.wire.messages.connection import ApiVersionsRequest
from groupsdk.wire.messages.group_admin import ListGroupsRequest
from groupsdk.wire.messages.groups import HeartbeatRequest
from groupsdk.wire.schema import Request
from tests.broker.clients import Client, batch, connect, end_offset, eventually, produce_request


FIRST_GROUP = """
import sys, threading

class Watch:
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread().name == "groupsdk-broker":
            imported.append(name)

imported = []
from groupsdk.broker.embedded import EmbeddedBroker
from tests.broker.clients import connect, join_request
from groupsdk.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from groupsdk.wire.messages.metadata import FindCoordinatorRequest
from groupsdk.wire.messages import offsets

with EmbeddedBroker(topics=("t",)) as broker, connect(broker) as client:
    sys.meta_path.insert(0, Watch())
    client.ask(FindCoordinatorRequest("g"), 2)
    client.ask(join_request("g"), 5)
    partitions = (offsets.OffsetCommitRequestPartition(0, 5),)
    topics = (offsets.OffsetCommitRequestTopic("t", partitions=partitions),)
    client.ask(offsets.OffsetCommitRequest("c", topics=topics), 8)
    joining = {"rebalance_timeout_ms": 1, "subscribed_topic_names": ("t",), "topic_partitions": ()}
    client.ask(ConsumerGroupHeartbeatRequest("h", "m", 0, **joining), 1)
print(*imported, sep="\\n")
"""


def test_the_first_requests_of_groups_import_hardly_anything_on_the_loop() -> None:
    # in a process of its own, where nothing else has imported it
    found = subprocess.run(
        [sys.executable, "-c", FIRST_GROUP], capture_output=True, text=True, check=True
    )
    imported = found.stdout.split()
    assert not [each for each in imported if each.startswith("groupsdk.broker.coordinator.")]
    assert len(imported) < 20, imported


def test_requests_behind_the_first_of_its_kind_keep_their_order(
    client: Client, mocker: MockerFixture
) -> None:
    mocker.patch.dict(call._routes, clear=True)
    heartbeat, listing = HeartbeatRequest("g", 1, "m"), ListGroupsRequest()
    asked: list[Request[Any]] = [
        heartbeat,
        listing,
        heartbeat,
        ApiVersionsRequest("a", "1"),
        listing,
    ]
    sent = [client.send(each, 3) for each in asked]
    for request, (number, version) in zip(asked, sent, strict=True):
        client.answer(request, (number, version))


def test_what_a_client_sent_before_it_went_away_counts_while_its_code_is_loaded(
    broker: EmbeddedBroker, mocker: MockerFixture
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def load(api_key: int, version: int) -> None:
        if threading.current_thread().name == "groupsdk-loading":
            begun.set()
            assert go_on.wait(60)
        call.load_route(api_key, version)

    mocker.patch.dict(call._routes, clear=True)
    mocker.patch.object(connection, "load_route", load)
    lost = mocker.spy(connection.Connection, "connection_lost")
    records = batch(b"first"), batch(b"second")
    with connect(broker) as client:
        for each in records:
            client.send(produce_request("t", each, acks=0), 9)
        assert begun.wait(60)
    eventually(lambda: lost.call_count, 1)
    go_on.set()
    with connect(broker) as client:
        assert end_offset(client, "t") == len(records)


@pytest.mark.parametrize("error", [ImportError("no such module"), SystemExit("no such module")])
def test_a_handler_that_cannot_be_loaded_closes_the_connection(
    broker: EmbeddedBroker,
    error: BaseException,
    mocker: MockerFixture,
    caplog: pytest.LogCaptureFixture,
) -> None:
    mocker.patch.dict(call._routes, clear=True)
    mocker.patch.object(connection, "load_route", side_effect=error)
    with connect(broker) as client:
        client.send(HeartbeatRequest("g", 1, "m"), 3)
        assert client.is_closed()
    assert "no such module" in caplog.text


class Loop:
    def __init__(self) -> None:
        self.calls: SimpleQueue[Callable[[], Any]] = SimpleQueue()
        self.run = LoadingThread(self.calls.put)
        self.ended: list[tuple[str, str]] = []
        self.worked: list[str] = []

    def add(self, name: str, error: BaseException | None = None) -> None:
        def work() -> None:
            self.worked.append(name)
            if error is not None:
                raise error

        self.run(work, lambda raised: self.ended.append((name, str(raised))))


def test_functions_run_one_after_the_other_whatever_they_raise() -> None:
    loop = Loop()
    loop.add("a", ValueError("wrong"))
    loop.add("b", SystemExit("ends"))
    loop.calls.get(timeout=60)()
    assert loop.ended == [("a", "wrong")]
    loop.calls.get(timeout=60)()
    assert loop.ended == [("a", "wrong"), ("b", "ends")]
    loop.add("c")
    loop.calls.get(timeout=60)()
    assert loop.worked == ["a", "b", "c"]
    assert loop.calls.empty()


def test_a_process_that_has_no_more_threads_loads_on_the_loop(mocker: MockerFixture) -> None:
    loop = Loop()
    mocker.patch.object(threading.Thread, "start", side_effect=RuntimeError("no more threads"))
    loop.add("a")
    loop.add("b")
    for _ in "ab":
        loop.calls.get(timeout=60)()
    assert loop.ended == [("a", "None"), ("b", "None")]


def test_a_loop_that_has_ended_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    told = threading.Event()

    def closed(_: Callable[[], Any]) -> None:
        told.set()
        raise RuntimeError("Event loop is closed")

    LoadingThread(closed)(lambda: None, lambda _: None)
    assert told.wait(60)
    for thread in threading.enumerate():
        if thread.name == "groupsdk-loading":
            thread.join(60)
    assert "Exception in thread" not in caplog.text
