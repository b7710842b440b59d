"""Turn requests into questions to a worker, and answers into the shapes of Kafka Connect's REST interface."""

import asyncio
import json
import logging
import re
from collections.abc import Collection
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from groupsdk.connect.errors import (
    ConnectError,
    ConnectorConfigError,
    ConnectorExistsError,
    NotLeaderError,
    RebalancingError,
    RecordTooLargeError,
    RequestSignatureError,
    StoreError,
    UnknownConnectorError,
)
from groupsdk.connect.rest.forwarding import ForwardedRequests, InternalRequests, forward
from groupsdk.connect.rest.messages import (
    TIMEOUT_S,
    BadRequestError,
    Handler,
    connector_info,
    connector_status,
    done,
    json_object,
    read_body,
    shown_config,
    task_status,
)
from groupsdk.connect.rest.openapi import (
    CONFIG,
    Operation,
    document,
    operation,
    operations_of,
    page,
)
from groupsdk.connect.rest.resources import (
    LoggerRequests,
    OffsetRequests,
    definitions,
    listed,
    validated,
)
from groupsdk.connect.store.config_backing_store import RestartRequest, TargetState
from groupsdk.connect.worker import ConnectWorker, Health
from groupsdk.http.access import PROBE, BasicAuthentication, JsonAnswer, RequestGuard, error_answer
from groupsdk.http.server import HttpServer
from groupsdk.http.settings import HttpSettings
from groupsdk.telemetry.openmetrics import exposition, worker_families
from groupsdk.version import __version__
from groupsdk.wire.connect_protocol import ConnectorTaskId


logger = logging.getLogger(__name__)

FORWARD: Final = "forward"
"""The query parameter, as in Kafka Connect, that says whether a request may be forwarded once more."""
_TASK_NUMBER: Final = re.compile(r"[0-9]{1,10}")
_MAX_KEYS: Final = 10_000
"""More of them hold up all other requests, each time that the configuration is shown."""
_HEALTH_S: Final = 10.0
_HEALTH_CODES: Final = {"healthy": 200, "starting": 503, "unhealthy": 500}
_INITIAL: Final = {
    "RUNNING": TargetState.STARTED,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}
"""What a connector can be created as (KIP-980)."""
_CODES: Final = (
    (ConnectorConfigError, 400),
    (UnknownConnectorError, 404),
    (ConnectorExistsError, 409),
    (RebalancingError, 409),
    (NotLeaderError, 409),
    (RecordTooLargeError, 413),
    (StoreError, 503),
    (ConnectError, 500),
)


class RestApi:
    """The routes of one worker. A handler takes a Starlette request and returns its response.

    Errors of the worker become Kafka Connect's status codes, with a JSON body: 404 for what does not exist, 409 while
    the group rebalances, 400 for an invalid request. A request that only the leader can answer is forwarded to it.
    """

    def __init__(self, worker: ConnectWorker, settings: HttpSettings) -> None:
        self._worker = worker
        self._admin = worker.admin
        self._settings = settings
        self._forwarded = ForwardedRequests(worker.admin, settings.url)
        self._internal = InternalRequests(worker.admin)
        parts = self, self._internal, OffsetRequests(worker.admin), LoggerRequests(worker.admin)
        self._operations = [each for part in parts for each in operations_of(part)]

    def app(self) -> Starlette:
        routes: list[BaseRoute] = [
            *(self._route(each.method, each.path, answer) for each, answer in self._operations),
            self._route("GET", "/openapi.json", self.openapi),
            self._route("GET", "/docs", self.docs),
        ]
        middleware = [
            Middleware(_WithoutSlash),
            Middleware(RequestGuard, settings=self._settings),
        ]
        if self._settings.user is not None:
            middleware.append(
                Middleware(
                    BasicAuthentication,
                    settings=self._settings,
                    signed=self._forwarded,
                    passes=self._internal.are_signed,
                )
            )
        unknown = {HTTPException: _unknown}
        return Starlette(routes=routes, middleware=middleware, exception_handlers=unknown)

    def _route(self, method: str, path: str, handler: Handler) -> Route:
        async def answer(request: Request) -> Response:
            try:
                try:
                    return await handler(request)
                except UnknownConnectorError:
                    # this worker may not have read yet what another one has just said it has made
                    if method != "GET" or not await asyncio.to_thread(self._admin.catch_up):
                        raise
                    return await handler(request)
            except (BadRequestError, RequestSignatureError) as error:
                return error_answer(error.code, str(error))
            except NotLeaderError as error:
                return await self._send_on(request, error)
            except ConnectError as error:
                code = next(code for kind, code in _CODES if isinstance(error, kind))
                return error_answer(code, str(error))
            except TimeoutError:
                held = ", ".join(self._admin.validations.running())
                why = f"; the validate of these classes has not returned: {held}" if held else ""
                return error_answer(500, f"the worker did not answer within {TIMEOUT_S:g} s{why}")
            except ClientDisconnect:
                raise  # the server says so, in one line
            except Exception as error:
                # of a connector's own `validate`, for example; the rest is in the log
                logger.exception("%s %r", request.method, request.scope["path"])
                return error_answer(500, f"{type(error).__name__}: {error}")

        return Route(path, answer, methods=[method])

    async def _send_on(self, request: Request, error: NotLeaderError) -> Response:
        # as with Connect two hops at most: the leader may have changed since the worker before looked
        allowed = request.query_params.get(FORWARD)
        if not error.leader_url or (allowed is not None and allowed.lower() != "true"):
            return error_answer(409, f"{error}; ask the leader")
        path = request.scope["path"]
        asked = [each for each in request.query_params.multi_items() if each[0] != FORWARD]
        query = urlencode([*asked, (FORWARD, "true" if allowed is None else "false")])
        target = f"{error.leader_url.rstrip('/')}{quote(path)}?{query}"
        try:
            # that of a request which needs none is still to be read
            body = await read_body(request)
            signed = request.method, error.leader_url, path, query, body
            status, data = await self._forward(request.method, target, signed)
        except BadRequestError as wrong:
            return error_answer(wrong.code, str(wrong))
        except RequestSignatureError as wrong:
            return error_answer(wrong.code, f"{error}; not forwarded: {wrong}; ask the leader")
        return Response(data, status_code=status, media_type="application/json")

    async def _forward(
        self, method: str, target: str, signed: tuple[str, str, str, str, bytes]
    ) -> tuple[int, bytes]:
        # never the user's password: who the leader is, is what a member of the group says
        plain = {"content-type": "application/json"}
        if self._settings.user is None:
            return await asyncio.to_thread(forward, method, target, plain, signed[-1])
        headers = {**plain, **self._forwarded.headers(*signed)}
        answer = await asyncio.to_thread(forward, method, target, headers, signed[-1])
        if answer[0] == 403 and await asyncio.to_thread(self._admin.catch_up):
            # the leader may have handed out another key meanwhile
            headers = {**plain, **self._forwarded.headers(*signed)}
            answer = await asyncio.to_thread(forward, method, target, headers, signed[-1])
        return answer

    @operation("GET", "/", "Return the version of the worker")
    async def root(self, request: Request) -> Response:
        about = {
            "version": __version__,
            "commit": "",
            "kafka_cluster_id": self._admin.cluster_id(),
        }
        return JsonAnswer(about)

    @operation("GET", "/connectors", "List connectors; ?expand=status&expand=info says more")
    async def list_connectors(self, request: Request) -> Response:
        """Answer with the names; expanded ones by name (KIP-465)."""
        expand = request.query_params.getlist("expand")
        names = self._admin.connectors()
        if not expand:
            return JsonAnswer(names)
        configs, statuses = self._admin.configs(), self._admin.statuses()
        classes = self._admin.connector_classes()
        described: dict[str, dict[str, Any]] = {name: {} for name in names}
        for name, about in described.items():
            if "status" in expand:
                about["status"] = connector_status(name, configs, statuses, classes)
            if "info" in expand:
                about["info"] = connector_info(name, configs, classes)
        return JsonAnswer(described)

    @operation(
        "POST",
        "/connectors",
        "Create a connector",
        201,
        body={
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "config": CONFIG,
                "initial_state": {"enum": [*_INITIAL]},
            },
        },
    )
    async def create(self, request: Request) -> Response:
        """Answer 409 if it exists. `initial_state` is optional (KIP-980)."""
        body = await json_object(request, str)
        name, config = body.get("name"), body.get("config")
        if not isinstance(name, str):
            raise BadRequestError("name: must be a string")
        created = self._admin.put_connector(
            name, _config(config), create_only=True, target=_target(body.get("initial_state"))
        )
        await done(created)
        return self._created(request, name)

    @operation("GET", "/connectors/{name}", "Show a connector")
    async def show(self, request: Request) -> Response:
        name = self._name(request)
        return JsonAnswer(self._info(name))

    @operation("DELETE", "/connectors/{name}", "Delete a connector", 204)
    async def delete(self, request: Request) -> Response:
        await done(self._admin.delete_connector(request.path_params["name"]))
        return Response(status_code=204)

    @operation("GET", "/connectors/{name}/config", "Show its configuration")
    async def show_config(self, request: Request) -> Response:
        name = self._name(request)
        config = self._admin.configs().connectors[name]
        return JsonAnswer({"name": name, **shown_config(config, self._admin.connector_classes())})

    @operation(
        "PUT",
        "/connectors/{name}/config",
        "Create the connector or replace its configuration",
        body=CONFIG,
    )
    async def put_config(self, request: Request) -> Response:
        """Answer 201 if it is new."""
        name, config = request.path_params["name"], _config(await json_object(request, str))
        created = await done(self._admin.put_connector(name, config))
        if created:
            return self._created(request, name)
        return JsonAnswer(self._info(name))

    @operation(
        "PATCH",
        "/connectors/{name}/config",
        "Change some keys of its configuration; null removes a key",
        body={"type": "object", "additionalProperties": {"type": ["string", "null"]}},
    )
    async def patch_config(self, request: Request) -> Response:
        """Change it as in KIP-477."""
        name, changes = self._name(request), await json_object(request, str)
        gone = {key for key, value in changes.items() if value is None}
        kept = {**self._admin.configs().connectors[name], **_config(changes, gone)}
        config = {key: value for key, value in kept.items() if key not in gone}
        await done(self._admin.put_connector(name, config))
        return JsonAnswer(self._info(name))

    @operation(
        "GET",
        "/connectors/{name}/status",
        "Show the state of the connector and its tasks, and their workers",
    )
    async def show_status(self, request: Request) -> Response:
        return JsonAnswer(self._status(self._name(request)))

    @operation("GET", "/connectors/{name}/tasks", "Show its tasks with their configurations")
    async def show_tasks(self, request: Request) -> Response:
        name, configs = self._name(request), self._admin.configs()
        classes = self._admin.connector_classes()
        return JsonAnswer(
            [
                {
                    "id": {"connector": name, "task": each.task},
                    "config": shown_config(
                        configs.task_configs.get(each, {}), classes, configs.connectors[name]
                    ),
                }
                for each in configs.task_ids(name)
            ]
        )

    @operation("GET", "/connectors/{name}/tasks/{number}/status", "Show the state of a task")
    async def show_task_status(self, request: Request) -> Response:
        task = self._task(request)
        return JsonAnswer(task_status(task, self._admin.statuses()))

    @operation("POST", "/connectors/{name}/tasks/{number}/restart", "Restart a task", 204)
    async def restart_task(self, request: Request) -> Response:
        """Restart it on whichever worker it runs.

        A task of this worker restarts whatever its state is. A task of another one restarts only if it has failed,
        along with the connector's other failed tasks.
        """
        task = self._task(request)
        if not await done(self._admin.restart_task(task)):
            # a request of the connector's, of which only failed tasks take note, reaches all workers
            await done(self._admin.restart(RestartRequest(task.connector, True, True)))
        return Response(status_code=204)

    @operation(
        "POST",
        "/connectors/{name}/restart",
        "Restart it; ?includeTasks=true also its tasks, ?onlyFailed=true only the failed ones",
        204,
    )
    async def restart(self, request: Request) -> Response:
        """Restart it as in KIP-745; with its tasks, the answer is 202 with the status."""
        name = request.path_params["name"]
        include = _flag(request, "includeTasks")
        asked = RestartRequest(name, include, _flag(request, "onlyFailed"))
        await done(self._admin.restart(asked))
        if not include:
            return Response(status_code=204)
        return JsonAnswer(self._status(self._name(request)), 202)

    @operation("GET", "/connectors/{name}/topics", "List the topics that its tasks have used")
    async def topics(self, request: Request) -> Response:
        """Answer 403 if they are not tracked (KIP-558)."""
        if not self._admin.topic_tracking.enable:
            return error_answer(403, "topics are not tracked: topic.tracking.enable is false")
        name = self._name(request)
        return JsonAnswer({name: {"topics": list(self._admin.topics(name))}})

    @operation(
        "PUT", "/connectors/{name}/topics/reset", "Clear the list of topics that it has used", 202
    )
    async def forget_topics(self, request: Request) -> Response:
        """Answer 403 if that is forbidden; topics still in use reappear."""
        tracking = self._admin.topic_tracking
        if not (tracking.enable and tracking.allow_reset):
            what = "enable" if not tracking.enable else "allow.reset"
            return error_answer(403, f"topics cannot be forgotten: topic.tracking.{what} is false")
        self._admin.forget_topics(self._name(request))
        return Response(status_code=202)

    @operation("PUT", "/connectors/{name}/pause", "Pause its tasks", 202)
    async def pause(self, request: Request) -> Response:
        return await self._retarget(request, TargetState.PAUSED)

    @operation("PUT", "/connectors/{name}/stop", "Stop its tasks until it is resumed", 204)
    async def stop(self, request: Request) -> Response:
        return await self._retarget(request, TargetState.STOPPED)

    @operation("PUT", "/connectors/{name}/resume", "Resume it", 202)
    async def resume(self, request: Request) -> Response:
        return await self._retarget(request, TargetState.STARTED)

    async def _retarget(self, request: Request, target: TargetState) -> Response:
        await done(self._admin.set_target_state(request.path_params["name"], target))
        return Response(status_code=204 if target is TargetState.STOPPED else 202)

    @operation("GET", "/connector-plugins", "List the classes that configurations may name")
    async def plugins(self, request: Request) -> Response:
        return JsonAnswer(listed(self._admin.connector_classes()))

    @operation("GET", "/connector-plugins/{kind}/config", "Show the configuration keys of a class")
    async def show_plugin(self, request: Request) -> Response:
        kind = request.path_params["kind"]
        return JsonAnswer(definitions(self._admin.connector_classes(), kind))

    @operation(
        "PUT",
        "/connector-plugins/{kind}/config/validate",
        "Validate a configuration and return the errors of each key",
        body=CONFIG,
    )
    async def validate(self, request: Request) -> Response:
        kind, config = request.path_params["kind"], _config(await json_object(request, str))
        classes, providers = self._admin.connector_classes(), self._admin.providers
        definitions(classes, kind)  # which refuses one that does not exist
        checking = self._admin.validations.start(
            kind, lambda: validated(classes, kind, config, providers)
        )
        return JsonAnswer(await done(checking))

    @operation(
        "GET", "/health", "Return whether the worker is ready: an active member of its group"
    )
    async def health(self, request: Request) -> Response:
        """Answer as in KIP-1017."""
        asked = asyncio.wrap_future(self._worker.requests.put(self._worker.health))
        try:
            health = await asyncio.wait_for(asked, _HEALTH_S)
        except TimeoutError:
            said = f"the worker has not answered within {_HEALTH_S:g} s"
            health = Health("unhealthy", said)
        return _health_answer(request, health)

    @operation("GET", "/health/live", "Return whether the worker runs, with or without Kafka")
    async def live(self, request: Request) -> Response:
        health = self._worker.liveness()
        return _health_answer(request, health)

    @operation("GET", "/metrics", "Return the metrics of the worker as OpenMetrics text")
    async def metrics(self, request: Request) -> Response:
        """Answer in Prometheus' own format or, where accepted, as OpenMetrics."""
        measured = await asyncio.to_thread(lambda: list(worker_families(self._worker, {})))
        text, media_type = exposition(measured, request.headers.get("accept", ""))
        return Response(text, headers={"content-type": media_type})

    async def openapi(self, request: Request) -> Response:
        return JsonAnswer(document(self._described()))

    async def docs(self, request: Request) -> Response:
        return HTMLResponse(page(self._described()))

    def _described(self) -> list[Operation]:
        return sorted((each for each, _ in self._operations), key=lambda each: each.path)

    def _created(self, request: Request, name: str) -> Response:
        place = f"{str(request.base_url).rstrip('/')}/connectors/{quote(name, safe='')}"
        return JsonAnswer(self._info(name), 201, {"location": place})

    def _name(self, request: Request) -> str:
        name: str = request.path_params["name"]
        if name not in self._admin.configs().connectors:
            raise UnknownConnectorError(f"there is no connector {name!r}")
        return name

    def _task(self, request: Request) -> ConnectorTaskId:
        name, number = self._name(request), request.path_params["number"]
        # Python reads no number of thousands of digits
        if _TASK_NUMBER.fullmatch(number):
            task = ConnectorTaskId(name, int(number))
            if self._admin.configs().contains(task):
                return task
        raise UnknownConnectorError(f"there is no task {name}-{number}")

    def _status(self, name: str) -> dict[str, Any]:
        admin = self._admin
        return connector_status(name, admin.configs(), admin.statuses(), admin.connector_classes())

    def _info(self, name: str) -> dict[str, Any]:
        return connector_info(name, self._admin.configs(), self._admin.connector_classes())


class _WithoutSlash:
    """Takes `/connectors/` for `/connectors`, as Kafka's worker does: few clients follow a redirect of a POST."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "").removesuffix("/") or "/"
        await self._app({**scope, "path": path}, receive, send)


class RestServer(HttpServer):
    def __init__(self, worker: ConnectWorker, settings: HttpSettings) -> None:
        super().__init__(RestApi(worker, settings).app(), settings, name="rest")


def _health_answer(request: Request, health: Health) -> Response:
    message = "" if PROBE in request.scope else health.message  # it may name brokers and topics
    return JsonAnswer({"status": health.status, "message": message}, _HEALTH_CODES[health.status])


def _target(value: object) -> TargetState | None:
    if value is None:
        return None
    target = _INITIAL.get(value.upper()) if isinstance(value, str) else None
    if target is None:
        raise BadRequestError(f"initial_state: must be one of {', '.join(_INITIAL)}, not {value!r}")
    return target


def _config(value: object, besides: Collection[str] = ()) -> dict[str, str]:
    """Return a configuration, whose numbers are as they were written: Kafka's worker keeps 1.10."""
    if not isinstance(value, dict):
        raise BadRequestError("config: must be a JSON object of strings")
    if len(value) > _MAX_KEYS:
        raise BadRequestError(f"config: has {len(value):,} keys; at most {_MAX_KEYS:,} are allowed")
    value = {key: each for key, each in value.items() if key not in besides}
    for key, each in value.items():
        if not isinstance(each, (str, bool)):
            raise ConnectorConfigError(str(key), f"must be a string, not {each!r}")
    return {key: each if isinstance(each, str) else json.dumps(each) for key, each in value.items()}


def _flag(request: Request, name: str) -> bool:
    return request.query_params.get(name, "false").lower() == "true"


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = error_answer(error.status_code, f"HTTP {error.status_code} {error.detail}")
    answer.headers.update(error.headers or {})
    return answer
