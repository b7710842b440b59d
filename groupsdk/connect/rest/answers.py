"""Write answers in the shapes of Kafka Connect (`ConnectorInfo`, `ConnectorStateInfo`, `ErrorMessage`)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from groupsdk.connect.config_state import ClusterConfigState
from groupsdk.connect.status import Status, status_key
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


def connector_info(name: str, configs: ClusterConfigState) -> dict[str, Any]:
    """Describe a connector with its configuration and tasks."""
    return {
        "name": name,
        "config": {"name": name, **configs.connectors.get(name, {})},
        "tasks": [{"connector": name, "task": each.task} for each in configs.task_ids(name)],
        "type": "source",
    }


def connector_status(
    name: str, configs: ClusterConfigState, statuses: Mapping[str, Status]
) -> dict[str, Any]:
    """Say what a connector and its tasks are doing, and where."""
    return {
        "name": name,
        "connector": _shown(statuses.get(status_key(name))),
        "tasks": [task_status(each, statuses) for each in configs.task_ids(name)],
        "type": "source",
    }


def task_status(task: ConnectorTaskId, statuses: Mapping[str, Status]) -> dict[str, Any]:
    """Say what a task is doing, and where."""
    return {"id": task.task, **_shown(statuses.get(status_key(*task)))}


def _shown(status: Status | None) -> dict[str, Any]:
    if status is None:
        return {"state": "UNASSIGNED", "worker_id": ""}
    trace = {} if status.trace is None else {"trace": status.trace}
    return {"state": status.state.value, "worker_id": status.worker_id, **trace}
