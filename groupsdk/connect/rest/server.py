"""Listen for HTTP, on a thread of its own."""

import contextlib
import logging
import threading
from typing import Final

import uvicorn

from groupsdk.connect.admin import ConnectorAdmin
from groupsdk.connect.rest.api import RestApi
from groupsdk.connect.rest.connections import bounded
from groupsdk.connect.rest.settings import RestSettings
from groupsdk.errors import ConfigError


logger = logging.getLogger(__name__)

_START_S: Final = 10.0


class RestServer:
    """Answers for one worker.

    Args:
        worker: who is asked.
        settings: where to listen, and who may ask.
    """

    def __init__(self, worker: ConnectorAdmin, settings: RestSettings) -> None:
        self._settings = settings
        self._server = uvicorn.Server(
            uvicorn.Config(
                RestApi(worker, settings).app(),
                host=settings.host,
                port=settings.port,
                log_config=None,
                access_log=False,
                lifespan="off",
                http=bounded(settings),
                ws="none",
                server_header=False,
                timeout_graceful_shutdown=2,
            )
        )
        self._thread = threading.Thread(target=self._run, name="groupsdk-rest", daemon=True)
        self._ready = threading.Event()

    def start(self) -> None:
        """Begin to listen.

        Raises:
            ConfigError: the address cannot be used.
        """
        self._thread.start()
        waited = 0.0
        while not self._server.started and self._thread.is_alive() and waited < _START_S:
            self._ready.wait(0.02)
            waited += 0.02
        if not self._server.started:
            raise ConfigError(
                f"rest: cannot listen on {self._settings.host}:{self._settings.port}; is it in use?"
            )
        logger.info("answers to HTTP at http://%s:%d", self._settings.host, self.port)

    @property
    def port(self) -> int:
        """The port it listens on."""
        for server in self._server.servers:
            for each in server.sockets:
                return int(each.getsockname()[1])
        return self._settings.port

    def stop(self) -> None:
        """End. Harmless when repeated."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(5)

    def _run(self) -> None:
        # uvicorn takes signals only on the main thread, and ends the process where it cannot listen
        with contextlib.suppress(SystemExit):
            self._server.run()
