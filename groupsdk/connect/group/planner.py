"""Ask connectors for their tasks, on the group's leader."""

import logging
import queue
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from groupsdk.connect.connectors.connector_config import check_count
from groupsdk.connect.connectors.secrets import NO_PROVIDERS, ConfigProviders, secrets_of
from groupsdk.connect.errors import ConnectorConfigError
from groupsdk.connect.loggers import connector_context
from groupsdk.connect.store.config_backing_store import Config
from groupsdk.connect.store.status_backing_store import stack_trace
from groupsdk.connect.tasks.task import CLASS_KEY, Connector, Task, checked_tasks


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """The tasks that a connector planned, or why it could not."""

    name: str
    config: Config
    tasks: Sequence[Task] = ()
    trace: str | None = None
    """The stack trace of its class, with secrets masked; None: it has planned."""
    secrets: Collection[str] = field(default=(), repr=False, compare=False)
    """The values to mask in errors."""


_SLOW_MS: Final = 5_000
_MOST_THREADS: Final = 16


class Planner:
    """Plans the tasks of connectors on daemon threads: `plan` is the user's, and may never return.

    `notify` is called, on such a thread, when `take` has a result.
    """

    def __init__(
        self,
        classes: Mapping[str, type[Connector]],
        notify: Callable[[], None],
        providers: ConfigProviders = NO_PROVIDERS,
    ) -> None:
        self._providers = providers
        self._classes = classes
        self._notify = notify
        self._lock = threading.Lock()
        self._waiting: dict[str, Config] = {}
        self._planning: set[str] = set()
        self._answers: queue.SimpleQueue[Plan] = queue.SimpleQueue()
        self._threads = 0
        self._closed = False

    @property
    def busy(self) -> bool:
        with self._lock:
            return self._threads > 0

    def ask(self, name: str, config: Config) -> None:
        """Queue a connector to have its tasks planned, in place of one of its name that is still queued. Thread-safe."""
        with self._lock:
            if self._closed:
                return
            self._waiting[name] = config
            # whoever plans it now plans it again
            if name not in self._planning and self._threads < _MOST_THREADS:
                self._threads += 1
                threading.Thread(target=self._work, name="groupsdk-planner", daemon=True).start()

    def take(self) -> list[Plan]:
        answers = []
        while not self._answers.empty():
            answers.append(self._answers.get())
        return answers

    def close(self) -> None:
        """Drop what is queued, and accept no more."""
        with self._lock:
            self._closed = True
            self._waiting.clear()

    def _work(self) -> None:
        while (asked := self._next()) is not None:
            name, config = asked
            slow = threading.Timer(_SLOW_MS / 1000, _warn, (name,))
            slow.daemon = True
            slow.start()
            plan = self._answer(name, config)
            slow.cancel()
            with self._lock:
                self._planning.discard(name)
            self._answers.put(plan)
            self._notify()

    def _next(self) -> tuple[str, Config] | None:
        """Return the next connector to plan; None: the thread ends."""
        with self._lock:
            # the same connector is never planned twice at a time
            name = next((each for each in self._waiting if each not in self._planning), None)
            if name is None:
                self._threads -= 1
                return None
            self._planning.add(name)
            return name, self._waiting.pop(name)

    def _answer(self, name: str, config: Config) -> Plan:
        kind = self._classes.get(config.get(CLASS_KEY, ""))
        if kind is None:
            wrong = ConnectorConfigError(
                CLASS_KEY, f"this worker does not have the class {config.get(CLASS_KEY)!r}"
            )
            return Plan(name, config, trace=stack_trace(wrong))
        secrets: set[str] = set()
        try:
            with connector_context(name):
                secrets |= secrets_of(config, kind.secrets)
                resolved = self._providers.resolve(config)
                secrets |= {*resolved.variables, *secrets_of(resolved.config, kind.secrets)}
                tasks = checked_tasks(kind(name, resolved.config).plan())
            if resolved.variables:
                # what is resolved is never kept: whoever runs a task resolves its payload again
                tasks = tuple(replace(t, payload=resolved.unresolved(t.payload)) for t in tasks)
        except BaseException as error:  # noqa: BLE001  # the user's, told by the worker
            # `sys.exit()` in a plan as well: it would end the thread that plans for all connectors
            # here, as its text and its secrets may be slow to get
            return Plan(name, config, trace=stack_trace(error, secrets))
        try:
            excess = check_count(name, config, len(tasks))
        except ConnectorConfigError as wrong:
            return Plan(name, config, trace=stack_trace(wrong, secrets))
        if excess is not None:
            logger.warning(excess)
        return Plan(name, config, tasks, secrets=secrets)


def _warn(name: str) -> None:
    logger.warning("connector %s: planning its tasks has taken %d ms so far", name, _SLOW_MS)
