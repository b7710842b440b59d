"""Change connectors while workers run: what REST and programs ask of a worker."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TypeVar

from groupsdk.connect.config_records import (
    connector_records,
    restart_record,
    target_state_record,
    task_records,
)
from groupsdk.connect.config_state import ClusterConfigState, Config, RestartRequest, TargetState
from groupsdk.connect.errors import (
    ConnectorConfigError,
    ConnectorExistsError,
    NotLeaderError,
    RebalancingError,
    UnknownConnectorError,
)
from groupsdk.connect.leader import Leader
from groupsdk.connect.status import Status, status_key
from groupsdk.connect.store import ConnectStore
from groupsdk.connect.supervisor import CLASS_KEY, Supervisor
from groupsdk.connect.task import Connector
from groupsdk.wire.connect_protocol import ConnectorTaskId


T = TypeVar("T")


class ConnectorAdmin(ABC):
    """The half of a worker that others talk to. All of it may be called from any thread.

    What changes configurations happens on the leader; on any other worker its future raises `NotLeaderError`,
    which says where the leader is, and `RebalancingError` while that is not known.
    """

    def __init__(
        self,
        store: ConnectStore,
        classes: Mapping[str, type[Connector]],
        supervisor: Supervisor,
        leader: Leader,
    ) -> None:
        self._store = store
        self._classes = dict(classes)
        self._supervisor = supervisor
        self._leader = leader

    @property
    @abstractmethod
    def is_leader(self) -> bool:
        """Whether this worker leads the group."""

    @property
    @abstractmethod
    def leader_url(self) -> str | None:
        """Where the leader answers to HTTP; None while that is not known, "" where it does not."""

    @abstractmethod
    def request(self, act: Callable[[], T]) -> "Future[T]":
        """Run something between two steps of the worker, and return its future result."""

    def connectors(self) -> list[str]:
        """Return the names of all connectors."""
        return sorted(self._store.configs().connectors)

    def connector_classes(self) -> dict[str, type[Connector]]:
        """Return the classes that configurations may name."""
        return dict(self._classes)

    def configs(self) -> ClusterConfigState:
        """Return all configurations, as far as this worker has read them."""
        return self._store.configs()

    def statuses(self) -> Mapping[str, Status]:
        """Return what was last said of each connector and task, by whichever worker owns it.

        Keys are those of `status_key`; `worker_id` says who owns it.
        """
        return self._store.statuses()

    def validate(self, config: Config) -> None:
        """Refuse a configuration that is wrong.

        Raises:
            ConnectorConfigError: names the field.
        """
        name = config.get(CLASS_KEY)
        if not name:
            raise ConnectorConfigError(CLASS_KEY, "is missing")
        kind = self._classes.get(name)
        if kind is None:
            known = ", ".join(sorted(self._classes)) or "none"
            raise ConnectorConfigError(CLASS_KEY, f"no {name!r} is known here, only: {known}")
        for key, value in config.items():
            if not isinstance(value, str):
                raise ConnectorConfigError(key, f"must be a text, not {value!r}")
        kind.validate(config)

    def put_connector(
        self, name: str, config: Config, *, create_only: bool = False
    ) -> "Future[bool]":
        """Create a connector or change its configuration; the future tells whether it is new.

        Raises:
            ConnectorConfigError: the name or the configuration is wrong.
        """
        check_name(name)
        self.validate(config)

        def put() -> bool:
            self._check_leads()
            created = name not in self._store.configs().connectors
            if create_only and not created:
                raise ConnectorExistsError(f"connector {name!r} exists already")
            self._leader.write(connector_records(name, config))
            self._leader.plan([name])
            return created

        return self.request(put)

    def delete_connector(self, name: str) -> "Future[None]":
        """Delete a connector; its tasks end, their states are kept."""

        def delete() -> None:
            self._check_leads()
            self._check_known(name)
            tasks = self._store.configs().task_ids(name)
            self._leader.write(connector_records(name, None))
            for key in (status_key(name), *(status_key(name, each.task) for each in tasks)):
                self._store.put_status(key, None)

        return self.request(delete)

    def set_target_state(self, name: str, target: TargetState) -> "Future[None]":
        """Pause, stop or resume a connector."""

        def put() -> None:
            self._check_leads()
            self._check_known(name)
            records = [target_state_record(name, target)]
            if target is TargetState.STOPPED:
                records += task_records(name, [])
            self._leader.write(records)
            if target is TargetState.STARTED:
                self._leader.plan([name])

        return self.request(put)

    def restart(self, request: RestartRequest) -> "Future[None]":
        """Restart a connector, and its tasks if that is asked for, on whichever workers run them."""

        def put() -> None:
            self._check_leads()
            self._check_known(request.connector)
            self._leader.write([restart_record(request)])

        return self.request(put)

    def restart_task(self, task: ConnectorTaskId) -> "Future[bool]":
        """Restart one task, if this worker runs it; the future tells whether it does."""

        def restart() -> bool:
            if not self._store.configs().contains(task):
                raise UnknownConnectorError(f"there is no task {task}")
            owned = task in self._supervisor.owned().tasks
            self._supervisor.restart_tasks([task], self._store.configs())
            return owned

        return self.request(restart)

    def _check_leads(self) -> None:
        if self.leader_url is None:
            raise RebalancingError("the group is rebalancing: it is not known who leads it")
        if not self.is_leader:
            raise NotLeaderError(self.leader_url)

    def _check_known(self, name: str) -> None:
        if name not in self._store.configs().connectors:
            raise UnknownConnectorError(f"there is no connector {name!r}")


def check_name(name: str) -> None:
    """Refuse what cannot be a connector's name.

    Raises:
        ConnectorConfigError: it is empty, too long, or has characters that no URL or log should carry.
    """
    if not name or len(name) > 200 or not name.isprintable() or "/" in name or name != name.strip():
        raise ConnectorConfigError(
            "name", f"must be 1 to 200 printable characters without '/', not {name[:60]!r}"
        )
