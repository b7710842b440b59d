"""Describe the REST interface, for programs (OpenAPI 3.1) and for people."""

import html
from typing import Any, Final

from groupsdk.version import __version__


_CONFIG: Final = {"type": "object", "additionalProperties": {"type": "string"}}
_PARAMETERS: Final = (
    ("name", "string"),
    ("kind", "string"),
    ("logger", "string"),
    ("number", "integer"),
)
OPERATIONS: Final = (
    ("get", "/", "Return the version of the worker", 200, None),
    ("get", "/connectors", "List connectors; ?expand=status&expand=info says more", 200, None),
    (
        "post",
        "/connectors",
        "Create a connector",
        201,
        {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "config": _CONFIG,
                "initial_state": {"enum": ["RUNNING", "PAUSED", "STOPPED"]},
            },
        },
    ),
    ("get", "/connectors/{name}", "Show a connector", 200, None),
    ("delete", "/connectors/{name}", "Delete a connector", 204, None),
    ("get", "/connectors/{name}/config", "Show its configuration", 200, None),
    (
        "put",
        "/connectors/{name}/config",
        "Create the connector or replace its configuration",
        200,
        _CONFIG,
    ),
    (
        "patch",
        "/connectors/{name}/config",
        "Change some keys of its configuration; null removes a key",
        200,
        {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
    ),
    (
        "get",
        "/connectors/{name}/status",
        "Show the state of the connector and its tasks, and their workers",
        200,
        None,
    ),
    ("get", "/connectors/{name}/offsets", "Show the committed states of its tasks", 200, None),
    (
        "patch",
        "/connectors/{name}/offsets",
        "Set the committed states of some of its tasks while it is stopped; null deletes a state",
        200,
        {
            "type": "object",
            "properties": {
                "offsets": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "partition": {
                                "type": "object",
                                "properties": {"task": {"type": "string"}},
                            },
                            "offset": {"type": ["object", "null"]},
                        },
                    },
                }
            },
        },
    ),
    (
        "delete",
        "/connectors/{name}/offsets",
        "Delete the committed states of its tasks while it is stopped",
        200,
        None,
    ),
    ("get", "/connectors/{name}/topics", "List the topics that its tasks have used", 200, None),
    (
        "put",
        "/connectors/{name}/topics/reset",
        "Clear the list of topics that it has used",
        202,
        None,
    ),
    ("get", "/connectors/{name}/tasks", "Show its tasks with their configurations", 200, None),
    ("put", "/connectors/{name}/pause", "Pause its tasks", 202, None),
    ("put", "/connectors/{name}/stop", "Stop its tasks until it is resumed", 204, None),
    ("put", "/connectors/{name}/resume", "Resume it", 202, None),
    (
        "post",
        "/connectors/{name}/restart",
        "Restart it; ?includeTasks=true also its tasks, ?onlyFailed=true only the failed ones",
        204,
        None,
    ),
    ("get", "/connectors/{name}/tasks/{number}/status", "Show the state of a task", 200, None),
    ("post", "/connectors/{name}/tasks/{number}/restart", "Restart a task", 204, None),
    (
        "post",
        "/connectors/{name}/tasks",
        "For other workers, signed: set its tasks",
        204,
        {"type": "array", "items": _CONFIG},
    ),
    (
        "put",
        "/connectors/{name}/fence",
        "For other workers, signed: fence the producers of its former tasks",
        204,
        None,
    ),
    ("get", "/admin/loggers", "List the loggers with a level of their own", 200, None),
    ("get", "/admin/loggers/{logger}", "Show the level of a logger", 200, None),
    (
        "put",
        "/admin/loggers/{logger}",
        "Set the level of a logger and those below it; ?scope=cluster on all workers",
        200,
        {"type": "object", "properties": {"level": {"type": "string"}}},
    ),
    (
        "get",
        "/health",
        "Return whether the worker is ready: an active member of its group",
        200,
        None,
    ),
    ("get", "/health/live", "Return whether the worker runs, with or without Kafka", 200, None),
    ("get", "/metrics", "Return the metrics of the worker as OpenMetrics text", 200, None),
    ("get", "/connector-plugins", "List the classes that configurations may name", 200, None),
    (
        "get",
        "/connector-plugins/{kind}/config",
        "Show the configuration keys of a class",
        200,
        None,
    ),
    (
        "put",
        "/connector-plugins/{kind}/config/validate",
        "Validate a configuration and return the errors of each key",
        200,
        _CONFIG,
    ),
)


def document() -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for method, path, summary, status, body in OPERATIONS:
        operation: dict[str, Any] = {
            "summary": summary,
            "parameters": [
                {"name": name, "in": "path", "required": True, "schema": {"type": kind}}
                for name, kind in _PARAMETERS
                if f"{{{name}}}" in path
            ],
            "responses": {
                str(status): {"description": "done"},
                "default": {"description": "an object with error_code and message"},
            },
        }
        if body is not None:
            operation["requestBody"] = {
                "required": True,
                "content": {"application/json": {"schema": body}},
            }
        paths.setdefault(path, {})[method] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "groupsdk workers", "version": __version__},
        "paths": paths,
    }


def _page() -> str:
    rows = "".join(
        f"<tr><td><code>{method.upper()}</code></td><td><code>{html.escape(path)}</code></td>"
        f"<td>{html.escape(summary)}</td><td>{status}</td></tr>"
        for method, path, summary, status, _ in OPERATIONS
    )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>groupsdk workers</title>"
        "<style>body{font:16px/1.5 system-ui;max-width:60em;margin:2em auto;padding:0 1em}"
        "td{padding:.2em 1em .2em 0;vertical-align:top}</style>"
        f"<h1>groupsdk workers {html.escape(__version__)}</h1>"
        "<p>For programs: <a href=/openapi.json>openapi.json</a>. Errors are objects with "
        "<code>error_code</code> and <code>message</code>; 409 means: try again soon.</p>"
        f"<table>{rows}</table></html>"
    )


PAGE: Final = _page()
"""The page for people; needs nothing from anywhere else."""
