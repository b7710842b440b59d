"""Let only those ask who know the password."""

import base64
import binascii
import hmac
from collections.abc import Callable

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from groupsdk.connect.rest.answers import error_answer
from groupsdk.connect.rest.settings import RestSettings


class BasicAuthentication:
    """Lets those in who know the password (RFC 7617).

    Args:
        app: what is behind.
        settings: the user and the password.
        passes: tells which requests prove by themselves who they are from.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: RestSettings,
        passes: Callable[[Request], bool] = lambda _: False,
    ) -> None:
        self._app = app
        self._passes = passes
        self._expected = f"{settings.user}:{settings.password}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http" or self._knows(Request(scope)):
            await self._app(scope, receive, send)
            return
        answer = error_answer(401, "a user and a password are needed")
        answer.headers["www-authenticate"] = 'Basic realm="groupsdk"'
        await answer(scope, receive, send)

    def _knows(self, request: Request) -> bool:
        if self._passes(request):
            return True
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        try:
            decoded = base64.b64decode(given, validate=True)
        except (binascii.Error, ValueError):
            return False
        return kind.lower() == "basic" and hmac.compare_digest(decoded, self._expected)
