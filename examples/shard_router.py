"""Forward HTTP requests to the worker that owns their shard, also while shards move and workers die.

    python examples/shard_router.py --bootstrap-servers localhost:9092 --group-id counters

GET /SHARD is answered by the owner of SHARD. The router asks the group's directory who that is. Where the owner cannot be
reached, or says that it does not own the shard (409), the router has the directory look again and repeats the request, up
to ten seconds; then it answers 503. Workers refuse shards that they do not own, so an outdated directory costs time and
is never wrong. Needs the extra `rest`.
"""

import argparse
import asyncio
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from groupsdk.shards import AsyncShardDirectory, ShardOwner


PATIENCE_S = 10.0
PAUSE_S = 0.1
NOT_MINE = 409


def ask(owner: ShardOwner, shard: str) -> bytes | None:
    """Ask a worker; return None if it cannot be reached or does not own the shard."""
    url = f"{owner.endpoint}/{shard}?epoch={owner.epoch}"
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            body: bytes = answer.read()
            return body
    except urllib.error.HTTPError as error:
        with error:
            if error.code != NOT_MINE:
                raise
        return None
    except OSError:
        return None


def router(directory: AsyncShardDirectory) -> Starlette:
    """Return the application; it begins and ends the directory's work."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None, None]:
        async with directory:
            yield

    async def forward(request: Request) -> Response:
        shard = request.path_params["shard"]
        loop = asyncio.get_running_loop()
        until = loop.time() + PATIENCE_S
        while (left := until - loop.time()) > 0:
            owner = await directory.owner(shard, left)
            if owner is None:
                break
            answer = await asyncio.to_thread(ask, owner, shard)
            if answer is not None:
                return Response(answer, media_type="application/json")
            directory.report_wrong_owner(shard, owner)
            await asyncio.sleep(PAUSE_S)
        return Response(f"nobody owns {shard}\n", 503, media_type="text/plain")

    return Starlette(routes=[Route("/{shard}", forward)], lifespan=lifespan)


def main() -> None:
    """Serve until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-servers", required=True, help="host:port")
    parser.add_argument("--group-id", default="counters")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    directory = AsyncShardDirectory(
        bootstrap_servers=options.bootstrap_servers, group_id=options.group_id, refresh_ms=500
    )
    uvicorn.run(router(directory), host="127.0.0.1", port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
