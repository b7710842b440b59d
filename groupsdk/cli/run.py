"""`groupsdk run`: run a coordinator, a consumer's handler or an election of a module until it is told to end."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import click
from typing_extensions import override

from groupsdk.cli.command import Command, ExitCode, exit_with
from groupsdk.cli.connection import Connection, connection_options
from groupsdk.cli.health import HealthServer, Observable
from groupsdk.cli.process import (
    StopSignals,
    end_at_once,
    group_option,
    load,
    log_level_option,
    set_up_logging,
    shutdown_timeout_option,
)
from groupsdk.errors import ConfigError, GroupSdkError
from groupsdk.snapshot import MemberSnapshot


logger = logging.getLogger(__name__)

_TICK_S: Final = 0.2
_LOOK_S: Final = 0.5
_SERVERS: Final = "--bootstrap-servers localhost:9092"


class Runnable(Observable, Protocol):
    """A membership that the command can run: `run` blocks until it is stopped, `close` ends it."""

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set; what it raises ends the command."""

    def close(self, timeout_s: float) -> bool:
        """Leave the group. Return whether that finished in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of `groupsdk run` besides those of the connection, each field under its option's name."""

    group: str | None = None
    topics: Sequence[str] = ()
    workers: int = 1
    """How many threads, or coroutines at a time, run a handler."""
    health: str | None = None
    shutdown_timeout: float = 30.0


@click.command(
    cls=Command,
    examples=[
        (f"groupsdk run shards:Shards --group shards {_SERVERS}", "an AbstractCoordinator"),
        (
            f"groupsdk run billing:handle --group billing --topic orders {_SERVERS}",
            "a function that is called with each record",
        ),
        ("groupsdk run jobs:election --health 127.0.0.1:8080", "a LeaderElection, with health"),
        (f"groupsdk run shards:Shards --group shards --reload {_SERVERS}", "in development"),
    ],
)
@click.argument("place", metavar="MODULE:NAME")
@group_option("The group to join.")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="NAME",
    help="A topic that a handler reads; repeatable.",
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="The number of threads of a handler; the records of a partition stay in order.",
)
@click.option(
    "--health",
    metavar="HOST:PORT",
    envvar="GROUPSDK_HEALTH",
    help="Answer GET /health (200 while the member is well, 503 otherwise) and /metrics over HTTP here.",
)
@click.option("--reload", is_flag=True, help="Restart when a Python file changes; for development.")
@shutdown_timeout_option
@connection_options
@log_level_option("info")
def run(
    place: str,
    connection: Connection,
    reload: bool,
    log_level: str,
    **options: Any,
) -> None:
    """Run MODULE:NAME until SIGTERM or SIGINT: an AbstractCoordinator, a record handler, or an election.

    A coordinator, for threads or for asyncio, may be a class, which is made with the settings, or an object. A function
    is called with each record of its topics, a confluent_kafka.Message; a record counts as read when it returns, and an
    exception ends the command before the record is committed. An async function is awaited, on one event loop for all
    its records, as many at a time as there are workers. The first signal leaves the group in good order, the second ends
    at once.
    """
    set_up_logging(log_level)
    with StopSignals() as signals:
        if reload:
            exit_with(run_again(_without_reload(sys.argv), Path.cwd(), signals.first))
        code = run_place(place, connection, RunOptions(**options), signals.first)
        if code is ExitCode.NOT_IN_ORDER:
            end_at_once(code)
        exit_with(code)


def run_place(
    place: str, connection: Connection, options: RunOptions, stop: threading.Event
) -> ExitCode:
    """Run the object at "module:name" until `stop` is set, by a signal handler, or it fails, and leave the group."""
    running = runnable(load(place, "shards:Shards"), place, connection, options)
    code = ExitCode.OK
    server = None if options.health is None else HealthServer(options.health, running)
    try:
        if server is not None:
            server.start()
        running.run(stop)
        if stop.is_set():
            logger.info("shutting down; another signal ends the process at once")
    except ConfigError:
        running.close(options.shutdown_timeout)
        raise
    except GroupSdkError as error:
        logger.error("%s ended: %s", place, error)  # noqa: TRY400  # for a person to read
        code = ExitCode.FAILED
    except Exception:
        logger.exception("%s ended", place)
        code = ExitCode.FAILED
    finally:
        if server is not None:
            server.stop()
    if not running.close(options.shutdown_timeout):
        logger.error("no graceful shutdown within %g s", options.shutdown_timeout)
        return ExitCode.NOT_IN_ORDER
    return code


def runnable(found: Any, place: str, connection: Connection, options: RunOptions) -> Runnable:
    """Wrap a coordinator, an election or a handler so that the command can run it; ConfigError: it is none of these."""
    from inspect import isasyncgenfunction, isclass, iscoroutinefunction

    from groupsdk.drivers.aio.member import AsyncAbstractCoordinator
    from groupsdk.drivers.threads.member import AbstractCoordinator
    from groupsdk.election.leader_election import LeaderElection

    if isclass(found) and issubclass(found, AbstractCoordinator):
        return _CoordinatorRun(found(_member_settings(connection, options)))
    if isinstance(found, AbstractCoordinator):
        return _CoordinatorRun(found)
    if isclass(found) and issubclass(found, AsyncAbstractCoordinator):
        settings = _member_settings(connection, options)
        return _AsyncCoordinatorRun(lambda: found(settings))
    if isinstance(found, AsyncAbstractCoordinator):
        return _AsyncCoordinatorRun(lambda: found)
    if isinstance(found, LeaderElection):
        return _ElectionRun(found)
    if callable(found) and not isclass(found) and not isasyncgenfunction(found):
        if iscoroutinefunction(found) or iscoroutinefunction(type(found).__call__):
            return _AsyncHandlerRun(found, place, connection, options)
        return _HandlerRun(found, place, connection, options)
    raise ConfigError(
        f"{place!r} is a {type(found).__name__}: it must be an AbstractCoordinator or AsyncAbstractCoordinator"
        " (class or object), a LeaderElection, or a function that takes a record"
    )


class _CoordinatorRun:
    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                if self._coordinator.ensure_active_group(_TICK_S):
                    self._coordinator.poll(_TICK_S)
            except GroupSdkError as error:
                _go_on(error)

    def close(self, timeout_s: float) -> bool:
        return _in_time(lambda: self._coordinator.close(timeout_s), timeout_s)

    def snapshot(self) -> MemberSnapshot:
        found: MemberSnapshot = self._coordinator.snapshot()
        return found

    def openmetrics(self) -> str:
        return _openmetrics(self._coordinator)


class _AsyncCoordinatorRun:
    """A coordinator for asyncio, on an event loop of its own."""

    def __init__(self, make: Callable[[], Any]) -> None:
        async def made() -> Any:
            return make()

        self._runner = asyncio.Runner()
        self._coordinator = self._runner.run(made())

    def run(self, stop: threading.Event) -> None:
        self._runner.run(self._until(stop))

    async def _until(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                if await self._coordinator.ensure_active_group(_TICK_S):
                    await self._coordinator.poll(_TICK_S)
            except GroupSdkError as error:
                _go_on(error)

    def close(self, timeout_s: float) -> bool:
        async def close() -> None:
            await asyncio.wait_for(self._coordinator.close(timeout_s), timeout_s)

        try:
            self._runner.run(close())
        except TimeoutError:
            return False
        self._runner.close()
        return True

    def snapshot(self) -> MemberSnapshot:
        found: MemberSnapshot = self._coordinator.snapshot()
        return found

    def openmetrics(self) -> str:
        return _openmetrics(self._coordinator)


class _ElectionRun:
    def __init__(self, election: Any) -> None:
        self._election = election

    def run(self, stop: threading.Event) -> None:
        self._election.start()
        stop.wait()

    def close(self, timeout_s: float) -> bool:
        return bool(self._election.stop(timeout_s))

    def snapshot(self) -> MemberSnapshot:
        found: MemberSnapshot = self._election.snapshot()
        return found

    def openmetrics(self) -> str:
        return ""


class _HandlerRun:
    def __init__(
        self, handler: Callable[..., Any], place: str, connection: Connection, options: RunOptions
    ) -> None:
        # brings confluent-kafka, which coordinators do without
        from groupsdk.consumer.consumer import GroupConsumer
        from groupsdk.consumer.processing import PartitionProcessor

        if not options.topics:
            raise ConfigError(
                f"{place!r} is a function: give the topics that it reads, --topic NAME"
            )
        settings = {**connection.others, **_member_settings(connection, options)}
        settings["enable.auto.offset.store"] = False
        self._topics = list(options.topics)
        self._consumer = GroupConsumer(settings)
        self._processor = PartitionProcessor(self._consumer, handler, workers=options.workers)

    def run(self, stop: threading.Event) -> None:
        self._processor.subscribe(self._topics)
        while not stop.is_set():
            self._processor.step()

    def close(self, timeout_s: float) -> bool:
        self._processor.stop()
        return _in_time(self._processor.close, timeout_s)

    def snapshot(self) -> MemberSnapshot:
        return self._consumer.snapshot()

    def openmetrics(self) -> str:
        return _openmetrics(self._consumer)


class _AsyncHandlerRun(_HandlerRun):
    """A handler that is awaited: the processor's threads wait while one event loop runs it."""

    def __init__(
        self,
        handler: Callable[..., Coroutine[Any, Any, object]],
        place: str,
        connection: Connection,
        options: RunOptions,
    ) -> None:

        def handle(message: object) -> None:
            asyncio.run_coroutine_threadsafe(handler(message), self._loop).result()

        super().__init__(handle, place, connection, options)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="groupsdk-handlers", daemon=True
        )
        self._thread.start()

    @override
    def close(self, timeout_s: float) -> bool:
        if not super().close(timeout_s):
            return False  # a handler still runs on the loop
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        return True


def _go_on(error: GroupSdkError) -> None:
    """Raise what does not pass by itself; log what does."""
    if error.fatal or not error.retriable:
        raise error
    logger.warning("%s; going on", error)


def _member_settings(connection: Connection, options: RunOptions) -> dict[str, Any]:
    settings = dict(connection.settings)
    group = options.group or connection.others.get("group.id")
    if group is None:
        raise ConfigError("group.id is missing: give --group NAME")
    settings["group.id"] = group
    return settings


def _openmetrics(member: Any) -> str:
    from groupsdk.telemetry.registry import MetricsRegistry

    registry = MetricsRegistry()
    registry.add_member(member)
    return registry.openmetrics()


def _in_time(close: Callable[[], object], timeout_s: float) -> bool:
    thread = threading.Thread(target=close, name="groupsdk-close", daemon=True)
    thread.start()
    thread.join(timeout_s)
    return not thread.is_alive()


def run_again(command: Sequence[str], folder: Path, stop: threading.Event) -> ExitCode:
    """Run a command, and again whenever a Python file below a folder has changed, until `stop` is set.

    A command that ended by itself is started again at the next change, too."""
    while True:
        seen = dict(_files(folder))
        child = subprocess.Popen(command, start_new_session=True)
        try:
            while not stop.wait(_LOOK_S):
                found = dict(_files(folder))
                if found != seen:
                    changed = sorted(str(each) for each, _ in found.items() ^ seen.items())
                    logger.info("%s changed; starting again", changed[0])
                    break
        finally:
            code = _end(child)
        if stop.is_set():
            return ExitCode(code) if code in set(ExitCode) else ExitCode.FAILED


def _end(child: "subprocess.Popen[bytes]") -> int:
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
    return child.wait()


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    for root, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if each[0] not in "._" and each != "node_modules"]
        for name in names:
            if name.endswith(".py"):
                path = Path(root, name)
                try:
                    yield path, path.stat().st_mtime_ns
                except OSError:
                    continue  # gone meanwhile


def _without_reload(argv: Sequence[str]) -> list[str]:
    words = [each for each in argv[1:] if each != "--reload"]
    return [sys.executable, "-m", "groupsdk", *words]
