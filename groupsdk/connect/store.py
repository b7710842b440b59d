"""The interface of the stores of configurations, task states and statuses."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

from groupsdk.connect.config_backing_store import ClusterConfigState, ClusterRequest, Record
from groupsdk.connect.status_backing_store import Status, TopicUse
from groupsdk.connect.task import TaskState
from groupsdk.connect.tolerance import ErrantRecord
from groupsdk.connect.work import StandbyRecord


StateKey = tuple[str, str]
"""A connector's name and the id of one of its tasks."""


class ConnectStore(Protocol):
    """Stores everything that outlives a worker. All methods but `start` and `close` are thread-safe.

    What cannot be done in time raises `StoreError`.
    """

    on_change: Callable[[], None]
    """Called, from any thread, when configurations have changed."""
    on_request: Callable[[ClusterRequest], None]
    """Called, from any thread, when all workers are asked for something; never for what was asked before `start`."""

    def start(self) -> None:
        """Create what is missing, and read everything to its end."""
        ...

    def close(self) -> None:
        """Close the store. May be repeated."""
        ...

    def configs(self) -> ClusterConfigState:
        """Return the configurations read so far."""
        ...

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
        """Write configurations, all of them or none, and read them.

        Raises:
            StoreFencedError: another worker has become the writer.
        """
        ...

    def fence_producers(self, connector: str, count: int) -> None:
        """Fence the producers of a number of tasks of a connector, as Kafka Connect names them."""
        ...

    def put_status(self, key: str, status: Status | None) -> None:
        """Write the status of a connector or task; None removes it. Does not wait."""
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
        """Write a record that could not be handled to a topic, and wait until it is stored.

        Args:
            topic: the topic, which is made where it is missing.
            copies: how many copies it is made with; -1: the brokers' default.
            record: its key, value and headers; where it is from does not matter.
        """
        ...

    def put_standbys(self, record: StandbyRecord) -> None:
        """Write the standby assignment; one of a lower generation is ignored. Does not wait."""
        ...

    def standbys(self) -> StandbyRecord:
        """Return the last standby assignment."""
        ...

    def state(self, key: StateKey) -> TaskState | None:
        """Return the last committed state of a task that was read; None if there is none."""
        ...

    def states(self, connector: str) -> Mapping[str, TaskState]:
        """Return the last committed states of a connector's tasks by id, planned or not."""
        ...

    def put_states(
        self, states: Mapping[StateKey, TaskState | None], token: int, timeout_ms: int
    ) -> None:
        """Take ownership of task states from their owner, and set them; None removes a state."""
        ...

    def fence(
        self, keys: Iterable[StateKey], token: int, timeout_ms: int
    ) -> Mapping[StateKey, TaskState]:
        """Take ownership of task states: later commits with lower tokens are void.

        Returns:
            What was committed before, where anything was.
        """
        ...

    def commit(self, key: StateKey, token: int, state: TaskState) -> None:
        """Store a task's state, and wait until it is stored, ahead of anything from a later owner.

        Raises:
            TaskFencedError: the task has a later owner; perhaps only since this call began.
        """
        ...

    def begin_commit(self, key: StateKey, token: int, state: TaskState) -> "Future[None]":
        """Start storing a task's state without waiting; the future raises what `commit` raises.

        What is known to be wrong beforehand is raised at once. States of one task are kept in the order of the
        calls.
        """
        ...

    def last_token(self) -> int:
        """Return the highest token that fenced a task's state; -1 if there is none."""
        ...
