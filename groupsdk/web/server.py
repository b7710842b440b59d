"""Serve the live page: its files, changes of the groups as server-sent events, search, and what-if."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from groupsdk.errors import GroupSdkError
from groupsdk.http.access import BasicAuthentication, JsonAnswer, RequestGuard
from groupsdk.http.server import ENDING, HttpServer
from groupsdk.http.settings import HttpSettings
from groupsdk.lazy_imports import override
from groupsdk.telemetry.openmetrics import Family, exposition
from groupsdk.web.sections import message


if TYPE_CHECKING:
    from groupsdk.web.page import ClusterPage


_ASSETS: Final = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    **{
        f"/{name}": (name, "text/javascript; charset=utf-8")
        for name in ("page.js", "elements.js", "overview.js", "group.js", "connect.js")
    },
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_KEEP_ALIVE_S: Final = 15.0
_MAX_WORDS: Final = 20


class PageServer(HttpServer):
    """Serves the live page on a thread of its own. A context manager.

    Beyond loopback the settings need a user and a password. `metrics` returns those of `/metrics`, on a thread of its own;
    `on_listening` is called with the page's URL.
    """

    def __init__(
        self,
        source: "ClusterPage",
        settings: HttpSettings,
        metrics: Callable[[], Iterable[Family]] | None = None,
        on_listening: Callable[[str], object] | None = None,
    ) -> None:
        app = page_app(source, settings, metrics)
        super().__init__(app, settings, name="web", beside=source.follow, grace_s=1)
        self._on_listening = on_listening

    @override
    def start(self) -> None:
        super().start()
        if self._on_listening is not None:
            self._on_listening(self.url)


def page_app(
    source: "ClusterPage",
    settings: HttpSettings,
    metrics: Callable[[], Iterable[Family]] | None = None,
) -> ASGIApp:
    """Return the page's application, behind the checks of Host, Origin and password."""
    protected: ASGIApp = page_files(source, metrics)
    if settings.user is not None:
        protected = BasicAuthentication(protected, settings)
    return RequestGuard(protected, settings)


def page_files(
    source: "ClusterPage", metrics: Callable[[], Iterable[Family]] | None = None
) -> Starlette:
    """Return the page's routes: its files, `/events`, `/find`, `/what-if` and `/metrics`.

    Paths in the page are relative, so it may be mounted anywhere. Access checks are up to the caller."""

    async def events(request: Request) -> Response:
        return StreamingResponse(
            _events(source, request), media_type="text/event-stream; charset=utf-8"
        )

    async def find(request: Request) -> Response:
        words = request.query_params.get("words", "").lower().split()
        if not words or len(words) > _MAX_WORDS:
            return JsonAnswer({"message": f"words must be one to {_MAX_WORDS}"}, 400)
        return JsonAnswer({"groups": await source.find(words)})

    async def what_if(request: Request) -> Response:
        group_id, assignor = request.query_params.get("group"), request.query_params.get("assignor")
        if not group_id or not assignor:
            return JsonAnswer({"message": "group and assignor are missing"}, 400)
        try:
            return JsonAnswer({"text": await source.what_if(group_id, assignor)})
        except GroupSdkError as error:
            return JsonAnswer({"message": str(error)}, 400)

    async def measured(request: Request) -> Response:
        if metrics is None:
            return JsonAnswer({"message": "nothing is measured here"}, 404)
        found = list(await asyncio.to_thread(metrics))
        text, media_type = exposition(found, request.headers.get("accept", ""))
        return Response(text, media_type=media_type)

    return Starlette(
        routes=[
            *(_asset(path, *asset) for path, asset in _ASSETS.items()),
            Route("/events", events, methods=["GET"]),
            # it computes: with POST browsers name the site that asks
            Route("/what-if", what_if, methods=["POST"]),
            Route("/find", find, methods=["POST"]),
            Route("/metrics", measured, methods=["GET"]),
        ],
        middleware=[Middleware(_Headers)],
    )


def _asset(path: str, name: str, media_type: str) -> Route:
    async def answer(request: Request) -> Response:
        content = files("groupsdk.web").joinpath("assets", name).read_bytes()
        return Response(content, media_type=media_type)

    return Route(path, answer, methods=["GET"])


async def _events(source: "ClusterPage", request: Request) -> AsyncIterator[str]:
    group_id = request.query_params.get("group")
    version, sent = -1, None
    ending = asyncio.ensure_future(request.scope[ENDING].wait())
    try:
        while not await request.is_disconnected():
            waiting = asyncio.ensure_future(source.wait(version, _KEEP_ALIVE_S))
            try:
                await asyncio.wait({waiting, ending}, return_when=asyncio.FIRST_COMPLETED)
                if ending.done():
                    return
                newest = waiting.result()
            finally:
                waiting.cancel()
            if newest == version:
                yield ": still here\n\n"
                continue
            version = newest
            now = await source.sections(group_id, first=sent is None)
            yield f"data: {message(sent, now)}\n\n"
            sent = now
    finally:
        ending.cancel()


class _Headers:
    """Adds headers that restrict the browser to the page's own scripts and requests."""

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
