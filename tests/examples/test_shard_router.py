"""Test that requests reach the owner of their shard while workers come, drain and die."""

import json
import signal
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from examples.shard_router import router
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.shards import AsyncShardDirectory
from tests.examples.process import ExampleProcess
from tests.support.workers import eventually


pytestmark = pytest.mark.timeout(300)

WORKER = """
import json, signal, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit

from groupsdk.shards import ShardWorker


class Counter(ShardWorker):
    protocol_type = "counter"

    def shards(self):
        return [f"shard-{number}" for number in range(6)]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        url = urlsplit(self.path)
        lease = worker.lease(url.path[1:])
        mine = lease is not None and lease.held() and parse_qs(url.query)["epoch"] == [str(lease.epoch)]
        body = json.dumps({"owner": name, "epoch": lease.epoch}).encode() if mine else b""
        self.send_response(200 if mine else 409)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
Thread(target=server.serve_forever, daemon=True).start()
servers, group, name = sys.argv[1:]
with Counter(
    bootstrap_servers=servers, group_id=group, session_timeout_ms=6000, heartbeat_interval_ms=300,
    endpoint=f"http://127.0.0.1:{server.server_port}",
) as worker:
    signal.signal(signal.SIGTERM, lambda *_: worker.drain())
    print("started", flush=True)
    while not worker.drained:
        worker.poll(0.5)
"""


@contextmanager
def serving(servers: str, group_id: str) -> Iterator[str]:
    """Serves the router on a thread; gives its address."""
    directory = AsyncShardDirectory(bootstrap_servers=servers, group_id=group_id, refresh_ms=200)
    config = uvicorn.Config(router(directory), port=0, log_config=None, lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        eventually(lambda: server.started)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(60)


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


def test_requests_reach_the_owner_while_workers_come_drain_and_die(
    group_id: str, tmp_path: Path
) -> None:
    script = tmp_path / "counter.py"
    script.write_text(WORKER)
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker())
        servers = broker.bootstrap_servers

        def start(name: str) -> ExampleProcess:
            process = stack.enter_context(ExampleProcess(str(script), servers, group_id, name))
            process.wait_for("started")
            return process

        first = start("first")
        url = stack.enter_context(serving(servers, group_id))

        def owners() -> set[str]:
            return {get(f"{url}/shard-{number}")["owner"] for number in range(6)}

        assert owners() == {"first"}
        before = get(f"{url}/shard-0")["epoch"]
        second = start("second")
        eventually(lambda: owners() == {"first", "second"})
        first.send(signal.SIGTERM)  # drains: every request is answered meanwhile
        eventually(lambda: owners() == {"second"})
        assert first.end() == 0
        assert get(f"{url}/shard-0")["epoch"] > before
        third = start("third")
        eventually(lambda: owners() == {"second", "third"})
        second.send(signal.SIGKILL)
        eventually(lambda: owners() == {"third"})
        assert third.end(signal.SIGTERM) == 0
