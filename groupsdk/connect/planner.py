"""Ask connectors what their tasks are, in a thread of their own: their code may take as long as it likes."""

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from groupsdk.connect.config_records import MAX_TASKS
from groupsdk.connect.config_state import Config
from groupsdk.connect.errors import ConnectorConfigError
from groupsdk.connect.task import CLASS_KEY, Connector, Task


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
    """

    def __init__(self, classes: Mapping[str, type[Connector]], notify: Callable[[], None]) -> None:
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
            tasks = tuple(kind(name, config).plan())
        except Exception as error:  # noqa: BLE001  # the user's, told by the worker
            return Plan(name, config, error=error)
        if len(tasks) > MAX_TASKS:
            wrong = ConnectorConfigError("tasks", f"{len(tasks)} are more than {MAX_TASKS}")
            return Plan(name, config, error=wrong)
        return Plan(name, config, tasks)
