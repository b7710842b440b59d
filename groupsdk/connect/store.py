"""Define where configurations, task states and statuses are kept."""

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
    """Keeps everything that outlives a worker. All but `start` and `close` may be called from any thread.

    What cannot be done in time raises `StoreError`.
    """

    on_change: Callable[[], None]
    """Called, from any thread, when configurations have changed."""
    on_request: Callable[[ClusterRequest], None]
    """Called, from any thread, when all workers are asked for something; never for what was asked before `start`."""

    def start(self) -> None:
        """Make what is missing, and read everything to its end."""
        ...

    def close(self) -> None:
        """End; harmless when repeated."""
        ...

    def configs(self) -> ClusterConfigState:
        """Return the configurations as far as they are read."""
        ...

    def read_configs(self, timeout_ms: int) -> None:
        """Return when all configurations are read that were there at the time of the call."""
        ...

    def cluster_id(self) -> str:
        """Return the id of the Kafka cluster; "" where there is none, or it is not known yet."""
        ...

    def failing_ms(self) -> int:
        """Return for how long configurations could not be read, as an error says; 0 while they can."""
        ...

    def claim(self) -> None:
        """Become the only writer of configurations: whoever was so before can write no more."""
        ...

    def write_configs(self, records: Sequence[Record]) -> None:
        """Write configurations, all of them or none, and read them.

        Raises:
            StoreFencedError: another worker has become the writer.
        """
        ...

    def fence_producers(self, connector: str, count: int) -> None:
        """Shut out the producers that so many tasks of a connector in Kafka Connect write with."""
        ...

    def put_status(self, key: str, status: Status | None) -> None:
        """Say what a connector or task is doing; None: there is no such any more. Does not wait."""
        ...

    def statuses(self) -> Mapping[str, Status]:
        """Return what was last said of each, by all workers."""
        ...

    def put_topic(self, use: TopicUse) -> None:
        """Say that a connector uses a topic. Does not wait."""
        ...

    def topics(self, connector: str) -> Sequence[str]:
        """Return the topics that a connector has used, by all workers, sorted."""
        ...

    def forget_topics(self, connector: str) -> None:
        """Forget the topics that a connector has used. Does not wait."""
        ...

    def put_dead_letter(self, topic: str, copies: int, record: ErrantRecord) -> None:
        """Write a record that could not be handled to a topic, and return when it is kept.

        Args:
            topic: the topic, which is made where it is missing.
            copies: how many copies it is made with; -1: the brokers' default.
            record: its key, value and headers; where it is from does not matter.
        """
        ...

    def put_standbys(self, record: StandbyRecord) -> None:
        """Say who keeps which task warm; a record of a smaller generation does not count. Does not wait."""
        ...

    def standbys(self) -> StandbyRecord:
        """Return what was last said of that."""
        ...

    def state(self, key: StateKey) -> TaskState | None:
        """Return what was last committed for a task, as far as it is read; None for nothing."""
        ...

    def states(self, connector: str) -> Mapping[str, TaskState]:
        """Return what was last committed for a connector's tasks, by their ids, planned or not."""
        ...

    def put_states(
        self, states: Mapping[StateKey, TaskState | None], token: int, timeout_ms: int
    ) -> None:
        """Own task states, and set what was committed, in place of an owner; None: nothing was."""
        ...

    def fence(
        self, keys: Iterable[StateKey], token: int, timeout_ms: int
    ) -> Mapping[StateKey, TaskState]:
        """Begin to own task states: what smaller tokens commit from now on is void.

        Returns:
            What was committed before, where anything was.
        """
        ...

    def commit(self, key: StateKey, token: int, state: TaskState) -> None:
        """Keep a task's state, and return when it is kept, before anything of a later owner.

        Raises:
            TaskFencedError: the task has a later owner; perhaps only since this call began.
        """
        ...

    def begin_commit(self, key: StateKey, token: int, state: TaskState) -> "Future[None]":
        """Begin to keep a task's state, without waiting; the future raises what `commit` raises.

        What is known to be wrong beforehand is raised at once. States of one task are kept in the order of the
        calls.
        """
        ...

    def last_token(self) -> int:
        """Return the greatest token that a task's state was fenced with; -1 for none."""
        ...
