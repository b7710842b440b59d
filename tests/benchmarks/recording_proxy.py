"""Pass bytes on between clients and a broker, and note when heartbeats come by; a process of its own."""

import asyncio
import json
import struct
import subprocess
import sys
import time
from typing import Final, Self

from tests.benchmarks.worker import ROOT, compiled_environment


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


class RecordingProxy:
    """The proxy's process; use it as a context manager."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.recording_proxy"],
            cwd=ROOT,
            env=compiled_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.address = ("127.0.0.1", int(json.loads(self._read())))

    def connect_to(self, upstream: str) -> None:
        """Say where the broker is, as host:port."""
        self._ask(f"upstream {upstream}")

    def take(self) -> list[float]:
        """Return the times of the heartbeats since the last call, in seconds of one clock."""
        return [float(each) for each in self._ask("take")]

    def _ask(self, request: str) -> list[float]:
        if self._process.stdin is None:
            raise OSError("no pipe")
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()
        answer: list[float] = json.loads(self._read())
        return answer

    def _read(self) -> str:
        if self._process.stdout is None:
            raise OSError("no pipe")
        return self._process.stdout.readline()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.kill()
        self._process.wait()


if __name__ == "__main__":
    asyncio.run(_serve())
