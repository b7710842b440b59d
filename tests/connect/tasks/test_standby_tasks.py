"""Holds how tasks are kept warm: begun, followed, promoted, restarted, and never able to act."""

import threading
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any, ClassVar

import pytest
from typing_extensions import override

from groupsdk.clock import SystemClock
from groupsdk.connect.errors import ConnectorConfigError
from groupsdk.connect.store.config_backing_store import (
    ClusterConfigState,
    connector_records,
    task_records,
)
from groupsdk.connect.store.file_store import FileStore
from groupsdk.connect.tasks.standby_tasks import StandbyTasks
from groupsdk.connect.tasks.task import (
    AsyncStandbyContext,
    Connector,
    StandbyContext,
    Task,
    TaskContext,
    check_standby,
)
from groupsdk.connect.tasks.tolerance import RestartPolicy
from groupsdk.wire.connect_protocol import ConnectorTaskId
from tests.connect.workers import Counting, Separate, applied, eventually


TASKS = [ConnectorTaskId("c", 0), ConnectorTaskId("c", 1)]


class Follower(Connector):
    """Keeps the last state that its owner committed."""

    active: ClassVar[int] = 0
    lock: ClassVar[threading.Lock] = threading.Lock()

    @override
    def plan(self) -> Iterable[Task]:
        return [Task("t0"), Task("t1")]

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        raise AssertionError("a standby does not run")

    @override
    def standby(self, task: Task, context: StandbyContext) -> None:
        with self.lock:
            Follower.active += 1
        try:
            while not context.stop.wait(0.005):
                context.keep((task.id, context.state))
        finally:
            with self.lock:
                Follower.active -= 1


class AsyncFollower(Follower):
    """The same as a coroutine."""

    @override
    async def standby(  # type: ignore[override]  # either form is allowed, here one after the other
        self, task: Task, context: AsyncStandbyContext
    ) -> None:
        context.keep((task.id, context.state))
        await context.stop.wait()


class Loader(Follower):
    """Loads once, and is done."""

    @override
    def standby(self, task: Task, context: StandbyContext) -> None:
        context.keep("loaded")


class Broken(Follower):
    """Raises at once."""

    starts: ClassVar[list[str]] = []

    @override
    def standby(self, task: Task, context: StandbyContext) -> None:
        self.starts.append(task.id)
        raise ValueError("cannot load")


class Deaf(Follower):
    """Does not end when told to, until it is let go."""

    let_go: ClassVar[threading.Event] = threading.Event()

    @override
    def standby(self, task: Task, context: StandbyContext) -> None:
        context.keep("half")
        self.let_go.wait(120)


KINDS: list[type[Connector]] = [Follower, AsyncFollower, Loader, Broken, Deaf]


def configs(kind: type[Connector], **more: str) -> ClusterConfigState:
    """A connector with two tasks."""
    return applied(
        *connector_records("c", {"connector.class": kind.__name__, **more}),
        *task_records("c", [Task("t0").config(), Task("t1").config()]),
    ).snapshot()


class Rig:
    """Standbys and a store."""

    def __init__(self, grace_ms: int = 5_000) -> None:
        self.store = FileStore()
        self.runs = StandbyTasks(
            self.store,
            {kind.__name__: kind for kind in KINDS},
            RestartPolicy(backoff_ms=5, backoff_max_ms=10),
            grace_ms,
            SystemClock(),
            lambda: None,
            Random(1),
        )

    def warm(self) -> Any:
        return self.runs._standbys[TASKS[0]].warm


@pytest.fixture
def rig() -> Iterator[Rig]:
    """Standbys of nothing yet."""
    made = Rig()
    yield made
    made.runs.close()
    assert Follower.active == 0


def test_a_standby_follows_what_the_owner_commits_and_is_promoted_with_it(rig: Rig) -> None:
    rig.runs.keep(TASKS, configs(Follower))
    eventually(lambda: rig.warm() == ("t0", None))
    rig.store.commit(("c", "t0"), 3, {"n": 1})
    eventually(lambda: rig.warm() == ("t0", {"n": 1}))
    assert rig.runs.promote([TASKS[0]]) == {TASKS[0]: ("t0", {"n": 1})}
    assert rig.runs.kept() == [TASKS[1]]
    eventually(lambda: Follower.active == 1)
    assert rig.runs.promote([TASKS[0]]) == {}


@pytest.mark.parametrize(("kind", "warm"), [(AsyncFollower, ("t0", None)), (Loader, "loaded")])
def test_coroutines_and_what_is_done_at_once_keep_things_warm_too(
    rig: Rig, kind: type[Connector], warm: object
) -> None:
    rig.runs.keep(TASKS[:1], configs(kind))
    eventually(lambda: rig.warm() == warm)
    rig.runs.tick()
    assert rig.runs.promote(TASKS) == {TASKS[0]: warm}


def test_unwanted_standby_ends_and_a_reconfigured_one_restarts(
    rig: Rig,
) -> None:
    rig.runs.keep(TASKS, configs(Follower))
    first = rig.runs._standbys[TASKS[0]]
    rig.runs.keep(TASKS[:1], configs(Follower))
    assert rig.runs.kept() == TASKS[:1]
    assert rig.runs._standbys[TASKS[0]] is first
    rig.runs.keep(TASKS[:1], configs(Follower, other="x"))
    assert rig.runs._standbys[TASKS[0]] is not first
    rig.runs.keep([], configs(Follower))
    assert Follower.active == 0


def test_one_that_raises_is_started_again_later(rig: Rig) -> None:
    Broken.starts.clear()
    rig.runs.keep(TASKS[:1], configs(Broken))

    def again() -> bool:
        rig.runs.tick()
        return len(Broken.starts) > 2

    eventually(again)
    assert rig.runs.promote(TASKS[:1]) == {TASKS[0]: None}


def test_of_one_that_does_not_end_nothing_is_taken() -> None:
    rig = Rig(grace_ms=20)
    Deaf.let_go.clear()
    rig.runs.keep(TASKS[:1], configs(Deaf))
    eventually(lambda: rig.warm() == "half")
    assert rig.runs.promote(TASKS[:1]) == {}
    Deaf.let_go.set()
    rig.runs.close()


def test_a_standby_has_nothing_to_act_with() -> None:
    given: list[StandbyContext] = []

    class Curious(Follower):
        @override
        def standby(self, task: Task, context: StandbyContext) -> None:
            given.append(context)

    KINDS.append(Curious)
    rig = Rig()
    KINDS.pop()
    rig.runs.keep(TASKS[:1], configs(Curious))
    eventually(lambda: given)
    assert not {"commit", "generation"} & set(dir(given[0]))
    rig.runs.close()


def test_standbys_of_what_cannot_have_any_are_refused() -> None:
    check_standby(Follower)
    with pytest.raises(ConnectorConfigError, match="Counting has no standby method"):
        check_standby(Counting)

    class Apart(Separate):
        @override
        def standby(self, task: Task, context: StandbyContext) -> None: ...

    with pytest.raises(ConnectorConfigError, match="cannot be passed to the process"):
        check_standby(Apart)
