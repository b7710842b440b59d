"""Connect-style task distribution: connectors say what work exists, and workers share its tasks out."""

from groupsdk.connect.app import Worker
from groupsdk.connect.config_state import RestartRequest, TargetState
from groupsdk.connect.errors import (
    ConnectError,
    ConnectorConfigError,
    ConnectorExistsError,
    NotLeaderError,
    RebalancingError,
    StoreError,
    TaskFencedError,
    UnknownConnectorError,
)
from groupsdk.connect.restart import RestartPolicy
from groupsdk.connect.status import State, Status
from groupsdk.connect.task import Connector, StandbyContext, Task, TaskContext
from groupsdk.connect.worker import ConnectWorker


__all__ = [
    "ConnectError",
    "ConnectWorker",
    "Connector",
    "ConnectorConfigError",
    "ConnectorExistsError",
    "NotLeaderError",
    "RebalancingError",
    "RestartPolicy",
    "RestartRequest",
    "StandbyContext",
    "State",
    "Status",
    "StoreError",
    "TargetState",
    "Task",
    "TaskContext",
    "TaskFencedError",
    "UnknownConnectorError",
    "Worker",
]
