"""Serves the REST interface of a worker that is alone: an HTTP server to try."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from groupsdk.connect.rest.api import RestServer
from groupsdk.http.settings import HttpSettings
from tests.connect.workers import eventually, standalone


@contextmanager
def serving(**settings: Any) -> Iterator[RestServer]:
    with standalone() as worker:
        eventually(lambda: worker.is_leader)
        with RestServer(worker, HttpSettings(port=0, **settings)) as server:
            yield server
