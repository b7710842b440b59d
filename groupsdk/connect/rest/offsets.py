"""Show, set and forget what tasks have committed, in the paths and shapes of KIP-875.

What Connect calls a partition is a task here, `{"task": "its id"}`, and what it calls an offset is the task's state.
"""

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from groupsdk.connect.admin import ConnectorAdmin
from groupsdk.connect.rest.messages import BadRequestError, Handler, done, json_object
from groupsdk.connect.task import TaskState


_PATH: Final = "/connectors/{name}/offsets"


class OffsetRequests:
    """The routes for the states of tasks.

    Args:
        worker: who is asked.
    """

    def __init__(self, worker: ConnectorAdmin) -> None:
        self._worker = worker

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Return method, path and handler of each."""
        return [
            ("GET", _PATH, self.show),
            ("PATCH", _PATH, self.alter),
            ("DELETE", _PATH, self.reset),
        ]

    async def show(self, request: Request) -> Response:
        """Show what a connector's tasks have committed, those that are not planned any more as well."""
        states = self._worker.task_states(request.path_params["name"])
        offsets = [{"partition": {"task": task}, "offset": states[task]} for task in sorted(states)]
        return JSONResponse({"offsets": offsets})

    async def alter(self, request: Request) -> Response:
        """Set what some tasks of a stopped connector have committed; null forgets it."""
        states = _states((await json_object(request)).get("offsets"))
        return await self._set(request, states)

    async def reset(self, request: Request) -> Response:
        """Forget what the tasks of a stopped connector have committed."""
        return await self._set(request, None)

    async def _set(self, request: Request, states: dict[str, TaskState | None] | None) -> Response:
        name = request.path_params["name"]
        count = await done(self._worker.set_task_states(name, states))
        now = "forgotten" if states is None else "set"
        return JSONResponse({"message": f"the states of {count} tasks of {name!r} are {now}"})


def _states(value: object) -> dict[str, TaskState | None]:
    if not isinstance(value, list) or not value:
        raise BadRequestError(
            'offsets: must be a list, as [{"partition": {"task": "its id"}, "offset": {...}}]'
        )
    found: dict[str, TaskState | None] = {}
    for each in value:
        partition: Any = each.get("partition") if isinstance(each, dict) else None
        task = partition.get("task") if isinstance(partition, dict) else None
        if not isinstance(task, str) or not task or len(partition) != 1:
            raise BadRequestError('partition: must be {"task": "its id"}')
        state = each.get("offset")
        if state is not None and not isinstance(state, dict):
            raise BadRequestError(f"offset: of {task!r} must be a JSON object, or null")
        if task in found:
            raise BadRequestError(f"offsets: {task!r} is there twice")
        found[task] = state
    return found
