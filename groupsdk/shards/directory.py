"""Find the owner of a shard from outside of its group: `ShardDirectory`, and `AsyncShardDirectory` for asyncio."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, Final, Self, TypeVar

from groupsdk.admin.cluster import ClusterClient
from groupsdk.admin.groups import describe_classic_members
from groupsdk.clock import Clock, SystemClock
from groupsdk.drivers.one_thread import CallersLock
from groupsdk.errors import ConfigError, GroupSdkError
from groupsdk.shards.shard_map import (
    DescribedMember,
    OwnerChange,
    ShardMap,
    ShardOwner,
    owner_changes,
)


logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")

_LEAST_PAUSE_MS: Final = 100
"""Between two looks, however many owners are reported as wrong."""
_MOST_CHANGES: Final = 100_000
"""How many changes are kept for a `watch` that does not keep up; then it starts over with everything."""


class AsyncShardDirectory:
    """Knows who owns each shard of a group, without being a member. Belongs to one event loop.

    Answers come from memory, which is refreshed at an interval, and soon after `report_wrong_owner`. It may be out of
    date by this interval and, while the group rebalances, for longer: send the lease's epoch along, and let the owner
    refuse what it does not own. Needs the right to describe the group.

    Args:
        settings: Kafka's configuration keys of a connection; keywords are the same with underscores.
        group_id: the group.
        refresh_ms: how often to look, in milliseconds, at least 100.

    Raises:
        ConfigError: a setting is missing, unknown or out of bounds.
    """

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        /,
        *,
        group_id: str,
        refresh_ms: int = 2_000,
        clock: Clock | None = None,
        **keywords: Any,
    ) -> None:
        if refresh_ms < _LEAST_PAUSE_MS:
            raise ConfigError(f"refresh_ms must be at least {_LEAST_PAUSE_MS}, not {refresh_ms!r}")
        if not group_id:
            raise ConfigError(f"group_id must be the name of a group, not {group_id!r}")
        given = {name.replace("_", "."): value for name, value in keywords.items()}
        self._client = ClusterClient({**(settings or {}), **given})
        self._group_id = group_id
        self._refresh_ms = refresh_ms
        self._clock = clock or SystemClock()
        self._map = ShardMap(group_id)
        self._changed = asyncio.Condition()
        self._wanted = asyncio.Event()
        self._watchers: set[_Watcher] = set()
        self._looked_ms: int | None = None
        self._error: GroupSdkError | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to look; the first look may still be under way. Harmless when repeated."""
        if self._task is None:
            await self._client.__aenter__()
            self._task = asyncio.create_task(self._follow(), name="groupsdk-shard-directory")

    async def close(self) -> None:
        """Stop looking, and close the connections. Harmless when repeated."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            await self._client.__aexit__(None, None, None)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def owner(self, name: str, timeout: float = 10.0) -> ShardOwner | None:
        """Return the owner of a shard; wait for one while it has none, as while it is handed over.

        Args:
            name: the shard.
            timeout: the longest wait, in seconds; 0: what is known now.

        Returns:
            The owner; None if nobody owns it.

        Raises:
            GroupSdkError: the group could not be looked at yet.
            TypeError: `timeout` is not a number.
        """
        _check_seconds(timeout)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(timeout, 0)), self._changed:
                await self._changed.wait_for(lambda: name in self._map.ownership.owners)
        return self.known_owner(name)

    def known_owner(self, name: str) -> ShardOwner | None:
        """Return the owner of a shard as far as it is known, without waiting; None for nobody.

        Raises:
            GroupSdkError: the group could not be looked at yet.
        """
        return self.owners().get(name)

    def owners(self) -> Mapping[str, ShardOwner]:
        """Return the owner of each shard that has one. The mapping does not change.

        Raises:
            GroupSdkError: the group could not be looked at yet.
        """
        if self._looked_ms is None and self._error is not None:
            raise self._error
        return self._map.ownership.owners

    def standbys(self, name: str) -> tuple[ShardOwner, ...]:
        """Return the workers that stand by for a shard."""
        return self._map.ownership.standbys.get(name, ())

    def age_ms(self) -> int | None:
        """Return how long ago the group was last seen, in milliseconds; None: never."""
        return None if self._looked_ms is None else self._clock.now_ms() - self._looked_ms

    def trouble(self) -> str | None:
        """Return why the last look failed; None if it succeeded."""
        return None if self._error is None else str(self._error)

    def report_wrong_owner(self, name: str, owner: ShardOwner | None = None) -> None:
        """Have the group looked at again soon, as an owner refused a shard or cannot be reached.

        Looks are at least 100 ms apart, however many owners are reported.

        Args:
            name: the shard.
            owner: the one that was believed to own it; nothing is done if another one is known by now.
        """
        if owner is None or self._map.ownership.owners.get(name) == owner:
            self._wanted.set()

    async def watch(self) -> AsyncIterator[tuple[OwnerChange, ...]]:
        """Yield the changes of owners, as they are seen: first all shards that have one."""
        watcher = _Watcher(self._map.ownership.owners)
        self._watchers.add(watcher)
        try:
            while True:
                async with self._changed:
                    await self._changed.wait_for(lambda: watcher.changes or watcher.behind)
                yield watcher.take(self._map.ownership.owners)
        finally:
            self._watchers.discard(watcher)

    async def _follow(self) -> None:
        while True:
            await self._look()
            # a report that comes during the look is answered by the next one
            await asyncio.sleep(_LEAST_PAUSE_MS / 1000)
            with suppress(TimeoutError):
                async with asyncio.timeout((self._refresh_ms - _LEAST_PAUSE_MS) / 1000):
                    await self._wanted.wait()
            self._wanted.clear()

    async def _look(self) -> None:
        try:
            found = await describe_classic_members(self._client, self._group_id)
            members = [
                DescribedMember(each.member_id, each.member_metadata, each.member_assignment)
                for each in found.members
            ]
            changes = self._map.update(found.group_state, found.protocol_data, members)
        except GroupSdkError as error:
            if self._error is None or str(self._error) != str(error):
                logger.warning(
                    "group=%s member=- generation=-: its shards cannot be looked up: %s",
                    self._group_id,
                    error,
                )
            self._error = error
            changes = ()
        else:
            self._error = None
            self._looked_ms = self._clock.now_ms()
        async with self._changed:
            for each in self._watchers:
                each.add(changes)
            self._changed.notify_all()


class _Watcher:
    """The changes that one `watch` has not yielded yet."""

    def __init__(self, owners: Mapping[str, ShardOwner]) -> None:
        self.changes = deque(owner_changes({}, owners))
        self.behind = False
        """Whether there were too many: then it starts over."""
        self._told: Mapping[str, ShardOwner] = {}

    def add(self, changes: tuple[OwnerChange, ...]) -> None:
        if len(self.changes) + len(changes) > _MOST_CHANGES:
            self.changes.clear()
            self.behind = True
        elif not self.behind:
            self.changes.extend(changes)

    def take(self, owners: Mapping[str, ShardOwner]) -> tuple[OwnerChange, ...]:
        if self.behind:
            self.behind = False
            self.changes.extend(owner_changes(self._told, owners))
        taken = tuple(self.changes)
        self.changes.clear()
        self._told = owners
        return taken


class _ClosedError(ConfigError):
    """The directory is closed."""


class ShardDirectory:
    """Knows who owns each shard of a group, without being a member; for threads. A context manager.

    As `AsyncShardDirectory`, with its arguments, on a background thread. All methods are thread-safe.
    """

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        /,
        *,
        group_id: str,
        refresh_ms: int = 2_000,
        clock: Clock | None = None,
        **keywords: Any,
    ) -> None:
        self._directory = AsyncShardDirectory(
            settings, group_id=group_id, refresh_ms=refresh_ms, clock=clock, **keywords
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._run, name="groupsdk-shard-directory", daemon=True
        )
        self._started = threading.Event()
        self._lock = CallersLock()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def owner(self, name: str, timeout: float = 10.0) -> ShardOwner | None:
        """Return the owner of a shard; None if nobody owns it. It waits as `AsyncShardDirectory.owner` does.

        Raises:
            GroupSdkError: the group could not be looked at yet, or the directory is closed.
            TypeError: `timeout` is not a number.
        """
        _check_seconds(timeout)
        self._start()
        found = self._directory.owners().get(name)
        if found is not None or timeout <= 0:
            return found
        return self._run_on_loop(lambda: self._directory.owner(name, timeout))

    def owners(self) -> Mapping[str, ShardOwner]:
        """Return the owner of each shard that has one. The mapping does not change.

        Raises:
            GroupSdkError: the group could not be looked at yet, or the directory is closed.
        """
        self._start()
        return self._directory.owners()

    def standbys(self, name: str) -> tuple[ShardOwner, ...]:
        """Return the workers that stand by for a shard."""
        return self._directory.standbys(name)

    def age_ms(self) -> int | None:
        """Return how long ago the group was last seen, in milliseconds; None: never."""
        return self._directory.age_ms()

    def trouble(self) -> str | None:
        """Return why the last look failed; None if it succeeded."""
        return self._directory.trouble()

    def report_wrong_owner(self, name: str, owner: ShardOwner | None = None) -> None:
        """Have the group looked at again soon; see `AsyncShardDirectory.report_wrong_owner`."""
        self._start()
        with self._lock:
            self._check_open()
            self._loop.call_soon_threadsafe(self._directory.report_wrong_owner, name, owner)

    def watch(self) -> Iterator[tuple[OwnerChange, ...]]:
        """Yield the changes of owners, as they are seen: first all shards that have one. Ends when it is closed."""
        changes = self._directory.watch()

        async def following() -> tuple[OwnerChange, ...]:
            return await anext(changes)

        with suppress(_ClosedError):
            self._start()
            while True:
                yield self._run_on_loop(following)

    def close(self) -> None:
        """Stop looking, and close the connections. Harmless when repeated."""
        with self._lock:
            closed, self._closed = self._closed, True
            if closed:
                return
            if not self._started.is_set():
                self._loop.close()
                return
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _start(self) -> None:
        if self._started.is_set() and not self._closed:
            return
        with self._lock:
            self._check_open()
            if not self._started.is_set():
                self._thread.start()
                self._started.set()
        self._run_on_loop(self._directory.start)

    def _check_open(self) -> None:
        """With the lock: what is given to the loop before it is told to stop is run, or cancelled, and nothing comes after."""
        if self._closed:
            raise _ClosedError("the directory is closed")

    def _run_on_loop(self, call: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
        with self._lock:
            self._check_open()
            future = asyncio.run_coroutine_threadsafe(call(), self._loop)
        try:
            return future.result()
        except CancelledError:
            raise _ClosedError("the directory was closed meanwhile") from None

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._directory.close())
            rest = asyncio.all_tasks(self._loop)
            for each in rest:
                each.cancel()
            self._loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
        finally:
            self._loop.close()


def _check_seconds(timeout: object) -> None:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"timeout must be a number of seconds, not {timeout!r}")
