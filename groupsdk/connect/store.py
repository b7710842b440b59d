"""Define where configurations, task states and statuses are kept."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from groupsdk.connect.config_records import ClusterRequest, Record
from groupsdk.connect.config_state import ClusterConfigState
from groupsdk.connect.standby import StandbyRecord
from groupsdk.connect.status import Status
from groupsdk.connect.task import TaskState


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
        """Keep a task's state, and return when it is kept."""
        ...

    def last_token(self) -> int:
        """Return the greatest token that a task's state was fenced with; -1 for none."""
        ...
