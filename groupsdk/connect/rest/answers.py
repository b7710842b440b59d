"""Write answers in the shapes of Kafka Connect (`ConnectorInfo`, `ConnectorStateInfo`, `ErrorMessage`)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from groupsdk.connect.config_state import ClusterConfigState, Config
from groupsdk.connect.secrets import MASK, conceal, masked
from groupsdk.connect.status import Status, status_key
from groupsdk.connect.task import CLASS_KEY, Connector
from groupsdk.wire.connect_protocol import ConnectorTaskId


TIMEOUT_S: Final = 60.0
"""How long a worker may take for what it is asked, as in Connect."""

Handler = Callable[[Request], Awaitable[Response]]
T = TypeVar("T")


async def done(future: Future[T]) -> T:
    """Wait until the worker has done what it was asked.

    Raises:
        TimeoutError: it has not within `TIMEOUT_S`.
        ConnectError: what it could not do.
    """
    return await asyncio.wait_for(asyncio.wrap_future(future), TIMEOUT_S)


def error_answer(code: int, text: str) -> JSONResponse:
    """Return the answer to a request that could not be met."""
    return JSONResponse({"error_code": code, "message": text}, code)


Classes = Mapping[str, type[Connector]]
"""The classes that this worker knows, by the names that configurations use."""


def connector_type(name: str, configs: ClusterConfigState, classes: Classes) -> str:
    """Return "source" or "sink", or "unknown" for a class that this worker does not know."""
    kind = classes.get(configs.connectors.get(name, {}).get(CLASS_KEY, ""))
    return "unknown" if kind is None else kind.kind


def shown_config(config: Config, classes: Classes, connector: Config | None = None) -> Config:
    """Return a configuration without its secrets.

    Args:
        config: a connector's or a task's.
        classes: say which keys are secret.
        connector: the connector's, for a task's.
    """
    whole = config if connector is None else connector
    kind = classes.get(whole.get(CLASS_KEY, ""), Connector)
    found = {} if connector is None else masked(connector, kind.secrets)
    hidden = [whole[key] for key, each in found.items() if each == MASK]
    shown = masked(config, kind.secrets)
    return {key: conceal(str(value), hidden) for key, value in shown.items()}


def connector_info(name: str, configs: ClusterConfigState, classes: Classes) -> dict[str, Any]:
    """Describe a connector with its configuration and tasks."""
    return {
        "name": name,
        "config": {"name": name, **shown_config(configs.connectors.get(name, {}), classes)},
        "tasks": [{"connector": name, "task": each.task} for each in configs.task_ids(name)],
        "type": connector_type(name, configs, classes),
    }


def connector_status(
    name: str, configs: ClusterConfigState, statuses: Mapping[str, Status], classes: Classes
) -> dict[str, Any]:
    """Say what a connector and its tasks are doing, and where."""
    return {
        "name": name,
        "connector": _shown(statuses.get(status_key(name))),
        "tasks": [task_status(each, statuses) for each in configs.task_ids(name)],
        "type": connector_type(name, configs, classes),
    }


def task_status(task: ConnectorTaskId, statuses: Mapping[str, Status]) -> dict[str, Any]:
    """Say what a task is doing, and where."""
    return {"id": task.task, **_shown(statuses.get(status_key(*task)))}


def _shown(status: Status | None) -> dict[str, Any]:
    if status is None:
        return {"state": "UNASSIGNED", "worker_id": ""}
    more = {"trace": status.trace, "version": status.version}
    said = {key: value for key, value in more.items() if value is not None}
    return {"state": status.state.value, "worker_id": status.worker_id, **said}
