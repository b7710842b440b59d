"""Turn requests into questions to a worker, and answers into the shapes of Kafka Connect's REST interface."""

import asyncio
import base64
import binascii
import hmac
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from groupsdk.connect.admin import ConnectorAdmin
from groupsdk.connect.config_state import ClusterConfigState, RestartRequest, TargetState
from groupsdk.connect.errors import (
    ConnectError,
    ConnectorConfigError,
    ConnectorExistsError,
    NotLeaderError,
    RebalancingError,
    StoreError,
    UnknownConnectorError,
)
from groupsdk.connect.rest.forward import forward
from groupsdk.connect.rest.openapi import PAGE, document
from groupsdk.connect.rest.settings import RestSettings
from groupsdk.connect.status import Status, status_key
from groupsdk.version import __version__
from groupsdk.wire.connect_protocol import ConnectorTaskId


FORWARDED: Final = "x-groupsdk-forwarded"
"""Marks what another worker sends on, so that it is not sent on for ever."""
_MAX_BODY: Final = 1_000_000
_TIMEOUT_S: Final = 60.0
_CODES: Final = (
    (ConnectorConfigError, 400),
    (UnknownConnectorError, 404),
    (ConnectorExistsError, 409),
    (RebalancingError, 409),
    (NotLeaderError, 409),
    (StoreError, 503),
    (ConnectError, 500),
)

Handler = Callable[[Request], Awaitable[Response]]


class BadRequestError(Exception):
    """A request that cannot be understood."""


class RestApi:
    """The routes of one worker.

    Args:
        worker: who is asked.
        settings: who may ask.
    """

    def __init__(self, worker: ConnectorAdmin, settings: RestSettings) -> None:
        self._worker = worker
        self._settings = settings

    def app(self) -> Starlette:
        """Return the ASGI application."""
        name, task = "/connectors/{name}", "/connectors/{name}/tasks/{number:int}"
        routes = [
            self._route("/", self.root),
            self._route("/connectors", self.list_connectors),
            self._route("/connectors", self.create, "POST"),
            self._route(name, self.show),
            self._route(name, self.delete, "DELETE"),
            self._route(f"{name}/config", self.show_config),
            self._route(f"{name}/config", self.put_config, "PUT"),
            self._route(f"{name}/status", self.show_status),
            self._route(f"{name}/tasks", self.show_tasks),
            self._route(f"{task}/status", self.show_task_status),
            self._route(f"{task}/restart", self.restart_task, "POST"),
            self._route(f"{name}/restart", self.restart, "POST"),
            *(
                self._route(f"{name}/{verb}", self._target(target), "PUT")
                for verb, target in (
                    ("pause", TargetState.PAUSED),
                    ("stop", TargetState.STOPPED),
                    ("resume", TargetState.STARTED),
                )
            ),
            self._route("/connector-plugins", self.plugins),
            self._route("/openapi.json", self.openapi),
            self._route("/docs", self.docs),
        ]
        middleware = []
        if self._settings.user is not None:
            middleware.append(Middleware(BasicAuthentication, settings=self._settings))
        return Starlette(routes=routes, middleware=middleware)

    def _route(self, path: str, handler: Handler, method: str = "GET") -> Route:
        async def answer(request: Request) -> Response:
            try:
                return await handler(request)
            except BadRequestError as error:
                return _error(400, str(error))
            except NotLeaderError as error:
                return await self._send_on(request, error)
            except ConnectError as error:
                code = next(code for kind, code in _CODES if isinstance(error, kind))
                return _error(code, str(error))
            except TimeoutError:
                return _error(500, f"the worker did not answer within {_TIMEOUT_S:g} s")

        return Route(path, answer, methods=[method])

    async def _send_on(self, request: Request, error: NotLeaderError) -> Response:
        if not error.leader_url or FORWARDED in request.headers:
            return _error(409, f"{error}; ask the leader")
        headers = {FORWARDED: "1", "content-type": "application/json"}
        if "authorization" in request.headers:
            headers["authorization"] = request.headers["authorization"]
        target = error.leader_url.rstrip("/") + request.url.path
        if request.url.query:
            target += f"?{request.url.query}"
        body = await request.body()
        status, data = await asyncio.to_thread(forward, request.method, target, headers, body)
        return Response(data, status_code=status, media_type="application/json")

    # What is asked for.

    async def root(self, request: Request) -> Response:
        """Say which version this is."""
        return JSONResponse({"version": __version__, "commit": "", "kafka_cluster_id": ""})

    async def list_connectors(self, request: Request) -> Response:
        """List connectors; `?expand=status` and `?expand=info` say more."""
        expand = request.query_params.getlist("expand")
        names = self._worker.connectors()
        if not expand:
            return JSONResponse(names)
        configs = self._worker.configs()
        return JSONResponse(
            {
                name: {
                    **({"status": self._status(name)} if "status" in expand else {}),
                    **({"info": _info(name, configs)} if "info" in expand else {}),
                }
                for name in names
            }
        )

    async def create(self, request: Request) -> Response:
        """Create a connector."""
        body = await _json(request)
        name, config = body.get("name"), body.get("config")
        if not isinstance(name, str):
            raise BadRequestError("name: must be a text")
        await self._done(self._worker.put_connector(name, _config(config), create_only=True))
        return JSONResponse(_info(name, self._worker.configs()), 201)

    async def show(self, request: Request) -> Response:
        """Show a connector."""
        name = self._name(request)
        return JSONResponse(_info(name, self._worker.configs()))

    async def delete(self, request: Request) -> Response:
        """Delete a connector."""
        await self._done(self._worker.delete_connector(request.path_params["name"]))
        return Response(status_code=204)

    async def show_config(self, request: Request) -> Response:
        """Show a connector's configuration."""
        name = self._name(request)
        return JSONResponse(dict(self._worker.configs().connectors[name]))

    async def put_config(self, request: Request) -> Response:
        """Create a connector or change its configuration."""
        name, config = request.path_params["name"], _config(await _json(request))
        created = await self._done(self._worker.put_connector(name, config))
        return JSONResponse(_info(name, self._worker.configs()), 201 if created else 200)

    async def show_status(self, request: Request) -> Response:
        """Show what a connector and its tasks are doing, and where."""
        return JSONResponse(self._status(self._name(request)))

    async def show_tasks(self, request: Request) -> Response:
        """Show a connector's tasks with their configurations."""
        name, configs = self._name(request), self._worker.configs()
        return JSONResponse(
            [
                {
                    "id": {"connector": name, "task": each.task},
                    "config": dict(configs.task_configs.get(each, {})),
                }
                for each in configs.task_ids(name)
            ]
        )

    async def show_task_status(self, request: Request) -> Response:
        """Show what a task is doing, and where."""
        task = self._task(request)
        return JSONResponse(self._task_status(task))

    async def restart_task(self, request: Request) -> Response:
        """Restart a task, on whichever worker it runs."""
        task = self._task(request)
        if not await self._done(self._worker.restart_task(task)):
            # a request of the connector's, of which only failed tasks take note, reaches all workers
            await self._done(self._worker.restart(RestartRequest(task.connector, True, True)))
        return Response(status_code=204)

    async def restart(self, request: Request) -> Response:
        """Restart a connector, with `?includeTasks=true` its tasks, with `?onlyFailed=true` the failed ones."""
        name = request.path_params["name"]
        include = _flag(request, "includeTasks")
        asked = RestartRequest(name, include, _flag(request, "onlyFailed"))
        await self._done(self._worker.restart(asked))
        if not include:
            return Response(status_code=204)
        return JSONResponse(self._status(self._name(request)), 202)

    def _target(self, target: TargetState) -> Handler:
        async def put(request: Request) -> Response:
            await self._done(self._worker.set_target_state(request.path_params["name"], target))
            return Response(status_code=204 if target is TargetState.STOPPED else 202)

        return put

    async def plugins(self, request: Request) -> Response:
        """List the classes that configurations may name."""
        return JSONResponse(
            [
                {"class": name, "type": "source", "version": __version__}
                for name in sorted(self._worker.connector_classes())
            ]
        )

    async def openapi(self, request: Request) -> Response:
        """Describe all this for programs."""
        return JSONResponse(document())

    async def docs(self, request: Request) -> Response:
        """Describe all this for people."""
        return HTMLResponse(PAGE)

    # Details.

    async def _done(self, future: Any) -> Any:
        return await asyncio.wait_for(asyncio.wrap_future(future), _TIMEOUT_S)

    def _name(self, request: Request) -> str:
        name: str = request.path_params["name"]
        if name not in self._worker.configs().connectors:
            raise UnknownConnectorError(f"there is no connector {name!r}")
        return name

    def _task(self, request: Request) -> ConnectorTaskId:
        task = ConnectorTaskId(self._name(request), int(request.path_params["number"]))
        if not self._worker.configs().contains(task):
            raise UnknownConnectorError(f"there is no task {task}")
        return task

    def _status(self, name: str) -> dict[str, Any]:
        tasks = self._worker.configs().task_ids(name)
        return {
            "name": name,
            "connector": _shown(self._worker.statuses().get(status_key(name))),
            "tasks": [self._task_status(each) for each in tasks],
            "type": "source",
        }

    def _task_status(self, task: ConnectorTaskId) -> dict[str, Any]:
        status = self._worker.statuses().get(status_key(*task))
        return {"id": task.task, **_shown(status)}


class BasicAuthentication:
    """Lets those in who know the password (RFC 7617).

    Args:
        app: what is behind.
        settings: the user and the password.
    """

    def __init__(self, app: ASGIApp, settings: RestSettings) -> None:
        self._app = app
        self._expected = f"{settings.user}:{settings.password}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http" or self._knows(Request(scope)):
            await self._app(scope, receive, send)
            return
        answer = _error(401, "a user and a password are needed")
        answer.headers["www-authenticate"] = 'Basic realm="groupsdk"'
        await answer(scope, receive, send)

    def _knows(self, request: Request) -> bool:
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        try:
            decoded = base64.b64decode(given, validate=True)
        except (binascii.Error, ValueError):
            return False
        return kind.lower() == "basic" and hmac.compare_digest(decoded, self._expected)


async def _json(request: Request) -> dict[str, Any]:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > _MAX_BODY:
            raise BadRequestError(f"the body is longer than {_MAX_BODY} bytes")
    # kept where `Request.body` looks for it, should it have to be sent on
    request._body = bytes(data)  # noqa: SLF001  # Starlette's stream is read once
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        raise BadRequestError("the body is no JSON") from None
    if not isinstance(body, dict):
        raise BadRequestError("the body must be a JSON object")
    return body


def _config(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise BadRequestError("config: must be a JSON object of texts")
    for key, each in value.items():
        if not isinstance(each, (str, int, float, bool)):
            raise ConnectorConfigError(str(key), f"must be a text, not {each!r}")
    return {key: each if isinstance(each, str) else json.dumps(each) for key, each in value.items()}


def _flag(request: Request, name: str) -> bool:
    return request.query_params.get(name, "false").lower() == "true"


def _info(name: str, configs: ClusterConfigState) -> dict[str, Any]:
    return {
        "name": name,
        "config": {"name": name, **configs.connectors.get(name, {})},
        "tasks": [{"connector": name, "task": each.task} for each in configs.task_ids(name)],
        "type": "source",
    }


def _shown(status: Status | None) -> dict[str, Any]:
    if status is None:
        return {"state": "UNASSIGNED", "worker_id": ""}
    trace = {} if status.trace is None else {"trace": status.trace}
    return {"state": status.state.value, "worker_id": status.worker_id, **trace}


def _error(code: int, text: str) -> JSONResponse:
    return JSONResponse({"error_code": code, "message": text}, code)
