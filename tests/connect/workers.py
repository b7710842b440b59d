"""Connectors and workers for tests."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

from typing_extensions import override

from groupsdk.connect.app import Worker
from groupsdk.connect.errors import ConnectorConfigError, TaskFencedError
from groupsdk.connect.store.config_backing_store import ConfigLog, Record
from groupsdk.connect.tasks.task import AsyncTaskContext, Connector, Task, TaskContext
from groupsdk.connect.worker import ConnectWorker


class Counting(Connector):
    """As many tasks as `count` says, each of which counts, and keeps its count; `weights` may say what they weigh."""

    required = ("count",)
    version = "2.1"
    running: ClassVar[dict[tuple[str, str], int]] = {}
    """How many runs there are of each task, in this process."""
    most: ClassVar[int] = 0
    """The most runs of one task that there were at the same time."""
    lock: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    @override
    def validate(cls, config: Any) -> None:
        super().validate(config)
        if not config["count"].isdecimal():
            raise ConnectorConfigError("count", f"must be a number, not {config['count']!r}")

    @override
    def plan(self) -> Iterable[Task]:
        weights = [float(each) for each in self.config.get("weights", "").split()]
        return [
            Task(f"t{number}", weight=weights[number] if weights else None)
            for number in range(int(self.config["count"]))
        ]

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        key = self.name, task.id
        with self.lock:
            Counting.running[key] = Counting.running.get(key, 0) + 1
            Counting.most = max(Counting.most, Counting.running[key])
        try:
            count = (context.state or {"count": 0})["count"]
            while True:
                count += 1
                context.commit({"count": count})
                if context.stop.wait(0.01):
                    return
        finally:
            with self.lock:
                Counting.running[key] -= 1


class OneTask(Connector):
    """Plans one task."""

    @override
    def plan(self) -> Iterable[Task]:
        return [Task("only")]


class Failing(OneTask):
    """One task that raises at once."""

    kind = "sink"
    runs: ClassVar[list[int]] = []
    """The fencing token of each run."""

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        self.runs.append(context.generation)
        raise ValueError("this one always fails")


class Telling(Connector):
    """Four tasks, each of which keeps the word of its connector's configuration."""

    required = ("word",)
    words: ClassVar[dict[str, str]] = {}
    """The word of the latest run of each task, in this process."""

    @override
    def plan(self) -> Iterable[Task]:
        return [Task(f"t{number}") for number in range(4)]

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        self.words[task.id] = self.config["word"]
        context.stop.wait()


class Separate(Counting):
    """The same as `Counting`, in processes."""

    host = "process"


class Acting(OneTask):
    """One task that acts with its token, and never looks whether it has to end."""

    tokens: ClassVar[list[int]] = []

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        while True:
            self.tokens.append(context.generation)
            time.sleep(0.01)


class ActingApart(Acting):
    """The same as `Acting`, in a process."""

    host = "process"


class DeafApart(OneTask):
    """One task in a process that listens to nobody, once it has said that it runs."""

    host = "process"

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        # the lease may be over by the time that the commit is answered
        with suppress(TaskFencedError):
            context.commit({"begun": True})
        time.sleep(60)


class Waiting(OneTask):
    """One coroutine that commits once and waits."""

    @override
    async def run(self, task: Task, context: AsyncTaskContext) -> None:
        await context.commit({"begun": True})
        await context.stop.wait()


class Stubborn(OneTask):
    """One task that does not end when told to, until it is let go."""

    let_go: ClassVar[threading.Event] = threading.Event()
    refused: ClassVar[list[str]] = []

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        self.let_go.wait(120)
        try:
            context.commit({"late": True})
        except Exception as error:
            self.refused.append(type(error).__name__)
            raise


ALL = (Counting, Failing, Telling, Separate, Acting, Waiting, Stubborn)


def applied(*records: Record) -> ConfigLog:
    """Return the configurations that follow from these records."""
    log = ConfigLog()
    for offset, (key, value) in enumerate(records):
        log.apply(key, value, offset)
    return log


def app(**settings: Any) -> Worker:
    """A program that knows all of them, with short times.

    But for the session: a machine that stalls ends it, and then tasks move that a test expects to stay.
    """
    defaults: dict[str, Any] = {
        "session_timeout_ms": 20_000,
        "heartbeat_interval_ms": 200,
        "rebalance_timeout_ms": 10_000,
        "scheduled_rebalance_max_delay_ms": 0,
        "task_restart_backoff_ms": 20,
        "offset_storage_partitions": 2,
        "status_storage_partitions": 1,
        "retry_backoff_ms": 20,
    }
    made = Worker(**{**defaults, **settings})
    for kind in ALL:
        made.connector(kind)
    return made


def eventually(
    condition: Callable[[], Any], what: Callable[[], object] = str, timeout_s: float = 60
) -> Any:
    """Wait until `condition` returns something true, and return that."""
    waited = 0.0
    while not (value := condition()):
        assert waited < timeout_s, f"not within {timeout_s} s: {what()}"
        time.sleep(0.02)
        waited += 0.02
    return value


@contextmanager
def standalone(path: Any = None, **options: Any) -> Iterator[ConnectWorker]:
    """Run a worker without a broker."""
    worker = app().start_standalone(path, **options)
    try:
        yield worker
    finally:
        assert worker.stop(60)
        assert worker.error is None


def count(worker: ConnectWorker, connector: str, task: str = "t0") -> int:
    """What a task of `Counting` has committed last."""
    kept = worker._store.state((connector, task))
    return int((kept or {"count": 0})["count"])


def states(worker: ConnectWorker) -> dict[str, str]:
    """What is said of each connector and task."""
    return {key: status.state.value for key, status in worker.admin.statuses().items()}
