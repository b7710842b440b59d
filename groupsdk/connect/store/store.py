"""The interface of the stores of configurations, task states and statuses, and what they know in memory."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

from groupsdk.connect.errors import TaskFencedError
from groupsdk.connect.group.work import StandbyRecord
from groupsdk.connect.store.config_backing_store import (
    ClusterConfigState,
    ClusterRequest,
    ConfigLog,
    Record,
)
from groupsdk.connect.store.status_backing_store import ActiveTopics, Status, TopicUse
from groupsdk.connect.tasks.task import TaskState
from groupsdk.dead_letters import ErrantRecord


StateKey = tuple[str, str]


class ConnectStore(Protocol):
    """Stores everything that outlives a worker. All methods but `start` and `close` are thread-safe.

    A method that cannot finish in time raises `StoreError`.
    """

    on_change: Callable[[], None]
    """Called, from any thread, when configurations have changed."""
    on_request: Callable[[ClusterRequest], None]
    """Called, from any thread, with each request to all workers that was written after `start`."""

    def start(self) -> None:
        """Create the topics or files that are missing, and read everything to its end."""
        ...

    def close(self) -> None:
        """Close the store. May be repeated."""
        ...

    def configs(self) -> ClusterConfigState: ...

    def read_configs(self, timeout_ms: int) -> None:
        """Wait until all configurations written before the call are read."""
        ...

    def cluster_id(self) -> str:
        """Return the id of the Kafka cluster; "" without Kafka, or if it is not known yet."""
        ...

    def failing_ms(self) -> int:
        """Return how long reading configurations has been failing, in milliseconds; 0 if it is not."""
        ...

    def claim(self) -> None:
        """Become the only writer of configurations, and fence the previous one."""
        ...

    def write_configs(self, records: Sequence[Record]) -> None:
        """Write records of the config topic, all of them or none, and read them back. Only the leader may do this.

        Raises StoreFencedError if another worker has become the writer.
        """
        ...

    def fence_producers(self, connector: str, count: int) -> None:
        """Fence the transactional producers of a connector's tasks, which are named as in Kafka Connect (KIP-618)."""
        ...

    def put_status(self, key: str, status: Status | None) -> None:
        """Write the status under its `status_backing_store.status_key`, without waiting."""
        ...

    def statuses(self) -> Mapping[str, Status]:
        """Return the last status of each connector and task, from all workers."""
        ...

    def put_topic(self, use: TopicUse) -> None:
        """Record that a connector uses a topic. Does not wait."""
        ...

    def topics(self, connector: str) -> Sequence[str]:
        """Return the topics that a connector has used on any worker, sorted."""
        ...

    def forget_topics(self, connector: str) -> None:
        """Reset the topics that a connector has used. Does not wait."""
        ...

    def put_dead_letter(self, topic: str, copies: int, record: ErrantRecord) -> None:
        """Write the key, value and headers of a record that could not be handled to a topic, and wait until it is stored.

        The topic is created if it is missing, with `copies` as its replication factor; -1: the brokers' default.
        """
        ...

    def put_standbys(self, record: StandbyRecord) -> None:
        """Write the standby assignment, without waiting; one of a lower generation than the last is ignored."""
        ...

    def standbys(self) -> StandbyRecord: ...

    def state(self, key: StateKey) -> TaskState | None:
        """Return the last committed state of a task that was read; None if there is none."""
        ...

    def states(self, connector: str) -> Mapping[str, TaskState]:
        """Return the last committed states of a connector's tasks by id, planned or not."""
        ...

    def put_states(
        self, states: Mapping[StateKey, TaskState | None], token: int, timeout_ms: int
    ) -> None:
        """Take ownership of task states from their owners, and set the states; None removes a state.

        Later commits with lower fencing tokens are void.
        """
        ...

    def fence(
        self, keys: Iterable[StateKey], token: int, timeout_ms: int
    ) -> Mapping[StateKey, TaskState]:
        """Take ownership of task states: later commits with lower tokens are void. Return the committed states."""
        ...

    def commit(self, key: StateKey, token: int, state: TaskState) -> None:
        """Store a task's state, and wait until it is stored, ahead of anything from a later owner.

        Raises TaskFencedError if the task has a later owner; perhaps only since this call began.
        """
        ...

    def begin_commit(self, key: StateKey, token: int, state: TaskState) -> "Future[None]":
        """Start storing a task's state without waiting; states of one task are kept in the order of the calls.

        The future raises what `commit` raises; errors known beforehand are raised at once.
        """
        ...

    def last_token(self) -> int:
        """Return the highest token that fenced a task's state; -1 if there is none."""
        ...


class TaskStates:
    """The states of tasks: the record with the greatest token owns a task. Not thread-safe."""

    def __init__(self) -> None:
        self.last_token = -1
        """The greatest token of any task."""
        self.owned: dict[StateKey, tuple[int, TaskState | None]] = {}
        """The token that owns each task, and its state."""

    def put(self, key: StateKey, token: int, state: TaskState | None) -> None:
        self.owned[key] = token, state
        self.last_token = max(self.last_token, token)

    def get(self, key: StateKey) -> tuple[int, TaskState | None]:
        """Return the token that owns a task, -1 for none, and its state, None for none."""
        return self.owned.get(key, (-1, None))

    def of(self, connector: str) -> dict[str, TaskState]:
        """Return the states of a connector's tasks, by their ids."""
        return {
            task: state
            for (name, task), (_, state) in self.owned.items()
            if name == connector and state is not None
        }


class StoreContent:
    """What is known of the records so far. `lock` guards the rest."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.configs = ConfigLog()
        self.states = TaskStates()
        self.statuses: dict[str, Status] = {}
        self.standbys = StandbyRecord()
        self.topics = ActiveTopics()


def _nothing(*_: object) -> None: ...


class BaseStore:
    """The part of a `ConnectStore`, which documents its methods, that returns what is known."""

    def __init__(self, content: StoreContent) -> None:
        self.on_change: Callable[[], None] = _nothing
        self.on_request: Callable[[ClusterRequest], None] = _nothing
        self._content = content

    def configs(self) -> ClusterConfigState:
        configs = self._content.configs
        with self._content.lock:
            return configs.latest or configs.snapshot()

    def statuses(self) -> Mapping[str, Status]:
        with self._content.lock:
            return dict(self._content.statuses)

    def topics(self, connector: str) -> Sequence[str]:
        with self._content.lock:
            return self._content.topics.of(connector)

    def standbys(self) -> StandbyRecord:
        with self._content.lock:
            return self._content.standbys

    def state(self, key: StateKey) -> TaskState | None:
        with self._content.lock:
            return self._content.states.get(key)[1]

    def states(self, connector: str) -> Mapping[str, TaskState]:
        with self._content.lock:
            return self._content.states.of(connector)

    def last_token(self) -> int:
        with self._content.lock:
            return self._content.states.last_token

    def _check_owned(self, keys: Iterable[StateKey], token: int) -> None:
        """Refuse to go on where a task has a later owner, as far as that is known."""
        with self._content.lock:
            for key in keys:
                owner, _ = self._content.states.get(key)
                if owner > token:
                    raise TaskFencedError(
                        f"task {key[1]!r} of connector {key[0]!r} was taken over under {owner}, after {token}"
                    )
