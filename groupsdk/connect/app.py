"""Define a worker program: `Worker`, with decorators or with connector classes."""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from inspect import getattr_static
from pathlib import Path
from typing import Any, Final, Self, TypeVar, get_args

from groupsdk.connect.config import ConnectConfig
from groupsdk.connect.connectors.connector_config import check_config
from groupsdk.connect.connectors.secrets import has_variables
from groupsdk.connect.errors import ConnectError
from groupsdk.connect.group.coordinator import (
    ConnectCoordinator,
    OpenGroup,
    RebalanceListener,
    WorkerMembership,
)
from groupsdk.connect.group.local_group import LocalGroup
from groupsdk.connect.group.work import REPLICAS_KEY, replicas_of
from groupsdk.connect.store.config_backing_store import ClusterConfigState, Config
from groupsdk.connect.store.file_store import FileStore
from groupsdk.connect.store.status_backing_store import owned_before
from groupsdk.connect.store.store import ConnectStore
from groupsdk.connect.tasks.task import (
    CLASS_KEY,
    AsyncStandbyContext,
    AsyncTaskContext,
    Connector,
    Host,
    Kind,
    StandbyContext,
    Task,
    TaskContext,
    check_standby,
    is_async,
)
from groupsdk.connect.worker import ConnectWorker
from groupsdk.errors import ConfigError
from groupsdk.lazy_imports import override


logger = logging.getLogger(__name__)

PlanFunction = Callable[[], Iterable[Task]]
TaskFunction = (
    Callable[[Task, TaskContext], None]
    | Callable[[Task, AsyncTaskContext], Coroutine[Any, Any, None]]
)
StandbyFunction = (
    Callable[[Task, StandbyContext], None]
    | Callable[[Task, AsyncStandbyContext], Coroutine[Any, Any, None]]
)
PlanT = TypeVar("PlanT", bound=PlanFunction)
TaskT = TypeVar("TaskT", bound=TaskFunction)
StandbyT = TypeVar("StandbyT", bound=StandbyFunction)
ConnectorT = TypeVar("ConnectorT", bound=type[Connector])

_TOKEN_MASK: Final = 2**32 - 1
_NO_GROUP: Final = {"group.id": "standalone", "bootstrap.servers": "localhost:9092"}
"""Settings that are required, though a standalone worker does not use them."""


class Worker:
    """A program whose work is shared among all processes that run it.

    The decorator form has one kind of work::

        app = Worker(group="crawlers", bootstrap_servers="...")

        @app.tasks                      # on the leader: what there is to do
        def plan() -> list[Task]: ...

        @app.task                       # on one worker for each task
        def crawl(task: Task, context: TaskContext) -> None: ...

    The class form has connectors with stored configurations: `connector` registers their classes, `add` defines
    permanent ones, and `ConnectWorker.admin.put_connector` and the REST API create others at run time.

    Args:
        group: the group of workers; may be given to `start` instead.
        settings: Kafka's and Connect's keys, see `ConnectConfig`.
    """

    def __init__(self, group: str | None = None, /, **settings: Any) -> None:
        self._settings: dict[str, Any] = {} if group is None else {"group.id": group}
        if "group" in settings:
            settings["group.id"] = settings.pop("group")
        self._settings |= {key.replace("_", "."): value for key, value in settings.items()}
        self._classes: dict[str, type[Connector]] = {}
        self._permanent: dict[str, Config] = {}
        self._functions: _Functions | None = None
        self._worker: ConnectWorker | None = None

    def tasks(self, function: PlanT, /) -> PlanT:
        """Register the function that plans the tasks; works as a decorator.

        Args:
            function: returns the tasks; called on the leader, at the start and after `reconfigure`.
        """
        self._pair().plan = function
        return function

    def task(self, function: TaskT | None = None, /, *, host: Host = "thread") -> Any:
        """Register the function that runs one task: a `def` or an `async def`.

        Args:
            function: the function.
            host: where a `def` runs: "thread", or "process", which needs functions at the top of a module.
        """

        def take(taken: TaskT) -> TaskT:
            pair = self._pair()
            pair.run, pair.host = taken, host
            return taken

        return take if function is None else take(function)

    def standby(self, *, replicas: int = 1) -> Callable[[StandbyT], StandbyT]:
        """Register the function that keeps a standby of a task warm; see `Connector.standby`.

        Args:
            replicas: how many other workers keep each task warm.
        """

        def take(taken: StandbyT) -> StandbyT:
            pair = self._pair()
            pair.standby, pair.replicas = taken, replicas
            return taken

        return take

    def connector(self, kind: ConnectorT, /) -> ConnectorT:
        """Register a class of connectors; works as a decorator. Configurations name it in `connector.class`.

        Args:
            kind: the class; its name must be unique among the registered ones.

        Raises:
            ConfigError: the name is taken, the class's `kind` is not one of "source" and "sink", or its `validate` is
                not a classmethod.
        """
        if kind.__name__ in self._classes:
            raise ConfigError(f"two connectors are named {kind.__name__}")
        if kind.kind not in get_args(Kind):
            raise ConfigError(
                f"{kind.__name__}.kind must be one of {', '.join(get_args(Kind))}, not {kind.kind!r}"
            )
        if not isinstance(getattr_static(kind, "validate"), classmethod | staticmethod):
            raise ConfigError(
                f"{kind.__name__}.validate must be a classmethod: it checks a configuration before there is a"
                " connector. Write @classmethod above def validate(cls, config)"
            )
        self._classes[kind.__name__] = kind
        return kind

    def add(self, name: str, kind: type[Connector], /, **config: str) -> None:
        """Add a permanent connector.

        Args:
            name: the connector's name.
            kind: its class; registered if it is not yet.
            **config: its configuration; underscores in keys stand for dots.

        Raises:
            ConfigError: the class cannot be registered.
            ConnectorConfigError: the configuration is wrong.
        """
        if self._classes.get(kind.__name__) is not kind:
            self.connector(kind)
        whole = {CLASS_KEY: kind.__name__, **{k.replace("_", "."): v for k, v in config.items()}}
        if not has_variables(whole):  # otherwise when they are resolved: where it is planned
            check_config(kind, whole)
        self._permanent[name] = whole

    def start(
        self, settings: Mapping[str, Any] | None = None, /, *, url: str = "", **keywords: Any
    ) -> ConnectWorker:
        """Start a worker in the group.

        Args:
            settings: more settings, which win over those of the constructor.
            url: the URL of this worker's REST API; "": it has none.
            keywords: the same as keywords.

        Raises:
            ConfigError: a setting is unknown, missing or wrong, or there is nothing to do.
            StoreUnreachableError: no broker answers; the same call may succeed later.
            StoreError: the topics cannot be made or read.
        """
        config = self._config(settings, keywords, {})

        # imported here, so that a worker without a broker does not need confluent-kafka
        from groupsdk.connect.store.kafka_store import KafkaStore

        store = KafkaStore(config)

        def join(
            listener: RebalanceListener, configs: Callable[[], ClusterConfigState]
        ) -> WorkerMembership:
            return ConnectCoordinator(
                config.member,
                listener=listener,
                configs=configs,
                mode=config.connect_protocol,
                max_delay_ms=config.scheduled_rebalance_max_delay_ms,
                url=url,
                before=lambda: owned_before(store.configs(), store.statuses()),
                standbys=store.standbys,
            )

        return self._run(join, store, config)

    def start_standalone(
        self,
        path: Path | str | None,
        settings: Mapping[str, Any] | None = None,
        /,
        **keywords: Any,
    ) -> ConnectWorker:
        """Run everything in this process, without a broker.

        Args:
            path: the file that keeps configurations and states; None: they are forgotten at the end.
            settings: more settings, in place of those that the `Worker` was made with. What is about the group and
                its topics has no meaning here.
            keywords: the same as keywords.

        Raises:
            ConfigError: a setting is unknown or wrong, or there is nothing to do.
            StoreError: the file cannot be read or written.
        """
        config = self._config(settings, keywords, _NO_GROUP)
        store = FileStore(path)

        def first_generation() -> int:
            return (max(0, store.last_token()) & _TOKEN_MASK) + 1

        return self._run(
            lambda listener, configs: LocalGroup(listener, configs, first_generation),
            store,
            config,
        )

    def _config(
        self,
        settings: Mapping[str, Any] | None,
        keywords: Mapping[str, Any],
        otherwise: Mapping[str, Any],
    ) -> ConnectConfig:
        given = {
            key.replace("_", "."): each for key, each in {**(settings or {}), **keywords}.items()
        }
        return ConnectConfig.of({**otherwise, **self._settings, **given})

    def _run(self, join: OpenGroup, store: ConnectStore, config: ConnectConfig) -> ConnectWorker:
        classes, permanent = dict(self._classes), dict(self._permanent)
        if self._functions is not None:
            kind = self._functions.connector()
            classes[kind.__name__] = kind
            permanent["tasks"] = {CLASS_KEY: kind.__name__, **self._functions.config(kind)}
        if not classes:
            raise ConfigError(
                "the worker has no connectors: register a function with @app.task, or a class with @app.connector"
            )
        worker = ConnectWorker(join, store, classes, permanent, config)
        try:
            worker.start()
        except BaseException:
            worker.stop()
            raise
        self._worker = worker
        return worker

    def reconfigure(self) -> None:
        """Have the leader plan the tasks again, for example because they have changed. Thread-safe.

        Raises:
            ConnectError: the worker has not been started.
        """
        if self._worker is None:
            raise ConnectError("the worker has not been started")
        self._worker.reconfigure()

    def stop(self, timeout: float = 30.0) -> bool:
        """Stop all work and leave the group. Idempotent.

        Args:
            timeout: the longest wait in seconds.

        Returns:
            Whether that finished in time.
        """
        return self._worker is None or self._worker.stop(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _pair(self) -> "_Functions":
        if self._functions is None:
            self._functions = _Functions()
        return self._functions


class _Functions:
    def __init__(self) -> None:
        self.plan: PlanFunction | None = None
        self.run: TaskFunction | None = None
        self.host: Host = "thread"
        self.standby: StandbyFunction | None = None
        self.replicas = 0

    def config(self, kind: type[Connector]) -> Config:
        """Return the connector's configuration without its class. Raises ConnectorConfigError if it cannot have its standbys."""
        if self.standby is None:
            return {}
        config = {REPLICAS_KEY: str(self.replicas)}
        if replicas_of(config):
            check_standby(kind)
        return config

    def connector(self) -> type[Connector]:
        """Return the connector class for these functions. Raises ConfigError if one is missing."""
        plan, run = self.plan, self.run
        if plan is None or run is None:
            missing = "@app.tasks (what there is to do)" if plan is None else "@app.task (how)"
            raise ConfigError(f"{missing} is missing")
        return FunctionConnector.made_of(plan, run, self.host, self.standby)


def _method(standby: StandbyFunction) -> Callable[..., Any]:
    """Wrap a function of two arguments as a method; a coroutine stays one."""

    def wrapped(_: Connector, task: Task, context: Any) -> Awaitable[None] | None:
        return standby(task, context)

    async def wrapped_async(_: Connector, task: Task, context: Any) -> None:
        awaitable = standby(task, context)
        assert awaitable is not None
        await awaitable

    return wrapped_async if is_async(standby) else wrapped


class FunctionConnector(Connector):
    """The connector of a program that uses decorators."""

    functions: tuple[PlanFunction, TaskFunction]

    @classmethod
    def made_of(
        cls,
        plan: PlanFunction,
        run: TaskFunction,
        host: Host,
        standby: StandbyFunction | None = None,
    ) -> type[Connector]:
        """Return a `Connector` class that runs these functions; without `standby` it has no standbys."""

        async def run_async(self: FunctionConnector, task: Task, context: Any) -> None:
            awaitable = run(task, context)
            assert awaitable is not None
            await awaitable

        fields: dict[str, Any] = {"functions": (plan, run), "host": host}
        if is_async(run):
            fields["run"] = run_async
        if standby is not None:
            fields["standby"] = _method(standby)
        return type("FunctionConnector", (cls,), fields)

    @override
    @classmethod
    def recipe(cls) -> tuple[Callable[..., type[Connector]], tuple[Any, ...]]:
        return FunctionConnector.made_of, (*cls.functions, cls.host)

    @override
    def plan(self) -> Iterable[Task]:
        return self.functions[0]()

    @override
    def run(self, task: Task, context: Any) -> Awaitable[None] | None:
        return self.functions[1](task, context)
