"""Read the bodies of requests, no more than is sensible."""

import json
from typing import Any, Final

from starlette.requests import Request


MAX_BODY: Final = 1_000_000


class BadRequestError(Exception):
    """A request that cannot be understood.

    Args:
        reason: what is wrong with it.
        code: the HTTP status to answer.
    """

    def __init__(self, reason: str, code: int = 400) -> None:
        super().__init__(reason)
        self.code = code


async def read_body(request: Request, most: int = MAX_BODY) -> bytes:
    """Return a request's body.

    Raises:
        BadRequestError: it is longer than `most` bytes.
    """
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > most:
            raise BadRequestError(f"the body is longer than {most} bytes")
    # kept where `Request.body` looks for it, should it have to be sent on
    request._body = bytes(data)  # noqa: SLF001  # Starlette's stream is read once
    return bytes(data)


def parsed(data: bytes) -> Any:
    """Return what JSON says.

    Raises:
        BadRequestError: it is none.
    """
    try:
        value = json.loads(data)
        # halves of characters, as "\ud800", are no text: no answer could carry them
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise BadRequestError("the body is no JSON of Unicode text") from None
    return value


async def json_object(request: Request) -> dict[str, Any]:
    """Return a body that is a JSON object.

    Raises:
        BadRequestError: it is too long, or none.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise BadRequestError(f"Content-Type must be application/json, not {kind!r}", 415)
    body = parsed(await read_body(request))
    if not isinstance(body, dict):
        raise BadRequestError("the body must be a JSON object")
    return body
