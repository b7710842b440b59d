"""Serve the REST resources besides connectors: logger levels, task states and connector classes.

Loggers have the paths and shapes of KIP-495 and KIP-976. States have those of KIP-875: what Connect calls a partition
is a task here, `{"task": "its id"}`, and what it calls an offset is the task's state. Classes are described in the
shapes of `ConfigInfos`; they say which keys they need and no more, so every key is a string without a default.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from groupsdk.connect.connectors.admin import ConnectorAdmin
from groupsdk.connect.connectors.connector_config import check_config
from groupsdk.connect.connectors.secrets import NO_PROVIDERS, ConfigProviders, masked
from groupsdk.connect.errors import ConnectorConfigError, UnknownConnectorError
from groupsdk.connect.rest.messages import BadRequestError, done, json_object
from groupsdk.connect.rest.openapi import operation
from groupsdk.connect.tasks.task import CLASS_KEY, Connector, TaskState
from groupsdk.http.access import JsonAnswer


logger = logging.getLogger(__name__)


_MAX_LOGGER: Final = 250
"""For each part of a name `logging` keeps the name up to there, for ever: of 10,000 characters 25 MB."""


class LoggerRequests:
    def __init__(self, worker: ConnectorAdmin) -> None:
        self._worker = worker

    @operation("GET", "/admin/loggers", "List the loggers with a level of their own")
    async def list_loggers(self, request: Request) -> Response:
        """Answer with those of all loggers of this worker's process (KIP-495)."""
        return JsonAnswer(self._worker.loggers.all())

    @operation("GET", "/admin/loggers/{logger}", "Show the level of a logger")
    async def show(self, request: Request) -> Response:
        return JsonAnswer(self._worker.loggers.show(request.path_params["logger"]))

    @operation(
        "PUT",
        "/admin/loggers/{logger}",
        "Set the level of a logger and those below it; ?scope=cluster on all workers",
        body={"type": "object", "properties": {"level": {"type": "string"}}},
    )
    async def put(self, request: Request) -> Response:
        """Set it here, or on all running workers (KIP-976)."""
        name, level = request.path_params["logger"], (await json_object(request)).get("level")
        if not isinstance(level, str | int | float):
            raise BadRequestError(f"level: must be a string, not {level!r}")
        if len(name) > _MAX_LOGGER:
            raise BadRequestError(f"the logger's name is longer than {_MAX_LOGGER} characters")
        scope = request.query_params.get("scope", "worker").lower()
        if scope == "cluster":
            await done(self._worker.set_logger_level(name, str(level)))
            return Response(status_code=204)
        if scope != "worker":
            # as Kafka's worker does
            logger.warning("scope %r is neither worker nor cluster: using worker", scope[:100])
        return JsonAnswer(self._worker.loggers.set(name, str(level)))


_PATH: Final = "/connectors/{name}/offsets"
_PARTITION: Final = {"type": "object", "properties": {"task": {"type": "string"}}}
_OFFSET: Final = {"type": ["object", "null"]}
_ENTRY: Final = {"type": "object", "properties": {"partition": _PARTITION, "offset": _OFFSET}}


class OffsetRequests:
    def __init__(self, worker: ConnectorAdmin) -> None:
        self._worker = worker

    @operation("GET", _PATH, "Show the committed states of its tasks")
    async def show(self, request: Request) -> Response:
        """Answer with those of all tasks, planned or not (KIP-875)."""
        states = self._worker.task_states(request.path_params["name"])
        offsets = [{"partition": {"task": task}, "offset": states[task]} for task in sorted(states)]
        return JsonAnswer({"offsets": offsets})

    @operation(
        "PATCH",
        _PATH,
        "Set the committed states of some of its tasks while it is stopped; null deletes a state",
        body={"type": "object", "properties": {"offsets": {"type": "array", "items": _ENTRY}}},
    )
    async def alter(self, request: Request) -> Response:
        states = _states((await json_object(request)).get("offsets"))
        return await self._set(request, states)

    @operation("DELETE", _PATH, "Delete the committed states of its tasks while it is stopped")
    async def reset(self, request: Request) -> Response:
        return await self._set(request, None)

    async def _set(self, request: Request, states: dict[str, TaskState | None] | None) -> Response:
        name = request.path_params["name"]
        count = await done(self._worker.set_task_states(name, states))
        now = "forgotten" if states is None else "set"
        return JsonAnswer({"message": f"the states of {count} tasks of {name!r} are {now}"})


def _states(value: object) -> dict[str, TaskState | None]:
    if not isinstance(value, list) or not value:
        raise BadRequestError(
            'offsets: must be a list, as [{"partition": {"task": "its id"}, "offset": {...}}]'
        )
    states: dict[str, TaskState | None] = {}
    for entry in value:
        partition: Any = entry.get("partition") if isinstance(entry, dict) else None
        task = partition.get("task") if isinstance(partition, dict) else None
        if not isinstance(task, str) or not task or len(partition) != 1:
            raise BadRequestError('partition: must be {"task": "its id"}')
        state = entry.get("offset")
        if state is not None and not isinstance(state, dict):
            raise BadRequestError(f"offset: the value of {task!r} must be a JSON object or null")
        if task in states:
            raise BadRequestError(f"offsets: {task!r} is listed twice")
        states[task] = state
    return states


_GROUP: Final = "Common"


def listed(classes: Mapping[str, type[Connector]]) -> list[dict[str, Any]]:
    """Return all classes that configurations may name, in the form of `/connector-plugins`, sorted by name."""
    return [
        {"class": name, "type": classes[name].kind, "version": classes[name].version}
        for name in sorted(classes)
    ]


def definitions(classes: Mapping[str, type[Connector]], name: str) -> list[dict[str, Any]]:
    """Return the keys that a class requires, in the form of Kafka Connect's `ConfigKeyInfo`."""
    return [_definition(key, True, order) for order, key in enumerate(_needed(classes, name), 1)]


def validated(
    classes: Mapping[str, type[Connector]],
    name: str,
    config: Mapping[str, str],
    providers: ConfigProviders = NO_PROVIDERS,
) -> dict[str, Any]:
    """Check a configuration with its class, and return the result key by key, as Kafka Connect's `ConfigInfos`."""
    needed = _needed(classes, name)
    errors: dict[str, list[str]] = {}
    if config.get(CLASS_KEY, name) != name:
        errors[CLASS_KEY] = [f"must be {name!r}, as in the path, not {config[CLASS_KEY]!r}"]
    try:
        check_config(classes[name], {CLASS_KEY: name, **config}, providers)
    except ConnectorConfigError as error:
        errors.setdefault(error.field, []).append(error.reason)
    shown = masked(config, classes[name].secrets)
    keys = dict.fromkeys([*needed, *config, *errors])
    return {
        "name": name,
        "error_count": sum(map(len, errors.values())),
        "groups": [_GROUP],
        "configs": [
            {
                "definition": _definition(key, key in needed, order),
                "value": {
                    "name": key,
                    "value": shown.get(key),
                    "recommended_values": [],
                    "errors": errors.get(key, []),
                    "visible": True,
                },
            }
            for order, key in enumerate(keys, 1)
        ],
    }


def _needed(classes: Mapping[str, type[Connector]], name: str) -> list[str]:
    kind = classes.get(name)
    if kind is None:
        raise UnknownConnectorError(f"unknown class {name!r}; the known ones: {', '.join(classes)}")
    return [CLASS_KEY, *kind.required]


def _definition(key: str, required: bool, order: int) -> dict[str, Any]:
    return {
        "name": key,
        "type": "STRING",
        "required": required,
        "default_value": None,
        "importance": "HIGH" if required else "LOW",
        "documentation": "",
        "group": _GROUP,
        "order": order,
        "width": "NONE",
        "display_name": key,
        "dependents": [],
    }
