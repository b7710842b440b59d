"""`groupsdk worker`: run a program's connectors and tasks as one worker of a group, until it is told to end.

The first SIGTERM or SIGINT leaves the group in good order, the second ends at once.
"""

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from groupsdk.cli import process
from groupsdk.cli.command import Command, ExitCode, exit_with
from groupsdk.cli.connection import bootstrap_option, settings_options, split_pairs
from groupsdk.cli.page import check_http_packages, http_options
from groupsdk.connect.app import Worker
from groupsdk.connect.errors import StoreUnreachableError
from groupsdk.connect.java_settings import rest_settings
from groupsdk.connect.loggers import FIELD, ConnectorContextFilter
from groupsdk.connect.worker import ConnectWorker
from groupsdk.errors import ConfigError, GroupSdkError
from groupsdk.settings.properties import read_properties


logger = logging.getLogger(__name__)

_HINTS: Final = {
    "bootstrap.servers is missing": ": give --bootstrap-servers HOST:PORT, or --standalone FILE to run without Kafka",
    "group.id is missing": ": give --group NAME, the same for all workers that are to share the work",
}
"""What to do, in the command's words."""
_TICK_S: Final = 0.2
_RETRY_S: Final = 1.0
_FORMAT: Final = process.FORMAT.replace("%(name)s:", f"%({FIELD})s%(name)s")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """The options of `groupsdk worker`, each field under its option's name; the command's help describes them."""

    group: str | None = None
    bootstrap_servers: str | None = None
    config: str | None = None
    settings: Sequence[str] = ()
    standalone: str | None = None
    """The file of a worker without Kafka; None: the worker is a member of a group."""
    worker_id: str | None = None
    shutdown_timeout: float = 30.0
    rest: str | None = None
    """HOST:PORT of the REST API; None: the file's `listeners`, or no API."""
    rest_advertised_url: str | None = None
    rest_allowed_hosts: str | None = None
    rest_user: str | None = None
    rest_password: str | None = None


def _set_up_logging(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(ConnectorContextFilter())
    process.set_up_logging(level, handler, _FORMAT)


@click.command(
    cls=Command,
    examples=[
        (
            "groupsdk worker crawler:app --group crawlers --bootstrap-servers localhost:9092",
            "one worker",
        ),
        ("groupsdk worker crawler:app --standalone state.json", "alone, without Kafka"),
        (
            "groupsdk worker crawler:app --config worker.properties --rest 127.0.0.1:8083",
            "with REST",
        ),
    ],
)
@click.argument("app", metavar="MODULE:APP")
@process.group_option("The group of the workers.")
@bootstrap_option
@settings_options
@click.option(
    "--standalone",
    metavar="FILE",
    envvar="GROUPSDK_STANDALONE",
    help="Run alone, without Kafka, with all state in FILE.",
)
@click.option(
    "--worker-id", envvar="GROUPSDK_WORKER_ID", help="The name of this worker in statuses."
)
@process.shutdown_timeout_option
@http_options(
    "--rest",
    "Serve the REST API here; needs the extra groupsdk[rest].",
    advertised="The URL at which other workers reach it.",
)
@process.log_level_option("info", _set_up_logging)
def worker(app: str, **options: Any) -> None:
    """Run the connectors and tasks of a program, MODULE:APP, as one worker of a group.

    Further settings of Kafka and of Connect come from --config, worker.properties of Kafka Connect included.
    """
    with process.StopSignals() as signals:
        exit_with(run_worker(app, WorkerOptions(**options), signals))


def run_worker(place: str, options: WorkerOptions, signals: process.StopSignals) -> ExitCode:
    """Run the `groupsdk.connect.Worker` at "module:app" until a signal ends it, the first in good order, or it ends by itself."""
    settings = gather_worker_settings(options)
    listener, announced = rest_settings(settings)
    address = options.rest or listener
    rest = None
    if address is not None:
        check_http_packages("--rest")
        # workers without REST do not need it
        from groupsdk.http.settings import HttpSettings

        rest = HttpSettings.of(
            "--rest",
            address,
            user=options.rest_user,
            password=options.rest_password,
            allowed_hosts=options.rest_allowed_hosts,
            advertised_url=options.rest_advertised_url or announced,
        )
    app = load_app(place)
    try:
        running = _start(app, options, settings, "" if rest is None else rest.url, signals)
    except ConfigError as error:
        raise ConfigError(f"{error}{_HINTS.get(str(error), '')}") from error
    except GroupSdkError as error:
        logger.error("the worker cannot start: %s", error)  # noqa: TRY400  # for a person to read
        return ExitCode.FAILED
    if running is None:
        return ExitCode.OK
    server = None
    try:
        if rest is not None:
            # an extra, which workers without REST do not need
            from groupsdk.connect.rest.api import RestServer

            server = RestServer(running, rest)
            server.start()
        return _wait(running, signals, options.shutdown_timeout)
    except ConfigError:
        running.stop(options.shutdown_timeout)
        raise
    finally:
        if server is not None:
            server.stop()


def load_app(place: str) -> Worker:
    """Import a program's `Worker`."""
    found = process.load(place)
    if not isinstance(found, Worker):
        raise ConfigError(f"{place!r} is a {type(found).__name__}, not a groupsdk.connect.Worker")
    return found


def gather_worker_settings(options: WorkerOptions) -> dict[str, str]:
    """Merge the settings of the file, of `--set` and of the options; later ones override earlier ones."""
    settings = {} if options.config is None else read_properties(options.config)
    settings |= split_pairs("--set", options.settings)
    for key, value in (
        ("group.id", options.group),
        ("bootstrap.servers", options.bootstrap_servers),
        ("worker.id", options.worker_id),
    ):
        if value is not None:
            settings[key] = value
    return settings


def _start(
    app: Worker,
    options: WorkerOptions,
    settings: dict[str, str],
    url: str,
    signals: process.StopSignals,
) -> ConnectWorker | None:
    """Start the worker, as soon as a broker answers; return None if a signal came first."""
    if options.standalone is not None:
        return app.start_standalone(options.standalone, settings)
    while not signals.first.is_set():
        try:
            return app.start(settings, url=url)
        except StoreUnreachableError as error:
            logger.warning("no broker answers, still trying: %s", error)
            signals.first.wait(_RETRY_S)
    return None


def _wait(worker: ConnectWorker, signals: process.StopSignals, timeout_s: float) -> ExitCode:
    while not signals.first.is_set():
        if worker.wait(_TICK_S):
            return ExitCode.OK if worker.error is None else ExitCode.FAILED
    logger.info("shutting down; another signal ends the process at once")
    if not worker.stop(timeout_s):
        logger.error("no graceful shutdown within %g s", timeout_s)
        return ExitCode.NOT_IN_ORDER
    return ExitCode.OK if worker.error is None else ExitCode.FAILED
