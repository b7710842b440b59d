"""Forward requests to the leader, verify those that other workers forward, and serve those that they call on the leader.

The last are Kafka Connect's internal endpoints (`InternalClusterResource`). With the protocol `sessioned` they are signed with the
group's session key (KIP-507); with older ones Connect does not sign them, and neither is a signature asked for here.
"""

import base64
import hashlib
import hmac
import http.client
import re
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from groupsdk.connect.connectors.admin import ConnectorAdmin
from groupsdk.connect.errors import (
    NotLeaderError,
    RebalancingError,
    RequestSignatureError,
    UnknownConnectorError,
)
from groupsdk.connect.rest.messages import BadRequestError, done, parsed_beside, read_body
from groupsdk.connect.rest.openapi import CONFIG, operation
from groupsdk.connect.rest.session_key import SessionKey
from groupsdk.connect.store.config_backing_store import MAX_TASKS, Config
from groupsdk.http.access import error_answer
from groupsdk.lazy_imports import override


_TIMEOUT_S: Final = 60.0
_MAX_ANSWER: Final = 16_000_000
_MAX_BODY: Final = 64_000_000
"""The configurations of all of a connector's tasks."""
_SIGNED: Final = "groupsdk.signed"
_PATHS: Final = re.compile(r"(POST) /connectors/[^/]+/tasks/?|(PUT) /connectors/[^/]+/fence/?")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Goes nowhere else: credentials are for the leader alone."""

    @override
    def redirect_request(self, *_: object) -> None:
        return None


# no proxy either: workers reach each other directly, as they do the brokers
_OPENER: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects())


def forward(method: str, url: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
    """Send a request to the leader, and return the status and body of the response. Blocks.

    Network errors, and a URL that is not http:// or https://, are returned as a response with status 502, not raised.
    """
    if not url.startswith(("http://", "https://")):
        return 502, b'{"error_code":502,"message":"the leader says no http address"}'
    try:
        request = urllib.request.Request(  # checked above
            url, data=body or None, headers=dict(headers), method=method
        )
        with _OPENER.open(request, timeout=_TIMEOUT_S) as answer:
            return int(answer.status), bytes(answer.read(_MAX_ANSWER))
    except urllib.error.HTTPError as error:
        with error:
            return int(error.code), bytes(error.read(_MAX_ANSWER))
    except (OSError, http.client.HTTPException, ValueError):
        # what is no HTTP, and an address of the leader that is none
        return 502, b'{"error_code":502,"message":"the leader cannot be reached"}'


FORWARDED_HEADER: Final = "x-groupsdk-forwarded"
VALID_MS: Final = 300_000
"""How far the clocks of two workers may be apart, and how long signatures are remembered."""
_MAX_SEEN: Final = 100_000
_VALUE: Final = re.compile(r"v1 ([0-9]{1,15}) ([0-9a-f]{32}) ([A-Za-z0-9+/=]{44})")
_PURPOSE: Final = b"groupsdk forwarded requests v1"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class ForwardedRequests:
    """Signs requests for the leader, and verifies those that others have sent on to `url`. Belongs to one event loop."""

    def __init__(
        self, worker: ConnectorAdmin, url: str, now_ms: Callable[[], int] = _now_ms
    ) -> None:
        self._worker = worker
        self._url = url
        self._now_ms = now_ms
        self._seen: dict[str, int] = {}

    def headers(self, method: str, url: str, path: str, query: str, body: bytes) -> dict[str, str]:
        """Return the header that signs a request; the path is not quoted, the query as it is sent.

        Raises RequestSignatureError if there is no key: `code` says what to answer.
        """
        said = f"v1 {self._now_ms()} {secrets.token_hex(16)}"
        signature = _signature(self._key(), said, method, url, path, query, body)
        return {FORWARDED_HEADER: f"{said} {signature}"}

    async def verified(self, request: Request) -> bytes:
        """Return the body of a request that another worker has signed for this one.

        Raises BadRequestError if the body is too long. Raises RequestSignatureError if the signature is wrong, too old, or was used before.
        """
        key = self._key()
        match = _VALUE.fullmatch(request.headers[FORWARDED_HEADER])
        if match is None:
            raise RequestSignatureError(400, f"{FORWARDED_HEADER} is not 'v1 time nonce signature'")
        now_ms, nonce = self._now_ms(), match[2]
        if abs(now_ms - int(match[1])) > VALID_MS:
            raise RequestSignatureError(
                403,
                "the request was signed more than 5 minutes ago, or the clocks of workers differ",
            )
        body = await read_body(request)
        said = request.headers[FORWARDED_HEADER].rpartition(" ")[0]
        query = request.scope["query_string"].decode("latin-1")
        asked = request.method, self._url, request.scope["path"], query, body
        if not hmac.compare_digest(_signature(key, said, *asked), match[3]):
            raise RequestSignatureError(
                403, "the request is not signed with this group's session key, for this address"
            )
        self._remember(nonce, now_ms)
        return body

    def are(self, request: Request) -> bool:
        return FORWARDED_HEADER in request.headers

    async def body(self, request: Request) -> bytes | Response:
        try:
            return await self.verified(request)
        except (RequestSignatureError, BadRequestError) as error:
            return error_answer(error.code, str(error))

    def _key(self) -> SessionKey:
        if not self._worker.signs_requests:
            raise RequestSignatureError(
                409, "workers do not sign requests, since the group's protocol is not sessioned"
            )
        key = self._worker.configs().session_key
        if key is None:
            raise RequestSignatureError(
                503, "this worker has not read a session key from the config topic yet"
            )
        return key

    def _remember(self, nonce: str, now_ms: int) -> None:
        # only those whose signatures are right come here, so nobody else can fill it
        while self._seen and (
            len(self._seen) >= _MAX_SEEN or next(iter(self._seen.values())) < now_ms
        ):
            del self._seen[next(iter(self._seen))]
        if nonce in self._seen:
            raise RequestSignatureError(403, "the request is a repetition of an earlier one")
        self._seen[nonce] = now_ms + 2 * VALID_MS


def _signature(
    key: SessionKey, said: str, method: str, url: str, path: str, query: str, body: bytes
) -> str:
    digest = hashlib.sha256(body).hexdigest()
    parts = said, method, url.rstrip("/"), quote(path), query, digest
    # a key of its own: what is signed here can never pass for a request of KIP-507, nor the other way round
    derived = hmac.digest(key.key, _PURPOSE, "sha256")
    return base64.b64encode(hmac.digest(derived, "\n".join(parts).encode(), "sha256")).decode()


class InternalRequests:
    def __init__(self, worker: ConnectorAdmin) -> None:
        self._worker = worker

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

    @operation(
        "POST",
        "/connectors/{name}/tasks",
        "For other workers, signed: set its tasks",
        204,
        body={"type": "array", "items": CONFIG},
    )
    async def put_task_configs(self, request: Request) -> Response:
        body = await self._verified(request)
        configs = _configs(await parsed_beside(body))
        await self._done(self._worker.put_task_configs(request.path_params["name"], configs))
        return Response(status_code=204)

    @operation(
        "PUT",
        "/connectors/{name}/fence",
        "For other workers, signed: fence the producers of its former tasks",
        204,
    )
    async def fence(self, request: Request) -> Response:
        """Fence them before new ones start (KIP-618)."""
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
