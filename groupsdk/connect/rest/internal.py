"""Serve the internal endpoints that workers call on the leader, as in Kafka Connect (`InternalClusterResource`).

With the protocol `sessioned` these requests are signed with the group's session key (KIP-507); with older ones
Connect does not sign them, and neither is a signature asked for here.
"""

import re
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from groupsdk.connect.connectors.admin import ConnectorAdmin
from groupsdk.connect.errors import NotLeaderError, RebalancingError, UnknownConnectorError
from groupsdk.connect.rest.messages import BadRequestError, Handler, done, parsed, read_body
from groupsdk.connect.store.config_backing_store import MAX_TASKS, Config


_MAX_BODY: Final = 64_000_000
"""The configurations of all of a connector's tasks."""
_SIGNED: Final = "groupsdk.signed"
_PATHS: Final = re.compile(r"(POST) /connectors/[^/]+/tasks/?|(PUT) /connectors/[^/]+/fence/?")


class InternalRequests:
    def __init__(self, worker: ConnectorAdmin) -> None:
        self._worker = worker

    def routes(self) -> list[tuple[str, str, Handler]]:
        return [
            ("POST", "/connectors/{name}/tasks", self.put_task_configs),
            ("PUT", "/connectors/{name}/fence", self.fence),
        ]

    def are_signed(self, request: Request) -> bool:
        """Return whether a request must be authenticated by a signature rather than a password."""
        if not self._worker.signs_requests:
            return False
        # not `url`, which is made of what the request says of the host as well
        if _PATHS.fullmatch(f"{request.method} {request.scope['path']}") is None:
            return False
        # remembered, as the group may agree on an older protocol before the handler runs
        request.scope[_SIGNED] = True
        return True

    async def put_task_configs(self, request: Request) -> Response:
        """`POST /connectors/NAME/tasks`: set the task configurations that another worker has planned; 204."""
        body = await self._verified(request)
        configs = _configs(parsed(body))
        await self._done(self._worker.put_task_configs(request.path_params["name"], configs))
        return Response(status_code=204)

    async def fence(self, request: Request) -> Response:
        """`PUT /connectors/NAME/fence`: fence the producers of a connector's former tasks (KIP-618); 204."""
        await self._verified(request)
        await self._done(self._worker.fence_tasks(request.path_params["name"]))
        return Response(status_code=204)

    async def _verified(self, request: Request) -> bytes:
        if not self._worker.protocol:
            raise UnknownConnectorError(
                "this worker is standalone: there are no other workers to answer"
            )
        if not (self._worker.signs_requests or _SIGNED in request.scope):
            return await read_body(request, _MAX_BODY)
        keys = self._worker.session_keys
        # before a long body of somebody is read who does not even say that it is signed
        keys.signature(request.headers)
        body = await read_body(request, _MAX_BODY)
        keys.verify(self._worker.configs().session_key, request.headers, body)
        return body

    async def _done(self, future: Any) -> None:
        try:
            await done(future)
        except NotLeaderError as error:
            # not sent on: who asked signed it for whom it took for the leader, and asks again
            raise RebalancingError(f"{error}: ask the leader") from None


def _configs(value: object) -> list[Config]:
    if not isinstance(value, list) or len(value) > MAX_TASKS:
        raise BadRequestError(f"the body must be a JSON list of at most {MAX_TASKS} objects")
    for task in value:
        if not isinstance(task, dict) or not all(isinstance(v, str) for v in task.values()):
            raise BadRequestError("tasks: each must be a JSON object of strings")
    return value
