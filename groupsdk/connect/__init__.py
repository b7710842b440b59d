"""Connect-style task distribution: connectors define the work, and workers share its tasks."""

from groupsdk.connect.app import Worker
from groupsdk.connect.errors import (
    ConnectError,
    ConnectorConfigError,
    ConnectorExistsError,
    NotLeaderError,
    RebalancingError,
    RetriableError,
    StoreError,
    StoreUnreachableError,
    TaskFencedError,
    UnknownConnectorError,
)
from groupsdk.connect.loggers import ConnectorContextFilter
from groupsdk.connect.store.config_backing_store import RestartRequest, TargetState
from groupsdk.connect.store.status_backing_store import State, Status
from groupsdk.connect.tasks.task import (
    AsyncStandbyContext,
    AsyncTaskContext,
    Connector,
    StandbyContext,
    Task,
    TaskContext,
)
from groupsdk.connect.tasks.tolerance import RestartPolicy
from groupsdk.connect.worker import ConnectWorker
from groupsdk.dead_letters import ErrantRecord


__all__ = [
    "AsyncStandbyContext",
    "AsyncTaskContext",
    "ConnectError",
    "ConnectWorker",
    "Connector",
    "ConnectorConfigError",
    "ConnectorContextFilter",
    "ConnectorExistsError",
    "ErrantRecord",
    "NotLeaderError",
    "RebalancingError",
    "RestartPolicy",
    "RestartRequest",
    "RetriableError",
    "StandbyContext",
    "State",
    "Status",
    "StoreError",
    "StoreUnreachableError",
    "TargetState",
    "Task",
    "TaskContext",
    "TaskFencedError",
    "UnknownConnectorError",
    "Worker",
]
