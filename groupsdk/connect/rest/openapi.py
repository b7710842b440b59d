"""Describe the REST interface, for programs (OpenAPI 3.1) and for people: each operation above the method that answers it."""

import html
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from groupsdk.connect.rest.messages import Handler
from groupsdk.version import __version__


MethodT = TypeVar("MethodT", bound=Callable[..., Any])
_ATTRIBUTE: Final = "operation"
CONFIG: Final = {"type": "object", "additionalProperties": {"type": "string"}}
"""The JSON schema of a configuration."""
_PARAMETERS: Final = (
    ("name", "string"),
    ("kind", "string"),
    ("logger", "string"),
    ("number", "integer"),
)


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    path: str
    summary: str
    status: int
    """That of a successful answer."""
    body: Mapping[str, Any] | None
    """The JSON schema of the request's body; None: it has none."""


def operation(
    method: str,
    path: str,
    summary: str,
    status: int = 200,
    *,
    body: Mapping[str, Any] | None = None,
) -> Callable[[MethodT], MethodT]:
    """Have a method answer an operation; `operations_of` finds it."""

    def mark(answer: MethodT) -> MethodT:
        setattr(answer, _ATTRIBUTE, Operation(method, path, summary, status, body))
        return answer

    return mark


def operations_of(part: object) -> list[tuple[Operation, Handler]]:
    """Return the operations that an object's methods answer, in the order of its class."""
    return [
        (getattr(method, _ATTRIBUTE), getattr(part, name))
        for name, method in vars(type(part)).items()
        if hasattr(method, _ATTRIBUTE)
    ]


def document(operations: Collection[Operation]) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        described: dict[str, Any] = {
            "summary": each.summary,
            "parameters": [
                {"name": name, "in": "path", "required": True, "schema": {"type": kind}}
                for name, kind in _PARAMETERS
                if f"{{{name}}}" in each.path
            ],
            "responses": {
                str(each.status): {"description": "done"},
                "default": {"description": "an object with error_code and message"},
            },
        }
        if each.body is not None:
            described["requestBody"] = {
                "required": True,
                "content": {"application/json": {"schema": each.body}},
            }
        paths.setdefault(each.path, {})[each.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": "groupsdk workers", "version": __version__},
        "paths": paths,
    }


def page(operations: Collection[Operation]) -> str:
    """Return the page for people; needs nothing from anywhere else."""
    rows = "".join(
        f"<tr><td><code>{each.method}</code></td><td><code>{html.escape(each.path)}</code></td>"
        f"<td>{html.escape(each.summary)}</td><td>{each.status}</td></tr>"
        for each in operations
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
