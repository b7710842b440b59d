"""Hold the table of docs/user-code.md for connectors: whatever their code does, REST and other connectors go on."""

import asyncio
import os
import threading
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest
from typing_extensions import override

from groupsdk.clock import SystemClock
from groupsdk.connect import leader
from groupsdk.connect.file_store import FileStore
from groupsdk.connect.rest import api, messages
from groupsdk.connect.rest.api import RestServer
from groupsdk.connect.standby_tasks import StandbyTasks
from groupsdk.connect.task import (
    AsyncTaskContext,
    Connector,
    StandbyContext,
    Task,
)
from groupsdk.connect.tolerance import RestartPolicy
from groupsdk.connect.worker import ConnectWorker
from groupsdk.http.settings import HttpSettings
from groupsdk.wire.connect_protocol import ConnectorTaskId
from tests.connect.rest.test_api import CONFIG, Client
from tests.connect.test_standby_tasks import Follower, configs
from tests.connect.workers import app, eventually
from tests.user_code.misdeeds import DEEDS, HANG, RAISED, SPIN, WRONG, Misdeeds, name_of


pytestmark = pytest.mark.timeout(300)


class Odd(Connector):
    """Misbehaves where and as its configuration says, in a thread."""

    misdeeds: ClassVar[Misdeeds] = Misdeeds()

    def __init__(self, name: str, config: Any) -> None:
        super().__init__(name, config)
        self.at(config, "init")

    @classmethod
    def at(cls, config: Any, where: str) -> Any:
        return Odd.misdeeds.do(config["deed"] if config.get("where") == where else None)

    @classmethod
    @override
    def validate(cls, config: Any) -> None:
        return cls.at(config, "validate")  # type: ignore[no-any-return]

    @override
    def plan(self) -> Iterable[Task]:
        return self.at(self.config, "plan") or [Task("only")]

    @override
    def run(self, task: Task, context: Any) -> Any:
        return self.at(self.config, "run")

    @override
    def standby(self, task: Task, context: StandbyContext) -> Any:
        return self.at(self.config, "standby")


class OddCoroutine(Odd):
    """Runs as a coroutine."""

    @override
    async def run(self, task: Task, context: AsyncTaskContext) -> Any:
        if self.config["deed"] == HANG:
            Odd.misdeeds.begun[HANG].set()
            await asyncio.Event().wait()
        return self.at(self.config, "run")


class OddProcess(Odd):
    """Runs in a process, whose `over` is never set."""

    host = "process"


@pytest.fixture
def misdeeds() -> Iterator[Misdeeds]:
    Odd.misdeeds = Misdeeds()
    yield Odd.misdeeds
    Odd.misdeeds.over.set()


@pytest.fixture
def worker(misdeeds: Misdeeds) -> Iterator[ConnectWorker]:
    """A worker that has one more connector, which behaves."""
    with app(task_restart_max=0, task_shutdown_graceful_timeout_ms=100) as program:
        for kind in (Odd, OddCoroutine, OddProcess):
            program.connector(kind)
        worker = program.start_standalone(None)
        eventually(lambda: worker.is_leader)
        yield worker
        misdeeds.over.set()


@pytest.fixture
def ask(worker: ConnectWorker) -> Iterator[Client]:
    with RestServer(worker, HttpSettings(port=0)) as server:
        ask = Client(server)
        assert ask("PUT", "/connectors/well/config", CONFIG)[0] == 201
        yield ask


def others_go_on(ask: Client) -> None:
    """Wait until another connector's task commits again, over a REST API that answers."""

    def count() -> int:
        _, states = ask("GET", "/connectors/well/offsets")
        return sum(each["offset"]["count"] for each in states["offsets"])

    assert ask("GET", "/health")[0] == 200
    assert ask("GET", "/health/live")[0] == 200
    before = count()
    eventually(lambda: count() > before)


def created(ask: Client, kind: str, where: str, deed: str) -> None:
    config = {"connector.class": kind, "where": where, "deed": deed}
    assert ask("PUT", f"/connectors/{deed}/config", config)[0] == 201, deed


def _logged(caplog: pytest.LogCaptureFixture, said: str) -> bool:
    return said in caplog.messages


def _is_gone(ask: Client, name: str) -> bool:
    return name not in ask("GET", "/connectors")[1]


def test_validate(ask: Client, misdeeds: Misdeeds, monkeypatch: pytest.MonkeyPatch) -> None:
    def put(deed: str) -> tuple[int, Any]:
        config = {"connector.class": "Odd", "where": "validate", "deed": deed}
        return ask("PUT", f"/connectors/{deed}/config", config)

    for deed in RAISED:
        code, told = put(deed)
        assert code == 500
        assert name_of(deed) in told["message"]
    code, told = put(WRONG)
    assert code == 500
    assert "TypeError" in told["message"]
    asking = [threading.Thread(target=put, args=(deed,), daemon=True) for deed in (HANG, SPIN)]
    for each, deed in zip(asking, (HANG, SPIN), strict=True):
        each.start()
        misdeeds.await_begun(deed)
        others_go_on(ask)
    monkeypatch.setattr(messages, "TIMEOUT_S", 0.1)
    monkeypatch.setattr(api, "TIMEOUT_S", 0.1)
    assert "has not returned: Odd" in put(HANG)[1]["message"]
    misdeeds.over.set()
    for each in asking:
        each.join(60)


@pytest.mark.parametrize("where", ["init", "plan"])
def test_init_and_plan(
    ask: Client,
    misdeeds: Misdeeds,
    where: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(leader, "_SLOW_MS", 50)
    deeds = [each for each in DEEDS if (where, each) != ("init", WRONG)]
    for deed in reversed(deeds):  # those that never return come first
        created(ask, "Odd", where, deed)
    for deed in deeds:
        if deed in (HANG, SPIN):
            misdeeds.await_begun(deed)
            said = f"connector {deed} has been planning its tasks for 50 ms and goes on"
            eventually(partial(_logged, caplog, said))
            continue

        def failed(deed: str = deed) -> Any:
            said = ask("GET", f"/connectors/{deed}/status")[1]["connector"]
            return said["state"] == "FAILED" and said

        expected = (
            "TypeError: plan() must return a list of Task" if deed == WRONG else name_of(deed)
        )
        assert expected in eventually(failed)["trace"]
    others_go_on(ask)


@pytest.mark.parametrize("kind", ["Odd", "OddCoroutine", "OddProcess"])
def test_run(ask: Client, misdeeds: Misdeeds, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    def task_of(deed: str, *states: str) -> Any:
        tasks = ask("GET", f"/connectors/{deed}/status")[1]["tasks"]
        return bool(tasks) and tasks[0]["state"] in states and tasks[0]

    for deed in DEEDS:
        created(ask, kind, "run", deed)
        if deed in RAISED or (deed == WRONG and kind != "OddCoroutine"):
            found = eventually(partial(task_of, deed, "FAILED"))
            assert (name_of(deed) if deed in RAISED else "TypeError") in found["trace"]
        elif deed == WRONG:  # what a coroutine returns is not looked at
            eventually(lambda: task_of(WRONG, "COMPLETED"))
        else:
            eventually(partial(task_of, deed, "RUNNING"))
            if kind != "OddProcess":
                misdeeds.await_begun(deed)
            others_go_on(ask)
            assert ask("DELETE", f"/connectors/{deed}")[0] == 204
            eventually(partial(_is_gone, ask, deed))
            # a thread, and a coroutine that never awaits, cannot be ended
            left = kind == "Odd" or (kind, deed) == ("OddCoroutine", SPIN)
            said = (
                f"task {deed}-0 did not stop within 100 ms; abandoning it and discarding its state"
            )
            if left:
                eventually(partial(_logged, caplog, said))
            else:
                assert said not in caplog.messages
        others_go_on(ask)


def test_standby(misdeeds: Misdeeds, caplog: pytest.LogCaptureFixture) -> None:
    classes = {"Odd": Odd, "Follower": Follower}
    policy = RestartPolicy(max_restarts=0)
    store, clock = FileStore(), SystemClock()
    made = [
        StandbyTasks(store, classes, policy, 100, clock, lambda: None, Random(1)) for _ in DEEDS
    ]
    well = StandbyTasks(store, classes, policy, 5_000, clock, lambda: None, Random(1))
    task = ConnectorTaskId("c", 0)
    well.keep([task], configs(Follower))
    for standbys, deed in zip(made, DEEDS, strict=True):
        standbys.keep([task], configs(Odd, where="standby", deed=deed))
        misdeeds.await_begun(deed)
    for number, deed in enumerate((*RAISED, WRONG)):
        said = "TypeError" if deed == WRONG else name_of(deed)

        def told(number: int = number, said: str = said) -> bool:
            made[number].tick()
            return any(
                "standby of task c-0 failed permanently" in each and said in each
                for each in caplog.messages
            )

        eventually(told)
    store.commit(("c", "t0"), 3, {"n": 1})
    eventually(
        lambda: well.promote([task]) == {task: ("t0", {"n": 1})} if _follows(well) else False
    )
    for standbys in made:
        # one that hangs has kept nothing that a task could rely on
        standbys.promote([task])
    assert caplog.text.count("did not stop within 100 ms; abandoning it") == 2
    for standbys in (well, *made):
        standbys.close()


def _follows(standbys: StandbyTasks) -> bool:
    (standby,) = standbys._standbys.values()
    return bool(standby.warm == ("t0", {"n": 1}))


def test_config_provider(ask: Client, worker: ConnectWorker, tmp_path: Path) -> None:
    """A file that never answers; providers of one's own do not exist."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    providers = type(worker.admin.providers).take({"config.providers": "file"})
    worker.admin.providers = providers
    config = {"connector.class": "Odd", "secret": f"${{file:{pipe}:key}}"}
    asking = threading.Thread(target=ask, args=("PUT", "/connectors/c/config", config), daemon=True)
    asking.start()
    eventually(lambda: worker.admin.validations.running() == ["Odd"])
    others_go_on(ask)
    pipe.write_text("key=value\n")  # returns once it has been opened
    asking.join(60)
    assert ask("GET", "/connectors/c")[0] == 200
    missing = {**config, "secret": f"${{file:{tmp_path}/none:key}}"}
    code, told = ask("PUT", "/connectors/d/config", missing)
    assert (code, "No such file" in told["message"]) == (400, True)
