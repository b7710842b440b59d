"""Run a worker from the command line: `python -m groupsdk.connect module:app --group g --bootstrap-servers ...`.

Every option falls back to the environment: `--group` to `GROUPSDK_GROUP`, and so on. The first SIGTERM or SIGINT
leaves the group in good order, the second ends at once.
"""

import argparse
import importlib
import importlib.util
import logging
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from groupsdk.connect.app import Worker
from groupsdk.connect.java_settings import parse_properties, rest_settings
from groupsdk.connect.log_context import FIELD, ConnectorContextFilter
from groupsdk.connect.rest.settings import RestSettings
from groupsdk.connect.worker import ConnectWorker
from groupsdk.errors import ConfigError, GroupSdkError


logger = logging.getLogger(__name__)

OK: Final = 0
FAILED: Final = 1
"""The worker ended by itself: the log says why."""
WRONG_USAGE: Final = 2
"""An option, the program or a setting is wrong."""
NOT_IN_ORDER: Final = 3
"""It was told to end, and could not do that in order in time."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_HINTS: Final = {
    "bootstrap.servers is missing": ": give --bootstrap-servers HOST:PORT, or --standalone FILE to run without Kafka",
    "group.id is missing": ": give --group NAME, the same for all workers that are to share the work",
}
"""What to do, in the command's words."""
_TICK_S: Final = 0.2
_FORMAT: Final = f"%(asctime)s %(levelname)s %({FIELD})s%(name)s %(message)s"


def add_arguments(
    parser: argparse.ArgumentParser, environment: Mapping[str, str] | None = None
) -> None:
    """Add the options.

    Args:
        parser: what to add them to.
        environment: where options fall back to; None: the process's.
    """
    given = os.environ if environment is None else environment

    def option(name: str, **more: Any) -> None:
        variable = "GROUPSDK_" + name.removeprefix("--").replace("-", "_").upper()
        more["help"] = f"{more['help']} [{variable}]"
        parser.add_argument(name, default=given.get(variable, more.pop("default", None)), **more)

    parser.add_argument("app", metavar="module:app", help="where the program's Worker is")
    option("--group", help="the group of workers")
    option("--bootstrap-servers", help="host:port,host:port of Kafka")
    option(
        "--config",
        help="a file of further settings, one key=value on a line; Connect's worker.properties too",
    )
    option(
        "--standalone", metavar="FILE", help="run alone, without Kafka, and keep everything in FILE"
    )
    option("--worker-id", help="what this worker is called in statuses")
    option("--log-level", default="info", help="debug, info, warning or error")
    option("--shutdown-timeout", default="30", help="seconds to leave in good order")
    option(
        "--rest", metavar="HOST:PORT", help="answer to HTTP here; needs the extra groupsdk[rest]"
    )
    option("--rest-advertised-url", help="where other workers reach that")
    option(
        "--rest-allowed-hosts",
        help="further names, host,host, by which requests may address this worker",
    )
    option("--rest-user", help="who may use it; GROUPSDK_REST_PASSWORD holds the password")
    parser.set_defaults(rest_password=given.get("GROUPSDK_REST_PASSWORD"))
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="settings",
        help="one more setting of Kafka or Connect, such as session.timeout.ms=10000; repeatable",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the worker until it is told to end; returns the exit code."""
    level = str(arguments.log_level).upper()
    if level not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        return _wrong(f"--log-level must be debug, info, warning or error, not {level.lower()!r}")
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(ConnectorContextFilter())
    logging.basicConfig(level=level, format=_FORMAT, handlers=[handler])
    signals = _Signals()
    signals.take()
    try:
        timeout_s = _seconds(arguments.shutdown_timeout)
        settings = _settings(arguments)
        listener, announced = rest_settings(settings)
        rest = RestSettings.of(
            arguments.rest or listener,
            arguments.rest_advertised_url or announced,
            arguments.rest_user,
            arguments.rest_password,
            arguments.rest_allowed_hosts,
        )
        if rest is not None and importlib.util.find_spec("uvicorn") is None:
            return _wrong("--rest needs more packages: pip install 'groupsdk[rest]'")
        app = load(arguments.app)
        worker = _start(app, arguments, settings, "" if rest is None else rest.url)
    except ConfigError as error:
        return _wrong(f"{error}{_HINTS.get(str(error), '')}")
    except GroupSdkError as error:
        logger.error("the worker cannot start: %s", error)  # noqa: TRY400  # for a person to read
        return FAILED
    server = None
    try:
        if rest is not None:
            # an extra, which workers without REST do not need
            from groupsdk.connect.rest.server import RestServer

            server = RestServer(worker, rest)
            server.start()
        return _wait(worker, signals, timeout_s)
    except ConfigError as error:
        worker.stop(timeout_s)
        return _wrong(str(error))
    finally:
        if server is not None:
            server.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m groupsdk.connect", description=__doc__)
    add_arguments(parser)
    return run(parser.parse_args(arguments))


def load(place: str) -> Worker:
    """Import a program.

    Raises:
        ConfigError: there is none at that place.
    """
    module_name, colon, name = place.partition(":")
    if not colon or not module_name or not name:
        raise ConfigError(f"{place!r} is not module:app, for example crawler:app")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and module_name.startswith(error.name):
            raise ConfigError(f"there is no module {error.name!r} for {place!r}") from None
        raise
    for part in name.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"{place!r}: {module_name} has no {name!r}")
        found = getattr(found, part)
    if not isinstance(found, Worker):
        raise ConfigError(f"{place!r} is a {type(found).__name__}, not a groupsdk.connect.Worker")
    return found


def read_settings(path: Path) -> dict[str, str]:
    """Read a file of settings: a key=value on each line, as worker.properties of Kafka Connect has them.

    Raises:
        ConfigError: it cannot be read, or a line is none of that.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config {path} cannot be read: {error}") from None
    return parse_properties(text, str(path))


class _Signals:
    """Counts the signals to end."""

    def __init__(self) -> None:
        self.first = threading.Event()

    def take(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for each in _SIGNALS:
                signal.signal(each, self._received)

    def _received(self, number: int, _: object) -> None:
        if self.first.is_set():
            os._exit(128 + number)
        self.first.set()


def _settings(arguments: argparse.Namespace) -> dict[str, str]:
    settings = {} if arguments.config is None else read_settings(Path(arguments.config))
    settings |= dict(_setting(each, "--set") for each in arguments.settings)
    for key, value in (
        ("group.id", arguments.group),
        ("bootstrap.servers", arguments.bootstrap_servers),
        ("worker.id", arguments.worker_id),
    ):
        if value is not None:
            settings[key] = value
    return settings


def _start(
    app: Worker, arguments: argparse.Namespace, settings: dict[str, str], url: str
) -> ConnectWorker:
    if arguments.standalone is not None:
        return app.start_standalone(arguments.standalone, settings)
    return app.start(settings, url=url)


def _wait(worker: ConnectWorker, signals: _Signals, timeout_s: float) -> int:
    while not signals.first.is_set():
        if worker.wait(_TICK_S):
            return OK if worker.error is None else FAILED
    logger.info("leaving in good order; another signal ends at once")
    if not worker.stop(timeout_s):
        logger.error("not ended in order within %g s", timeout_s)
        return NOT_IN_ORDER
    return OK if worker.error is None else FAILED


def _setting(text: str, where: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"{where}: {text!r} is not key=value")
    return key.strip(), value.strip()


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e6:
        raise ConfigError(f"--shutdown-timeout must be a number of seconds, not {text!r}")
    return seconds


def _wrong(text: str) -> int:
    sys.stderr.write(f"groupsdk: {text}\n")
    return WRONG_USAGE
