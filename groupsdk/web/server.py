"""Serve the live page: its files, the state of the groups as server-sent events, and what-if."""

import asyncio
import contextlib
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from typing import Any, Final, Protocol

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from groupsdk.connect.rest.authentication import BasicAuthentication
from groupsdk.connect.rest.guard import RequestGuard
from groupsdk.connect.rest.server import bounded
from groupsdk.connect.rest.settings import RestSettings
from groupsdk.errors import ConfigError, GroupSdkError
from groupsdk.telemetry.openmetrics import CONTENT_TYPE


logger = logging.getLogger(__name__)

_ASSETS: Final = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_KEEP_ALIVE_S: Final = 15.0
_START_S: Final = 10.0


class PageSource(Protocol):
    """Knows the groups that the page shows. Its methods are called on the server's loop."""

    async def follow(self) -> None:
        """Keep the state up to date until cancelled."""
        ...

    async def wait(self, version: int, timeout_s: float) -> int:
        """Wait until the state is newer than a version; return the newest version after the timeout at the latest."""
        ...

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values; docs/commands.md says what is in it."""
        ...

    async def what_if(self, group_id: str, assignor: str) -> str:
        """Return in words what an assignor would do with a group as it is.

        Raises:
            GroupSdkError: there is no such group or assignor.
        """
        ...


class PageServer:
    """Serves the live page on a thread of its own. A context manager.

    Args:
        source: what the page shows; started and asked on the server's event loop.
        settings: where to listen, and who may ask; elsewhere than on the loopback address a user and a password are required.
        metrics: returns OpenMetrics text for `/metrics`, on a thread of its own; None: there is no such path.
        told: called with the page's URL once it listens.
    """

    def __init__(
        self,
        source: PageSource,
        settings: RestSettings,
        metrics: Callable[[], str] | None = None,
        told: Callable[[str], object] | None = None,
    ) -> None:
        self._settings = settings
        self._told = told
        self._server = uvicorn.Server(
            uvicorn.Config(
                page_app(source, settings, metrics),
                host=settings.host,
                port=settings.port,
                log_config=None,
                access_log=False,
                lifespan="off",
                http=bounded(settings),
                ws="none",
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )
        self._source = source
        self._thread = threading.Thread(target=self._run, name="groupsdk-web", daemon=True)
        self._waiting = threading.Event()

    def __enter__(self) -> "PageServer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Where the page is."""
        for server in self._server.servers:
            for each in server.sockets:
                return f"http://{_in_url(self._settings.host)}:{each.getsockname()[1]}/"
        return f"http://{_in_url(self._settings.host)}:{self._settings.port}/"

    def start(self) -> None:
        """Begin to listen.

        Raises:
            ConfigError: the address cannot be used.
        """
        self._thread.start()
        waited_s = 0.0
        while not self._server.started and self._thread.is_alive() and waited_s < _START_S:
            self._waiting.wait(0.02)
            waited_s += 0.02
        if not self._server.started:
            raise ConfigError(
                f"web: cannot listen on {self._settings.host}:{self._settings.port}; is the port in use?"
            )
        logger.info("the page is at %s", self.url)
        if self._told is not None:
            self._told(self.url)

    def stop(self) -> None:
        """Stop listening. Harmless when repeated."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(5)

    def _run(self) -> None:
        async def serve() -> None:
            following = asyncio.create_task(self._source.follow())
            try:
                await self._server.serve()
            finally:
                following.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await following

        # uvicorn ends the process where it cannot listen
        with contextlib.suppress(SystemExit):
            asyncio.run(serve())


def page_app(
    source: PageSource, settings: RestSettings, metrics: Callable[[], str] | None = None
) -> ASGIApp:
    """Return the application: the page's files, `/events`, `/what-if` and `/metrics`.

    They stand behind the checks of Host, Origin and password.
    """

    async def asset(request: Request) -> Response:
        name, media_type = _ASSETS[request.url.path]
        content = files("groupsdk.web").joinpath("assets", name).read_bytes()
        return Response(content, media_type=media_type)

    async def events(request: Request) -> Response:
        return StreamingResponse(
            _events(source, request), media_type="text/event-stream; charset=utf-8"
        )

    async def what_if(request: Request) -> Response:
        group_id, assignor = request.query_params.get("group"), request.query_params.get("assignor")
        if not group_id or not assignor:
            return JSONResponse({"message": "group and assignor are missing"}, 400)
        try:
            return JSONResponse({"text": await source.what_if(group_id, assignor)})
        except GroupSdkError as error:
            return JSONResponse({"message": str(error)}, 400)

    async def measured(request: Request) -> Response:
        if metrics is None:
            return JSONResponse({"message": "nothing is measured here"}, 404)
        return Response(await asyncio.to_thread(metrics), media_type=CONTENT_TYPE)

    app = Starlette(
        routes=[
            *(Route(path, asset, methods=["GET"]) for path in _ASSETS),
            Route("/events", events, methods=["GET"]),
            Route("/what-if", what_if, methods=["GET"]),
            Route("/metrics", measured, methods=["GET"]),
        ],
        middleware=[Middleware(_Headers)],
    )
    protected: ASGIApp = app
    if settings.user is not None:
        protected = BasicAuthentication(protected, settings)
    return RequestGuard(protected, settings)


async def _events(source: PageSource, request: Request) -> AsyncIterator[str]:
    version = -1
    while not await request.is_disconnected():
        newest = await source.wait(version, _KEEP_ALIVE_S)
        if newest == version:
            yield ": still here\n\n"
            continue
        version = newest
        yield f"data: {json.dumps(source.state(), ensure_ascii=True)}\n\n"


class _Headers:
    """Adds the headers that keep a browser from running or sending anything that is not the page's own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message["headers"],
                    (b"content-security-policy", _POLICY.encode()),
                    (b"x-content-type-options", b"nosniff"),
                    (b"referrer-policy", b"no-referrer"),
                    (b"cache-control", b"no-store"),
                ]
            await send(message)

        await self._app(scope, receive, with_headers)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
