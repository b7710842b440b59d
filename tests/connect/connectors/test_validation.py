"""Test that a `validate` that hangs or raises anything holds nobody else up, and writes nothing."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, ClassVar

import pytest
from typing_extensions import override

from groupsdk.connect.connectors.validation import ValidationThreads, then
from groupsdk.connect.errors import ConnectError, ConnectorConfigError, RebalancingError
from groupsdk.connect.rest import api, messages
from groupsdk.connect.rest.api import RestServer
from groupsdk.connect.tasks.task import Connector, Task, TaskContext
from groupsdk.connect.worker import ConnectWorker
from groupsdk.http.settings import HttpSettings
from tests.connect.rest.test_api import CONFIG, Client
from tests.connect.workers import app, eventually
from tests.support.cases import each_case


class Odd(Connector):
    """Validates as its configuration says."""

    go_on: ClassVar[threading.Event] = threading.Event()
    begun: ClassVar[threading.Semaphore] = threading.Semaphore(0)

    @classmethod
    @override
    def validate(cls, config: Any) -> None:
        match config.get("what"):
            case "hang":
                cls.begun.release()
                assert cls.go_on.wait(60)
            case "exit":
                sys.exit(f"of {config['password']}")
            case "cancel":
                raise asyncio.CancelledError
            case "fail":
                pytest.fail("no")
            case _:
                pass

    @override
    def plan(self) -> list[Task]:
        return []

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        raise AssertionError


class Later(Odd):
    """Would validate later, if anybody awaited it."""

    @classmethod
    @override
    async def validate(cls, config: Any) -> None:  # type: ignore[override]
        raise ConnectorConfigError("what", "is wrong")


@pytest.fixture
def worker() -> Iterator[ConnectWorker]:
    with app() as program:
        for kind in (Odd, Later):
            program.connector(kind)
        worker = program.start_standalone(None)
        eventually(lambda: worker.is_leader)
        Odd.go_on = threading.Event()
        yield worker
        Odd.go_on.set()


@pytest.fixture
def ask(worker: ConnectWorker) -> Iterator[Client]:
    with RestServer(worker, HttpSettings(port=0)) as server:
        yield Client(server)


def odd(what: str, **more: str) -> dict[str, str]:
    return {"connector.class": "Odd", "what": what, **more}


@pytest.mark.parametrize("masked", [False, True])
def test_rest_and_other_connectors_go_on_while_a_validate_hangs(
    worker: ConnectWorker, ask: Client, monkeypatch: pytest.MonkeyPatch, masked: bool
) -> None:
    assert ask("PUT", "/connectors/odd/config", odd("well", password="pass-word"))[0] == 201
    answers: list[tuple[int, Any]] = []
    config = odd("hang", **({"password": "[hidden]"} if masked else {}))
    asking = threading.Thread(
        target=lambda: answers.append(ask("PUT", "/connectors/odd/config", config))
    )
    asking.start()
    assert Odd.begun.acquire(timeout=60)
    assert ask("GET", "/health")[0] == 200
    assert ask("GET", "/health/live")[0] == 200
    assert ask("PUT", "/connectors/c/config", CONFIG)[0] == 201
    assert ask("GET", "/connectors/odd/config")[1]["what"] == "well"
    # a client that has been told that there is no answer finds nothing written later
    monkeypatch.setattr(messages, "TIMEOUT_S", 0.1)
    monkeypatch.setattr(api, "TIMEOUT_S", 0.1)
    code, told = ask("PUT", "/connectors/late/config", odd("hang"))
    assert (code, told["message"]) == (
        500,
        "the worker did not answer within 0.1 s; the validate of these classes has not returned: Odd",
    )
    Odd.go_on.set()
    asking.join(60)
    assert answers[0][0] == 200
    eventually(lambda: not worker.admin.validations.running())
    assert sorted(ask("GET", "/connectors")[1]) == ["c", "odd"]


def test_the_resource_that_validates_does_not_hold_up_rest(ask: Client) -> None:
    path = "/connector-plugins/Odd/config/validate"
    asking = threading.Thread(target=lambda: ask("PUT", path, odd("hang")))
    asking.start()
    assert Odd.begun.acquire(timeout=60)
    assert ask("GET", "/health")[0] == 200
    Odd.go_on.set()
    asking.join(60)


@each_case(
    ("config", "said"),
    (
        (odd("exit", password="pass-word"), "validate of Odd raised SystemExit: of [hidden]"),
        (odd("cancel"), "validate of Odd raised asyncio.exceptions.CancelledError"),
        (odd("fail"), "validate of Odd raised Failed: no"),
        ({"connector.class": "Later"}, "Later.validate is an `async def`, which nobody awaits"),
    ),
)
def test_whatever_a_validate_raises_is_an_answer(
    ask: Client, config: dict[str, str], said: str
) -> None:
    path = f"/connector-plugins/{config['connector.class']}/config/validate"
    for code, told in (ask("PUT", "/connectors/c/config", config), ask("PUT", path, config)):
        assert code == 500
        assert said in told["message"]
    assert ask("GET", "/health")[0] == 200
    assert ask("GET", "/connectors") == (200, [])


def test_a_configuration_with_masks_is_not_written_if_it_changes_meanwhile(
    worker: ConnectWorker,
) -> None:
    worker.admin.put_connector("odd", odd("well", password="first-one")).result(60)
    late = worker.admin.put_connector("odd", odd("hang", password="[hidden]"))
    assert Odd.begun.acquire(timeout=60)
    worker.admin.put_connector("odd", odd("well", password="second-one")).result(60)
    Odd.go_on.set()
    with pytest.raises(RebalancingError, match="'odd' changed while it was validated"):
        late.result(60)
    assert worker.admin.configs().connectors["odd"]["what"] == "well"


def test_a_class_that_hangs_holds_few_threads_and_no_other_class() -> None:
    threads, go_on = ValidationThreads(), threading.Event()
    hanging = [threads.start("A", lambda: go_on.wait(60)) for _ in range(4)]
    with pytest.raises(ConnectError, match="4 validations of A are running and none has returned"):
        threads.start("A", lambda: True).result(60)
    assert threads.start("B", lambda: True).result(60)
    assert threads.running() == ["A"]
    go_on.set()
    assert all(each.result(60) for each in hanging)
    eventually(lambda: not threads.running())
    assert threads.start("A", lambda: True).result(60)


def test_a_cancelled_future_of_two_steps_cancels_both() -> None:
    first: Future[int] = Future()
    result = then(first, lambda _: Future[str]())
    assert result.cancel()
    assert first.cancelled()
    second: Future[str] = Future()
    first = Future()
    result = then(first, lambda _: second)
    first.set_result(1)
    assert result.cancel()
    assert second.cancelled()
    cancelled: Future[int] = Future()
    result = then(cancelled, lambda _: second)
    cancelled.cancel()
    assert result.cancelled()
