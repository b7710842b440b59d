"""Pass bytes on between clients and a broker, and note when heartbeats come by; a process of its own."""

import asyncio
import contextlib
import json
import struct
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Final

from groupsdk.testing import LocalKafka
from tests.benchmarks.processes import compiled_environment
from tests.support.processes import LineProgram


LISTENER: Final = "PROXIED"
"""The broker's listener that the proxy stands in front of."""
_HEARTBEATS: Final = (12, 68)
"""Heartbeat and ConsumerGroupHeartbeat."""
_HEADER = struct.Struct(">ih")


class _Watch:
    """Finds the heartbeats in what a client sends, and the time of each."""

    def __init__(self, times: list[float]) -> None:
        self._times = times
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        now = time.monotonic()
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            length, api_key = _HEADER.unpack_from(self._buffer)
            if len(self._buffer) < length + 4:
                return
            if api_key in _HEARTBEATS:
                self._times.append(now)
            del self._buffer[: length + 4]


async def _pump(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, watch: _Watch | None
) -> None:
    try:
        while data := await source.read(65_536):
            if watch is not None:
                watch.feed(data)
            target.write(data)
            await target.drain()
    except OSError:
        pass
    finally:
        target.close()


async def _serve() -> None:
    times: list[float] = []
    upstream = ""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = upstream.partition(":")
        broker_reader, broker_writer = await asyncio.open_connection(host, int(port))
        await asyncio.gather(
            _pump(reader, broker_writer, _Watch(times)), _pump(broker_reader, writer, None)
        )

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    print(json.dumps(server.sockets[0].getsockname()[1]), flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        request = line.strip()
        if request.startswith("upstream "):
            upstream = request.removeprefix("upstream ")
        print(json.dumps(times), flush=True)
        times.clear()


class RecordingProxy(LineProgram):
    """The proxy's process; use it as a context manager."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.benchmarks.recording_proxy"]
        super().__init__(command, environment=compiled_environment())
        self.address = ("127.0.0.1", int(next(self.lines())))

    def connect_to(self, upstream: str) -> None:
        """Say where the broker is, as host:port."""
        self.ask(f"upstream {upstream}")

    def take(self) -> list[float]:
        """Return the times of the heartbeats since the last call, in seconds of one clock."""
        return [float(each) for each in json.loads(self.ask("take"))]


@contextlib.contextmanager
def kafka_behind_proxy(
    properties: Mapping[str, str],
) -> Iterator[tuple[LocalKafka, RecordingProxy]]:
    """Start a Kafka whose listener `LISTENER` is reached through a proxy."""
    with RecordingProxy() as proxy:
        listeners = {"PLAINTEXT": "PLAINTEXT", LISTENER: "PLAINTEXT"}
        advertised = {LISTENER: [proxy.address]}
        with LocalKafka(listeners=listeners, advertised=advertised, properties=properties) as kafka:
            proxy.connect_to(kafka.nodes[0].address(LISTENER))
            yield kafka, proxy


if __name__ == "__main__":
    asyncio.run(_serve())
