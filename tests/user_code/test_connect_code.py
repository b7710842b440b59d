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
from groupsdk.connect.group import leader
from groupsdk.connect.rest import api, messages
from groupsdk.connect.rest.api import RestServer
from groupsdk.connect.store.file_store import FileStore
from groupsdk.connect.tasks.standby_tasks import StandbyTasks
from groupsdk.connect.tasks.task import (
    AsyncTaskContext,
    Connector,
    Task,
)
from groupsdk.connect.tasks.tolerance import RestartPolicy
from groupsdk.connect.worker import ConnectWorker
from groupsdk.http.settings import HttpSettings
from groupsdk.wire.connect_protocol import ConnectorTaskId
from tests.connect.rest.test_api import CONFIG, Client
from tests.connect.tasks.test_standby_tasks import Follower, configs
from tests.connect.workers import app, eventually
from tests.user_code.misdeeds import DEEDS, HANG, RAISE, RAISED, SPIN, WRONG, Misdeeds, name_of


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
        if self.config["where"] == "attempt":
            return context.attempt(b"record", lambda _: self.at(self.config, "attempt"))
        return self.at(self.config, "run")

    @override
    def standby(self, task: Task, context: Any) -> Any:
        return self.at(self.config, "standby")


class OddCoroutine(Odd):
    """Runs as a coroutine."""

    @override
    async def run(self, task: Task, context: AsyncTaskContext) -> Any:
        if self.config["where"] == "attempt":
            return await context.attempt(b"record", lambda _: self.misbehaves("attempt"))
        return await self.misbehaves("run")

    async def misbehaves(self, where: str) -> Any:
        if self.config["deed"] == HANG:
            Odd.misdeeds.begun[HANG].set()
            await asyncio.Event().wait()
        return self.at(self.config, where)

    @override
    async def standby(self, task: Task, context: Any) -> Any:
        return await self.misbehaves("standby")


class OddProcess(Odd):
    """Runs in a process, whose `over` is never set."""

    host = "process"


class OddRecipe(Odd):
    """Is recreated in a process by a recipe that misbehaves, in the worker."""

    host = "process"
    deed: ClassVar[str] = ""

    @classmethod
    @override
    def recipe(cls) -> Any:
        return cls.misdeeds.do(cls.deed)


@pytest.fixture
def misdeeds() -> Iterator[Misdeeds]:
    Odd.misdeeds = Misdeeds()
    yield Odd.misdeeds
    Odd.misdeeds.over.set()


@pytest.fixture
def worker(misdeeds: Misdeeds) -> Iterator[ConnectWorker]:
    """A worker that has one more connector, which behaves."""
    with app(task_restart_max=0, task_shutdown_graceful_timeout_ms=100) as program:
        for kind in (Odd, OddCoroutine, OddProcess, OddRecipe):
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


def delete(ask: Client, name: str) -> None:
    """Delete a connector, and wait until it is gone."""
    assert ask("DELETE", f"/connectors/{name}")[0] == 204
    eventually(lambda: name not in ask("GET", "/connectors")[1])


def abandoned(deed: str) -> str:
    return f"task {deed}-0 did not stop within 100 ms; abandoning it and discarding its state"


def test_misbehaving_validate_stays_within_bounds(
    ask: Client, misdeeds: Misdeeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put(deed: str) -> tuple[int, Any]:
        config = {"connector.class": "Odd", "where": "validate", "deed": deed}
        return ask("PUT", f"/connectors/{deed}/config", config)

    for deed in (*RAISED, WRONG):
        code, told = put(deed)
        assert code == 500
        assert name_of(deed) in told["message"]
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
            said = f"connector {deed}: planning its tasks has taken 50 ms so far"
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


def task_of(ask: Client, deed: str, *states: str) -> Any:
    """Return the task of a connector, once it is in one of these states."""
    tasks = ask("GET", f"/connectors/{deed}/status")[1]["tasks"]
    return bool(tasks) and tasks[0]["state"] in states and tasks[0]


@pytest.mark.parametrize("kind", ["Odd", "OddCoroutine", "OddProcess"])
def test_misbehaving_run_stays_within_bounds(
    ask: Client, misdeeds: Misdeeds, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    for deed in DEEDS:
        created(ask, kind, "run", deed)
        if deed in RAISED or (deed == WRONG and kind != "OddCoroutine"):
            found = eventually(partial(task_of, ask, deed, "FAILED"))
            assert name_of(deed) in found["trace"]
        elif deed == WRONG:  # what a coroutine returns is not looked at
            eventually(lambda: task_of(ask, WRONG, "COMPLETED"))
        else:
            eventually(partial(task_of, ask, deed, "RUNNING"))
            if kind != "OddProcess":
                misdeeds.await_begun(deed)
            others_go_on(ask)
            delete(ask, deed)
            # a thread, and a coroutine that never awaits, cannot be ended
            left = kind == "Odd" or (kind, deed) == ("OddCoroutine", SPIN)
            if left:
                eventually(partial(_logged, caplog, abandoned(deed)))
            else:
                assert abandoned(deed) not in caplog.messages
        others_go_on(ask)


@pytest.mark.parametrize("kind", ["Odd", "OddCoroutine"])
def test_misbehaving_attempt_stays_within_bounds(
    ask: Client, misdeeds: Misdeeds, kind: str
) -> None:
    """A record that cannot be handled is skipped; what is no `Exception` is about the task, as a hang is."""
    for deed in DEEDS:
        config = {"connector.class": kind, "where": "attempt", "deed": deed}
        tolerant = {**config, "errors.tolerance": "all"}
        assert ask("PUT", f"/connectors/{deed}/config", tolerant)[0] == 201
        misdeeds.await_begun(deed)
        is_coroutine_result = (kind, deed) == ("OddCoroutine", WRONG)
        if deed == RAISE or (deed == WRONG and not is_coroutine_result):
            eventually(partial(task_of, ask, deed, "COMPLETED"))
            assert ask("PUT", f"/connectors/{deed}/config", config)[0] == 200
            found = eventually(partial(task_of, ask, deed, "FAILED"))
            assert name_of(deed) in found["trace"]
        elif deed == WRONG:  # what a coroutine returns is not looked at
            eventually(partial(task_of, ask, deed, "COMPLETED"))
        elif deed in RAISED:
            assert name_of(deed) in eventually(partial(task_of, ask, deed, "FAILED"))["trace"]
        else:
            eventually(partial(task_of, ask, deed, "RUNNING"))
            others_go_on(ask)
            delete(ask, deed)
        if deed == SPIN:  # it holds up the other coroutines
            misdeeds.over.set()
    others_go_on(ask)


def test_misbehaving_recipe_stays_within_bounds(
    ask: Client, misdeeds: Misdeeds, caplog: pytest.LogCaptureFixture
) -> None:
    for deed in DEEDS:
        OddRecipe.deed = deed
        created(ask, "OddRecipe", "recipe", deed)
        misdeeds.await_begun(deed)
        if deed in RAISED or deed == WRONG:
            trace = eventually(partial(task_of, ask, deed, "FAILED"))["trace"]
            assert name_of(deed) in trace
        else:
            others_go_on(ask)
            delete(ask, deed)
            eventually(partial(_logged, caplog, abandoned(deed)))
    others_go_on(ask)


@pytest.mark.parametrize("odd", [Odd, OddCoroutine])
def test_misbehaving_standby_stays_within_bounds(
    odd: type[Odd], misdeeds: Misdeeds, caplog: pytest.LogCaptureFixture
) -> None:
    is_coroutine = odd is OddCoroutine
    classes: dict[str, type[Connector]] = {odd.__name__: odd, "Follower": Follower}
    policy = RestartPolicy(max_restarts=0)
    store, clock = FileStore(), SystemClock()
    made = [
        StandbyTasks(store, classes, policy, 100, clock, lambda: None, Random(1)) for _ in DEEDS
    ]
    well = StandbyTasks(store, classes, policy, 5_000, clock, lambda: None, Random(1))
    task = ConnectorTaskId("c", 0)
    well.keep([task], configs(Follower))
    for standbys, deed in zip(made, DEEDS, strict=True):
        standbys.keep([task], configs(odd, where="standby", deed=deed))
        misdeeds.await_begun(deed)
    for number, deed in enumerate(RAISED if is_coroutine else (*RAISED, WRONG)):
        said = name_of(deed)

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
    # a coroutine can be cancelled, unless it never awaits
    count = caplog.text.count("did not stop within 100 ms; abandoning it")
    assert count == (1 if is_coroutine else 2)
    for standbys in (well, *made):
        standbys.close()


def _follows(standbys: StandbyTasks) -> bool:
    (standby,) = standbys._standbys.values()
    return bool(standby.warm == ("t0", {"n": 1}))


def test_config_provider_that_hangs_stays_within_bounds(
    ask: Client, worker: ConnectWorker, tmp_path: Path
) -> None:
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
