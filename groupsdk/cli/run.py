"""`groupsdk run`: run a coordinator, a consumer's handler or an election of a module until it is told to end."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol

import click

from groupsdk.cli import process
from groupsdk.cli.command import Command, ExitCode, exit_with
from groupsdk.cli.connection import Connection, connection_options
from groupsdk.clock import SystemClock
from groupsdk.errors import ConfigError, GroupSdkError
from groupsdk.lazy_imports import override
from groupsdk.settings.backoff import ExponentialBackoff
from groupsdk.snapshot import MemberSnapshot


if TYPE_CHECKING:
    from groupsdk.cli.health import HealthServer
    from groupsdk.consumer.record_errors import RecordErrors
    from groupsdk.telemetry.openmetrics import Family


logger = logging.getLogger(__name__)

_TICK_S: Final = 0.2
_LOOK_S: Final = 0.5
_GRACE_S: Final = 5.0
_SERVERS: Final = "--bootstrap-servers localhost:9092"


class Runnable(Protocol):
    """A membership that the command can run: `run` blocks until it is stopped, `close` ends it."""

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set; what it raises ends the command."""

    def close(self, timeout_s: float) -> bool:
        """Leave the group. Return whether that finished in time."""

    def snapshot(self) -> MemberSnapshot:
        """Return the member's state."""

    def families(self) -> "list[Family]":
        """Return its metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of `groupsdk run` besides those of the connection, each field under its option's name."""

    group: str | None = None
    topics: Sequence[str] = ()
    workers: int = 1
    """How many threads, or coroutines at a time, run a handler."""
    on_error: str = "stop"
    """What becomes of a record whose handler raises: "stop", "skip" or "dead-letter"."""
    retries: int = 0
    """How many times the handler is called again before that."""
    dead_letter_topic: str | None = None
    """Where dead letters go; None: nowhere."""
    instance_id: str | None = None
    """The group.instance.id of a static member; None: the settings decide."""
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
        (
            f"groupsdk run billing:handle --group billing --topic orders --retries 5 --on-error dead-letter --dead-letter-topic orders-dead {_SERVERS}",
            "five more attempts at a record that fails, then a dead letter",
        ),
        ("groupsdk run jobs:election --health 127.0.0.1:8080", "a LeaderElection, with health"),
        (f"groupsdk run shards:Shards --group shards --reload {_SERVERS}", "in development"),
    ],
)
@click.argument("place", metavar="MODULE:NAME")
@process.group_option("The group to join.")
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
    "--on-error",
    type=click.Choice(("stop", "skip", "dead-letter")),
    default="stop",
    show_default=True,
    envvar="GROUPSDK_ON_ERROR",
    help="What becomes of a record whose handler raises.",
)
@click.option(
    "--retries",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    envvar="GROUPSDK_RETRIES",
    help="How many times the handler is called again for it, with backoff; its partition waits meanwhile.",
)
@click.option(
    "--dead-letter-topic",
    metavar="NAME",
    envvar="GROUPSDK_DEAD_LETTER_TOPIC",
    help="Where --on-error dead-letter writes it, with Kafka Connect's headers; created if it is missing.",
)
@click.option(
    "--processes",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    envvar="GROUPSDK_PROCESSES",
    help="The number of processes, each a member of its own.",
)
@click.option(
    "--instance-id",
    metavar="NAME",
    envvar="GROUPSDK_INSTANCE_ID",
    help="Be a static member (group.instance.id), for example by the pod's name; of several processes NAME-0, NAME-1, ...",
)
@click.option(
    "--health",
    metavar="HOST:PORT",
    envvar="GROUPSDK_HEALTH",
    help="Answer GET /health, /health/live, /health/ready and /metrics over HTTP here; several processes take one port after the other.",
)
@click.option("--reload", is_flag=True, help="Restart when a Python file changes; for development.")
@process.shutdown_timeout_option
@connection_options
@process.log_level_option("info")
def run(
    place: str,
    connection: Connection,
    reload: bool,
    processes: int,
    **options: Any,
) -> None:
    """Run MODULE:NAME until SIGTERM or SIGINT: an AbstractCoordinator, a record handler, or an election.

    A coordinator, for threads or for asyncio, may be a class, which is made with the settings, or an object. A function
    is called with each record of its topics, a confluent_kafka.Message; a record counts as read when it returns.
    --retries and --on-error decide about a record whose handler raises; by default the exception ends the command
    before the record is committed. An async function is awaited, on one event loop for all
    its records, as many at a time as there are workers. The first signal leaves the group in good order, the second ends
    at once.
    """
    with process.StopSignals() as signals:
        if reload:
            exit_with(run_again(_without_reload(sys.argv), Path.cwd(), signals.first))
        if processes > 1:
            exit_with(
                run_processes(
                    [sys.executable, "-m", "groupsdk", *sys.argv[1:]],
                    [
                        process_environment(number, options["instance_id"], options["health"])
                        for number in range(processes)
                    ],
                    signals.first,
                    options["shutdown_timeout"],
                )
            )
        code = run_place(place, connection, RunOptions(**options), signals.first)
        if code is ExitCode.NOT_IN_ORDER:
            process.end_at_once(code)
        exit_with(code)


def run_place(
    place: str, connection: Connection, options: RunOptions, stop: threading.Event
) -> ExitCode:
    """Run the object at "module:name" until `stop` is set, by a signal handler, or it fails, and leave the group."""
    running = runnable(process.load(place, "shards:Shards"), place, connection, options)
    code = ExitCode.OK
    server = None if options.health is None else _health_server(options.health, running)
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


def _health_server(address: str, running: Runnable) -> "HealthServer":
    try:
        from groupsdk.cli.health import HealthServer
    except ModuleNotFoundError as error:
        running.close(0)
        raise ConfigError(
            f"--health needs the extra rest: pip install 'groupsdk[rest]' ({error.name} is missing)"
        ) from None
    try:
        return HealthServer(address, running)
    except ConfigError:
        running.close(0)
        raise


def runnable(found: Any, place: str, connection: Connection, options: RunOptions) -> Runnable:
    """Wrap a coordinator, an election or a handler so that the command can run it. Raises ConfigError if it is none of these."""
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

    def families(self) -> "list[Family]":
        return _families(self._coordinator)


class _AsyncCoordinatorRun(_CoordinatorRun):
    """A coordinator for asyncio, on an event loop of its own."""

    def __init__(self, make: Callable[[], Any]) -> None:
        async def made() -> Any:
            return make()

        self._runner = asyncio.Runner()
        super().__init__(self._runner.run(made()))

    @override
    def run(self, stop: threading.Event) -> None:
        self._runner.run(self._until(stop))

    async def _until(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                if await self._coordinator.ensure_active_group(_TICK_S):
                    await self._coordinator.poll(_TICK_S)
            except GroupSdkError as error:
                _go_on(error)

    @override
    def close(self, timeout_s: float) -> bool:
        async def close() -> None:
            await asyncio.wait_for(self._coordinator.close(timeout_s), timeout_s)

        try:
            self._runner.run(close())
        except TimeoutError:
            return False
        self._runner.close()
        return True


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

    def families(self) -> "list[Family]":
        return []


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
        check_handler(handler, place)
        settings = {**connection.others, **_member_settings(connection, options)}
        settings["enable.auto.offset.store"] = False
        self._topics = list(options.topics)
        self._consumer = GroupConsumer(settings)
        try:
            on_error = _record_errors(self._consumer, place, options)
        except BaseException:
            self._consumer.close()
            raise
        self._processor = PartitionProcessor(
            self._consumer, handler, workers=options.workers, on_error=on_error
        )

    def run(self, stop: threading.Event) -> None:
        self._processor.subscribe(self._topics)
        while not stop.is_set():
            self._processor.step()

    def close(self, timeout_s: float) -> bool:
        self._processor.stop()
        return _in_time(self._processor.close, timeout_s)

    def snapshot(self) -> MemberSnapshot:
        return self._consumer.snapshot()

    def families(self) -> "list[Family]":
        return _families(self._consumer)


class _AsyncHandlerRun(_HandlerRun):
    """A handler that is awaited: the processor's threads wait while one event loop runs it."""

    def __init__(
        self,
        handler: Callable[..., Coroutine[Any, Any, object]],
        place: str,
        connection: Connection,
        options: RunOptions,
    ) -> None:

        check_handler(handler, place)

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
    if options.instance_id is not None:
        settings["group.instance.id"] = options.instance_id
    return settings


def check_handler(handler: Callable[..., Any], place: str) -> None:
    """Check that a handler can be called with one record.

    Raises ConfigError if it takes other arguments.
    """
    from inspect import signature

    try:
        found = signature(handler)
    except ValueError:  # some callables of C code have none
        return
    try:
        found.bind(object())
    except TypeError as error:
        raise ConfigError(
            f"{place}{found} cannot be called with one record, a confluent_kafka.Message: {error}"
        ) from None


def _record_errors(consumer: Any, place: str, options: RunOptions) -> "RecordErrors":
    from groupsdk.consumer.record_errors import DeadLetterProducer, RecordErrorPolicy, RecordErrors
    from groupsdk.settings.librdkafka import client_settings

    policy = RecordErrorPolicy(action=options.on_error, retries=options.retries)  # type: ignore[arg-type]  # click's choice
    member = consumer.config.member
    write = None
    if policy.action == "dead-letter":
        if options.dead_letter_topic is None:
            raise ConfigError("--on-error dead-letter: give --dead-letter-topic NAME")
        if options.dead_letter_topic in options.topics:
            raise ConfigError(
                f"--dead-letter-topic: {options.dead_letter_topic} is read by the handler itself"
            )
        write = DeadLetterProducer(client_settings(member, logger), options.dead_letter_topic)
    return RecordErrors(policy, group_id=member.group_id, handler=place, write=write)


def _families(member: Any) -> "list[Family]":
    from groupsdk.telemetry.registry import MetricsRegistry

    registry = MetricsRegistry()
    registry.add_member(member)
    return registry.families()


def _in_time(close: Callable[[], object], timeout_s: float) -> bool:
    thread = threading.Thread(target=close, name="groupsdk-close", daemon=True)
    thread.start()
    thread.join(timeout_s)
    return not thread.is_alive()


def process_environment(number: int, instance_id: str | None, health: str | None) -> dict[str, str]:
    """Return what differs between the processes of one command: variables that stand for its options."""
    told = {"GROUPSDK_PROCESSES": "1"}
    if instance_id is not None:
        told["GROUPSDK_INSTANCE_ID"] = f"{instance_id}-{number}"
    if health is not None:
        host, _, port = health.rpartition(":")
        following = int(port) + number if port.isdecimal() and port != "0" else port
        told["GROUPSDK_HEALTH"] = f"{host}:{following}"
    return told


def run_processes(
    command: Sequence[str],
    environments: Sequence[Mapping[str, str]],
    stop: threading.Event,
    shutdown_timeout_s: float,
) -> ExitCode:
    """Run a command in several processes until `stop` is set or one of them ends by itself.

    A process that a signal has ended, such as one that took too much memory, is started again after a backoff. One that
    ends by itself ends the others, and its exit code is the command's.

    Args:
        command: without the options that `environments` set.
        environments: the variables of each process, besides this one's.
        shutdown_timeout_s: how long the processes may take to leave their group; then they are killed.
    """
    command = without_options(command, ("--processes", "--instance-id", "--health"))
    children = [_Child(command, {**os.environ, **each}) for each in environments]
    code = ExitCode.OK
    try:
        while not stop.wait(_TICK_S):
            ended = [each.ended() for each in children]
            codes = [each for each in ended if each is not None]
            if codes:
                code = ExitCode(codes[0]) if codes[0] in set(ExitCode) else ExitCode.FAILED
                break
    finally:
        for each in children:
            each.terminate()
        in_order = [each.wait(shutdown_timeout_s + _GRACE_S) for each in children]
    return code if all(in_order) or code is not ExitCode.OK else ExitCode.NOT_IN_ORDER


class _Child:
    """One process of `--processes`, and when it was started again."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = command
        self._environment = environment
        self._backoff = ExponentialBackoff(1_000, 60_000)
        self._random = Random()
        self._clock = SystemClock()
        self._restarts = 0
        self._start_at_ms: int | None = None
        self._process = self._start()

    def ended(self) -> int | None:
        """Return the exit code of a process that has ended by itself; start one again that was killed."""
        if self._start_at_ms is not None:
            if self._clock.now_ms() >= self._start_at_ms:
                self._start_at_ms = None
                self._process = self._start()
            return None
        code = self._process.poll()
        if code is None or code >= 0:
            return code
        delay_ms = self._backoff.backoff_ms(self._restarts, self._random)
        self._restarts += 1
        self._start_at_ms = self._clock.now_ms() + delay_ms
        logger.warning(
            "process %d was ended by %s, starting another one in %d ms",
            self._process.pid,
            signal.Signals(-code).name,
            delay_ms,
        )
        return None

    def terminate(self) -> None:
        """Ask the process to end in good order."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end, and kill it when time is up. Return whether it ended in good order."""
        try:
            return self._process.wait(timeout_s) != ExitCode.NOT_IN_ORDER
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return False

    def _start(self) -> "subprocess.Popen[bytes]":
        # in a session of its own: Ctrl-C reaches this process alone, which tells the others once
        return subprocess.Popen(self._command, env=self._environment, start_new_session=True)


def without_options(words: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return a command line without some options that take a value: "--name value" and "--name=value"."""
    kept = []
    rest = iter(words)
    for word in rest:
        name, equals, _ = word.partition("=")
        if name not in options:
            kept.append(word)
        elif not equals:
            next(rest, None)
    return kept


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
