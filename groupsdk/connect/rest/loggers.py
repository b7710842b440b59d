"""Show and set the levels of loggers over HTTP, in the paths and shapes of KIP-495 and KIP-976."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from groupsdk.connect.admin import ConnectorAdmin
from groupsdk.connect.rest.messages import BadRequestError, Handler, done, json_object


class LoggerRequests:
    """The routes for loggers.

    Args:
        worker: who is asked.
    """

    def __init__(self, worker: ConnectorAdmin) -> None:
        self._worker = worker

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Return method, path and handler of each."""
        return [
            ("GET", "/admin/loggers", self.list_loggers),
            ("GET", "/admin/loggers/{logger}", self.show),
            ("PUT", "/admin/loggers/{logger}", self.put),
        ]

    async def list_loggers(self, request: Request) -> Response:
        """Show the loggers of this worker's process that have a level of their own."""
        return JSONResponse(self._worker.loggers.all())

    async def show(self, request: Request) -> Response:
        """Show the level of a logger."""
        return JSONResponse(self._worker.loggers.show(request.path_params["logger"]))

    async def put(self, request: Request) -> Response:
        """Set a level: here, or with `?scope=cluster` on all workers that run at present."""
        name, level = request.path_params["logger"], (await json_object(request)).get("level")
        if not isinstance(level, str):
            raise BadRequestError("level: must be a text")
        scope = request.query_params.get("scope", "worker").lower()
        if scope == "worker":
            return JSONResponse(self._worker.loggers.set(name, level))
        if scope != "cluster":
            raise BadRequestError(f"scope: must be worker or cluster, not {scope!r}")
        await done(self._worker.set_logger_level(name, level))
        return Response(status_code=204)
