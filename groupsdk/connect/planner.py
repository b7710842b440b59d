"""Ask connectors what their tasks are, in a thread of their own: their code may take as long as it likes."""

import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from groupsdk.connect.config_state import Config
from groupsdk.connect.connector_config import check_count
from groupsdk.connect.errors import ConnectorConfigError
from groupsdk.connect.loggers import connector_context
from groupsdk.connect.secrets import NO_PROVIDERS, ConfigProviders
from groupsdk.connect.task import CLASS_KEY, Connector, Task


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a connector answered."""

    name: str
    config: Config
    """The configuration that it was asked with."""
    tasks: Sequence[Task] = ()
    error: Exception | None = None
    """What it raised instead."""


class Planner:
    """Asks one connector after the other; a question that waits already is not asked twice.

    Args:
        classes: connectors' classes by the names that configurations use.
        notify: called when an answer can be taken.
        providers: where the variables of configurations come from.
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
        self._answers: queue.SimpleQueue[Plan] = queue.SimpleQueue()
        self._asking = False
        self._closed = False

    def ask(self, name: str, config: Config) -> None:
        """Ask a connector for its tasks."""
        with self._lock:
            if self._closed:
                return
            self._waiting[name] = config
            if not self._asking:
                self._asking = True
                threading.Thread(target=self._work, name="groupsdk-planner", daemon=True).start()

    def take(self) -> list[Plan]:
        """Return the answers that have come."""
        answers = []
        while not self._answers.empty():
            answers.append(self._answers.get())
        return answers

    def close(self) -> None:
        """Ask no more."""
        with self._lock:
            self._closed = True
            self._waiting.clear()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._asking = False
                    return
                name = next(iter(self._waiting))
                config = self._waiting.pop(name)
            self._answers.put(self._answer(name, config))
            self._notify()

    def _answer(self, name: str, config: Config) -> Plan:
        kind = self._classes.get(config.get(CLASS_KEY, ""))
        if kind is None:
            wrong = ConnectorConfigError(CLASS_KEY, f"no {config.get(CLASS_KEY)!r} is known here")
            return Plan(name, config, error=wrong)
        try:
            with connector_context(name):
                resolved = self._providers.resolve(config)
                tasks = tuple(kind(name, resolved.config).plan())
            if resolved.variables:
                # what is resolved is never kept: whoever runs a task resolves its payload again
                tasks = tuple(replace(t, payload=resolved.unresolved(t.payload)) for t in tasks)
        except Exception as error:  # noqa: BLE001  # the user's, told by the worker
            return Plan(name, config, error=error)
        try:
            excess = check_count(name, config, len(tasks))
        except ConnectorConfigError as wrong:
            return Plan(name, config, error=wrong)
        if excess is not None:
            logger.warning(excess)
        return Plan(name, config, tasks)
