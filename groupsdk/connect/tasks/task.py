"""The user's interface: a `Connector` plans tasks, and runs one task at a time."""

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, Protocol, TypeVar

from groupsdk.connect.errors import ConnectorConfigError
from groupsdk.connect.group.work import REPLICAS_KEY, WEIGHT_KEY, counted, weight_of
from groupsdk.connect.store.config_backing_store import Config
from groupsdk.connect.store.status_backing_store import UNDEFINED


R = TypeVar("R")
TaskState = Mapping[str, Any]
"""What a task keeps between runs: anything that JSON can carry."""

Host = Literal["thread", "process"]
"""Where tasks run that are not `async def`."""

Kind = Literal["source", "sink"]
"""Which way a connector's data goes: into Kafka, or out of it."""

CLASS_KEY: Final = "connector.class"
"""The key that names a connector's class."""
_ID: Final = "task.id"
_PAYLOAD: Final = "task.payload"


@dataclass(frozen=True, slots=True)
class Task:
    """One piece of work.

    Attributes:
        id: its name, unique in the connector and stable: its state is stored under it.
        payload: the data that it needs; anything that JSON can represent.
        weight: its share of a worker's load, relative to other tasks: the sums of workers are balanced. 0.001 to
            1,000,000; None: the connector's `task.weight`, or 1. A task with a new weight is not interrupted.
    """

    id: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    weight: float | None = None

    def config(self) -> Config:
        """Return the configuration as it is stored.

        Raises:
            ConnectorConfigError: the id is not a string, JSON cannot represent the payload, or the weight is invalid.
        """
        given: object = self.id
        if not isinstance(given, str) or not given:
            raise ConnectorConfigError(_ID, f"must be a non-empty string, not {given!r:.200}")
        try:
            payload = json.dumps(self.payload, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ConnectorConfigError(
                f"{_PAYLOAD} of {self.id!r}", f"must be JSON-serializable: {error}"
            ) from None
        config = {_ID: self.id, _PAYLOAD: payload}
        if self.weight is not None:
            counted(self.weight)
            config[WEIGHT_KEY] = str(self.weight)
        return config

    @classmethod
    def of(cls, config: Config, number: int) -> "Task":
        """Decode a stored task configuration.

        One written by other software becomes the payload as it is, and its number the id.
        """
        if _ID not in config:
            return cls(str(number), dict(config))
        try:
            payload = json.loads(config.get(_PAYLOAD) or "{}")
        except ValueError:
            payload = {}
        try:
            weight = float(config[WEIGHT_KEY]) if weight_of(config) is not None else None
        except ConnectorConfigError:
            weight = None
        return cls(config[_ID], payload if isinstance(payload, dict) else {}, weight)


class StopSignal(Protocol):
    """The stop signal of a task, used like `threading.Event`."""

    def is_set(self) -> bool:
        """Return whether to end."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the task has to end.

        Args:
            timeout: the longest wait in seconds; None for no limit.

        Returns:
            Whether the task has to end.
        """
        ...


class TaskContext(Protocol):
    """The context of a running task."""

    @property
    def stop(self) -> StopSignal:
        """Set when the task has to end: it was revoked, lost, paused or restarted, or the worker is stopping."""
        ...

    @property
    def generation(self) -> int:
        """The fencing token: higher than that of every former owner of the task, as long as the group exists.

        Write it with each result, and have the storage refuse a smaller one after a greater one.

        Raises:
            TaskFencedError: the worker's session is over, by its own clock.
        """
        ...

    @property
    def state(self) -> TaskState | None:
        """The last committed state, whoever ran the task; None if there is none yet."""
        ...

    @property
    def warm(self) -> Any:
        """The data last kept by this worker's standby of the task; None if it had no standby."""
        ...

    def attempt(self, record: R, act: Callable[[R], object]) -> bool:
        """Handle a record, as far as the connector's configuration tolerates errors (KIP-298).

        Temporary errors are retried for `errors.retry.timeout` milliseconds: `RetriableError`, errors whose
        `retriable` is true, and those of connections and timeouts. A record that cannot be handled is written to
        the dead letters, if there is a topic for them, and skipped with `errors.tolerance=all`.

        Args:
            record: a record of confluent-kafka's, an `ErrantRecord`, or anything else.
            act: handles a record.

        Returns:
            Whether it was handled; otherwise it was skipped.

        Raises:
            Exception: what `act` raised, where that is not tolerated, or the task has to end.
            TaskFencedError: another worker may own the task by now.
            StoreError: the dead letter could not be written.
        """
        ...

    def uses_topic(self, topic: str) -> None:
        """Record that the task reads or writes a topic, which `/connectors/NAME/topics` lists (KIP-558).

        Returns at once; cheap enough to be called for each record.

        Args:
            topic: the topic's name.

        Raises:
            ValueError: the name is not a valid topic name.
        """
        ...

    def commit(self, state: TaskState) -> None:
        """Commit a state, and wait until it is stored.

        Args:
            state: anything that JSON can represent; `state` returns it when the task runs next, on any worker.

        Raises:
            TaskFencedError: another worker may own the task by now.
            StoreError: it could not be written in time.
        """
        ...


class AsyncStopSignal(Protocol):
    """The stop signal of a coroutine, used like `asyncio.Event` but with a timeout."""

    def is_set(self) -> bool:
        """Return whether to end."""
        ...

    async def wait(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109  # as threading.Event
        """Wait until the coroutine has to end.

        Args:
            timeout: the longest wait in seconds; None for no limit.

        Returns:
            Whether the coroutine has to end.
        """
        ...


class AsyncTaskContext(Protocol):
    """The context of a running `async def` task: `TaskContext` with `stop.wait` and `commit` as coroutines.

    All coroutines of a worker share one event loop; nothing here holds it up.
    """

    @property
    def stop(self) -> AsyncStopSignal:
        """Set when the task has to end; see `TaskContext.stop`."""
        ...

    @property
    def generation(self) -> int:
        """The fencing token; see `TaskContext.generation`."""
        ...

    @property
    def state(self) -> TaskState | None:
        """The last committed state, whoever ran the task; None if there is none yet."""
        ...

    @property
    def warm(self) -> Any:
        """The data last kept by this worker's standby of the task; None if it had no standby."""
        ...

    async def attempt(self, record: R, act: Callable[[R], object]) -> bool:
        """Handle a record as `TaskContext.attempt` does; `act` is a `def` or an `async def`."""
        ...

    def uses_topic(self, topic: str) -> None:
        """Record that the task reads or writes a topic; see `TaskContext.uses_topic`."""
        ...

    def commit(self, state: TaskState) -> Awaitable[None]:
        """Commit a state; it is stored once this has been awaited.

        States are kept in the order of the calls, awaited or not.

        Args:
            state: anything that JSON can represent; it is read before the call returns.

        Raises:
            TaskFencedError: another worker may own the task by now.
            StoreError: it could not be written in time.
        """
        ...


class StandbyContext(Protocol):
    """The context of a standby. It allows preparing but not acting, as another worker runs the task."""

    @property
    def stop(self) -> StopSignal:
        """Set when the standby has to end: this worker takes the task over, or no longer needs the standby."""
        ...

    @property
    def state(self) -> TaskState | None:
        """The last committed state of the task that this worker has read; None if there is none yet."""
        ...

    def keep(self, warm: Any) -> None:
        """Keep data in this process, replacing earlier data; it becomes `TaskContext.warm` on promotion.

        Args:
            warm: any object; it is passed by reference, never copied or serialised.
        """
        ...


class AsyncStandbyContext(Protocol):
    """The context of an `async def` standby: `StandbyContext` with `stop.wait` as a coroutine."""

    @property
    def stop(self) -> AsyncStopSignal:
        """Set when the standby has to end; see `StandbyContext.stop`."""
        ...

    @property
    def state(self) -> TaskState | None:
        """The last committed state of the task that this worker has read; None if there is none yet."""
        ...

    def keep(self, warm: Any) -> None:
        """Keep data in this process; see `StandbyContext.keep`."""
        ...


class Connector(ABC):
    """A kind of work: subclass it, and register the class with `Worker.connector`.

    The leader creates an object to plan the tasks; a worker creates one for each run of a task.

    Args:
        name: the connector's name.
        config: its configuration, with variables resolved.
    """

    host: ClassVar[Host] = "thread"
    """Where `run` runs. A process can be ended by force, and does not share the GIL with other tasks."""
    required: ClassVar[Sequence[str]] = ()
    """The keys that a configuration must have."""
    secrets: ClassVar[Collection[str]] = ()
    """The keys whose values are never shown, besides those named password, secret, token and the like."""
    kind: ClassVar[Kind] = "source"
    """Whether data goes into Kafka (source) or out of it (sink), for the REST API."""
    version: ClassVar[str] = UNDEFINED
    """The version of this class, as statuses and `/connector-plugins` show it."""

    def __init__(self, name: str, config: Config) -> None:
        self.name = name
        self.config = config

    @classmethod
    def validate(cls, config: Config) -> None:
        """Check a configuration. Override it for more than `required`, whose keys are there when it is called.

        Called on the worker that is asked to store or validate a configuration, with variables resolved.

        Args:
            config: the configuration.

        Raises:
            ConnectorConfigError: a value is missing or invalid; `field` names its key.
        """
        for key in cls.required:
            if not config.get(key):
                raise ConnectorConfigError(key, "is missing")

    @classmethod
    def recipe(cls) -> tuple[Callable[..., type["Connector"]], tuple[Any, ...]]:
        """Return a picklable callable and its arguments that recreate this class in another process."""
        return _itself, (cls,)

    @abstractmethod
    def plan(self) -> Iterable[Task]:
        """Return the tasks; called on the leader, at each rebalance and each `reconfigure`."""

    @abstractmethod
    def run(self, task: Task, context: Any) -> Awaitable[None] | None:
        """Run one task until `context.stop` is set; a `def`, or an `async def`.

        When it returns by itself the task is done. When it raises it is started again, see `RestartPolicy`.

        Args:
            task: the task, its variables resolved.
            context: a `TaskContext` for a `def`, an `AsyncTaskContext` for an `async def`.
        """

    def standby(self, task: Task, context: Any) -> Awaitable[None] | None:
        """Prepare for a task that another worker runs; a `def` or an `async def`, like `run`. Optional.

        Called if the configuration has `standby.replicas`. It loads the data that take long to load, passes them to
        `context.keep`, and returns, or follows the task until `context.stop` is set. It must have no visible effect:
        the task has an owner. If that dies, this worker is the first choice for the task, and `run` finds the data
        in `context.warm`.

        Args:
            task: the task, its variables resolved.
            context: a `StandbyContext` for a `def`, an `AsyncStandbyContext` for an `async def`.
        """
        return None


def _itself(kind: type[Connector]) -> type[Connector]:
    return kind


def is_async(function: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(function)


def check_standby(connector: type[Connector]) -> None:
    """Raise ConnectorConfigError if the class has no `standby`, or its tasks run in processes, where its data cannot go."""
    if connector.standby is Connector.standby:
        raise ConnectorConfigError(REPLICAS_KEY, f"{connector.__name__} has no standby method")
    if connector.host == "process" and not is_async(connector.run):
        raise ConnectorConfigError(
            REPLICAS_KEY,
            "the state of a standby cannot be passed to the process that its task runs in",
        )


def checked_tasks(planned: object) -> tuple[Task, ...]:
    """Return what `Connector.plan` returned as tasks, each of which can be stored.

    Raises TypeError if it does not yield `Task`s. Raises ConnectorConfigError if a task cannot be stored.
    """
    if isinstance(planned, str | bytes) or not isinstance(planned, Iterable):
        raise TypeError(f"plan() must return a list of Task, not {type(planned).__name__}")
    tasks = tuple(planned)
    for task in tasks:
        if not isinstance(task, Task):
            raise TypeError(f"plan() must return a list of Task, and {task!r:.200} is not one")
        task.config()
    return tasks


def numbered(before: Sequence[Config], tasks: Iterable[Task]) -> list[Config]:
    """Return the configurations of tasks by number, changing as few numbers as possible.

    Raises ConnectorConfigError if two tasks have the same id.
    """
    wanted: dict[str, Config] = {}
    for task in tasks:
        if task.id in wanted:
            raise ConnectorConfigError(_ID, f"two tasks have the id {task.id!r}")
        wanted[task.id] = task.config()
    places: list[Config | None] = [None] * len(wanted)
    for number, config in enumerate(before[: len(places)]):
        kept = wanted.pop(config.get(_ID, ""), None)
        places[number] = kept
    rest = iter(wanted.values())
    return [next(rest) if config is None else config for config in places]
