"""Read requests' bodies, and write answers."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from json.scanner import py_make_scanner  # type: ignore[attr-defined] # typeshed has C's alone
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from groupsdk.connect.connectors.secrets import MASK, conceal, masked
from groupsdk.connect.store.config_backing_store import ClusterConfigState, Config
from groupsdk.connect.store.status_backing_store import Status, status_key
from groupsdk.connect.tasks.task import CLASS_KEY, Connector
from groupsdk.wire.connect_protocol import ConnectorTaskId


MAX_BODY: Final = 1_000_000
_LARGE_BODY: Final = 64 * 1024
"""A longer one is parsed on a thread."""
_PARSER: Final = ThreadPoolExecutor(1, "groupsdk-json")
"""One thread, which shares the interpreter with the event loop."""
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_MAX_DEPTH: Final = 100
"""What Python can read just so, it may be unable to write from within more calls."""


class BadRequestError(Exception):
    def __init__(self, reason: str, code: int = 400) -> None:
        super().__init__(reason)
        self.code = code


async def read_body(request: Request, most: int = MAX_BODY) -> bytes:
    """Return a request's body. Raises BadRequestError if it is longer than `most` bytes."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > most:
            raise BadRequestError(f"the body is longer than {most} bytes")
    # kept where `Request.body` looks for it, should it have to be sent on
    request._body = bytes(data)  # noqa: SLF001  # Starlette's stream is read once
    return bytes(data)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


class _YieldingDecoder(json.JSONDecoder):
    """Decodes in Python, in several times the time: that in C holds the interpreter, and so all threads, to its end."""

    def __init__(self, **hooks: Any) -> None:
        super().__init__(**hooks)
        self.scan_once = py_make_scanner(self)


def parsed(
    data: bytes,
    number: Callable[[str], Any] | None = None,
    decoder: type[json.JSONDecoder] = json.JSONDecoder,
) -> Any:
    """Decode JSON; `number` makes a number of what is written, by default an int or a float.

    Raises BadRequestError if it is not JSON, is nested too deeply, or contains lone surrogates, which no response could carry.
    """
    try:
        text = data.decode(json.detect_encoding(data))
        hooks = {"parse_constant": _no_constant, "parse_float": number, "parse_int": number}
        value = json.loads(text, cls=decoder, **hooks)  # type: ignore[arg-type]
        if _SURROGATE.search(text):
            # halves of characters, as "\ud800", are no text: no answer could carry them
            "".join(json.JSONEncoder(ensure_ascii=False).iterencode(value)).encode()
    except (ValueError, RecursionError):
        raise BadRequestError("the body is not JSON of Unicode text") from None
    if text.count("[") + text.count("{") > _MAX_DEPTH and _is_deep(value):
        raise BadRequestError(f"the body is nested more than {_MAX_DEPTH} levels deep")
    return value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_MAX_DEPTH):
        held = [each for each in level if isinstance(each, (dict, list))]
        level = [each for one in held for each in (one.values() if isinstance(one, dict) else one)]
    return bool(level)


async def parsed_beside(data: bytes, number: Callable[[str], Any] | None = None) -> Any:
    """Do the same without holding the event loop: on a thread if there is much."""
    if len(data) <= _LARGE_BODY:
        return parsed(data, number)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_PARSER, parsed, data, number, _YieldingDecoder)


async def json_object(
    request: Request, number: Callable[[str], Any] | None = None
) -> dict[str, Any]:
    """Return a request's JSON object; `number` is that of `parsed`.

    Raises BadRequestError if the content type is not application/json (415), or the body is too long or not an object.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise BadRequestError(f"Content-Type must be application/json, not {kind!r}", 415)
    body = await parsed_beside(await read_body(request), number)
    if not isinstance(body, dict):
        raise BadRequestError("the body must be a JSON object")
    return body


TIMEOUT_S: Final = 60.0
"""How long a request to a worker may take, in seconds; as in Connect."""

Handler = Callable[[Request], Awaitable[Response]]
T = TypeVar("T")


async def done(future: Future[T]) -> T:
    """Wait up to `TIMEOUT_S` for a request to the worker, without blocking the event loop, and return its result."""
    return await asyncio.wait_for(asyncio.wrap_future(future), TIMEOUT_S)


Classes = Mapping[str, type[Connector]]


def connector_type(name: str, configs: ClusterConfigState, classes: Classes) -> str:
    """Return "source" or "sink", or "unknown" for a class that this worker does not know."""
    kind = classes.get(configs.connectors.get(name, {}).get(CLASS_KEY, ""))
    return "unknown" if kind is None else kind.kind


def shown_config(config: Config, classes: Classes, connector: Config | None = None) -> Config:
    whole = config if connector is None else connector
    kind = classes.get(whole.get(CLASS_KEY, ""), Connector)
    found = {} if connector is None else masked(connector, kind.secrets)
    hidden = [whole[key] for key, each in found.items() if each == MASK]
    shown = masked(config, kind.secrets)
    return {key: conceal(str(value), hidden) for key, value in shown.items()}


def connector_info(name: str, configs: ClusterConfigState, classes: Classes) -> dict[str, Any]:
    """Return a connector's configuration, secrets masked, and its tasks, as Kafka Connect's `ConnectorInfo`."""
    return {
        "name": name,
        "config": {"name": name, **shown_config(configs.connectors.get(name, {}), classes)},
        "tasks": [{"connector": name, "task": each.task} for each in configs.task_ids(name)],
        "type": connector_type(name, configs, classes),
    }


def connector_status(
    name: str, configs: ClusterConfigState, statuses: Mapping[str, Status], classes: Classes
) -> dict[str, Any]:
    """Return the states of a connector and its tasks, as Kafka Connect's `ConnectorStateInfo`."""
    return {
        "name": name,
        "connector": _shown(statuses.get(status_key(name))),
        "tasks": [task_status(each, statuses) for each in configs.task_ids(name)],
        "type": connector_type(name, configs, classes),
    }


def task_status(task: ConnectorTaskId, statuses: Mapping[str, Status]) -> dict[str, Any]:
    return {"id": task.task, **_shown(statuses.get(status_key(*task)))}


def _shown(status: Status | None) -> dict[str, Any]:
    if status is None:
        return {"state": "UNASSIGNED", "worker_id": ""}
    more = {"trace": status.trace, "version": status.version}
    said = {key: value for key, value in more.items() if value is not None}
    return {"state": status.state.value, "worker_id": status.worker_id, **said}
