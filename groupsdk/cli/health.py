"""The HTTP endpoint of `groupsdk run --health`: liveness, readiness and metrics. Needs the extra `rest`."""

from collections.abc import Callable
from typing import Any, Final, Protocol

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from groupsdk.http.access import JsonAnswer
from groupsdk.http.server import HttpServer
from groupsdk.http.settings import HttpSettings
from groupsdk.snapshot import MemberSnapshot
from groupsdk.telemetry.openmetrics import Family, exposition


_MAX_CONNECTIONS: Final = 32
_REQUEST_S: Final = 5.0


class Observable(Protocol):
    """A membership whose health can be asked; called by several threads at once."""

    def snapshot(self) -> MemberSnapshot: ...

    def families(self) -> list[Family]:
        """Return its metrics."""


class HealthServer(HttpServer):
    """Answers probes with the membership as JSON, and GET /metrics in Prometheus' format or, where accepted, OpenMetrics.

    - /health: 200 while the coordinator can be reached, 503 otherwise.
    - /health/live: 200 while the process runs, so that nothing restarts it because of an outage of the cluster.
    - /health/ready: 200 while the member is stable in its group, 503 otherwise.

    Args:
        address: "host:port"; port 0 takes a free one.

    Raises:
        ConfigError: the address is not HOST:PORT.
    """

    def __init__(self, address: str, running: Observable) -> None:
        settings = HttpSettings.of(
            "--health",
            address,
            public=True,
            request_timeout_s=_REQUEST_S,
            max_connections=_MAX_CONNECTIONS,
        )
        super().__init__(_app(running), settings, name="--health")


def health(snapshot: MemberSnapshot) -> tuple[bool, dict[str, Any]]:
    """Return whether a member is well (its `trouble` is None), and the body of the health response."""
    well = snapshot.trouble is None
    return well, {
        "status": "up" if well else "down",
        "group": snapshot.group_id,
        "member": snapshot.member_id,
        "generation": snapshot.generation.generation_id,
        "state": snapshot.state.name.lower(),
        "stable": snapshot.stable,
        "coordinator": snapshot.coordinator,
        "trouble": snapshot.trouble,
    }


def _app(running: Observable) -> Starlette:
    def probe(is_well: Callable[[MemberSnapshot], bool]) -> Callable[[Request], Response]:
        def answer(_: Request) -> Response:
            snapshot = running.snapshot()
            return JsonAnswer(health(snapshot)[1], 200 if is_well(snapshot) else 503)

        return answer

    async def metrics(request: Request) -> Response:
        found = await run_in_threadpool(running.families)
        text, media_type = exposition(found, request.headers.get("accept", ""))
        return Response(text, media_type=media_type)

    well = probe(lambda snapshot: snapshot.trouble is None)
    return Starlette(
        routes=[
            Route("/health", well),
            Route("/health/live", probe(lambda _: True)),
            Route("/health/ready", probe(lambda snapshot: snapshot.stable)),
            Route("/metrics", metrics),
        ]
    )
