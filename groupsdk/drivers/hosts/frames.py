"""Frames between a member's process and the child process that runs its engine: pickles with a length.

Only these two processes have the socket, which has no name, so its data can be trusted.
"""

import logging
import pickle
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, TypeAlias

from groupsdk.errors import FrameError, GroupSdkError
from groupsdk.lazy_dataclasses import dataclass
from groupsdk.lazy_imports import override
from groupsdk.member.actions import Call
from groupsdk.member.events import CallerEvent
from groupsdk.member.recorder import RebalanceEvent
from groupsdk.member.requests import CoordinatorRequest
from groupsdk.member.view import MemberView
from groupsdk.settings.config import MemberConfig
from groupsdk.wire.schema import Response


MAX_FRAME_BYTES: Final = 1 << 30
"""More than any group can need: a broker's response may have a tenth of it."""

PARENTS_SIGNALS: Final = frozenset((signal.SIGINT, signal.SIGTERM))
"""Signals that reach both processes and are the parent's to handle."""

_PREFIX_BYTES: Final = 4

_OURS: Final = "groupsdk"
_formatter = logging.Formatter()

# To the child.


@dataclass(frozen=True, slots=True)
class Start:
    """The first frame: what to run."""

    config: MemberConfig
    """The member's settings."""
    parent_pid: int
    """The parent's process id."""
    log_level: int
    """The lowest level of log records that the parent wants."""


@dataclass(frozen=True, slots=True)
class MetricsAsked:
    """The parent requests the metrics."""

    request_id: int
    """The id that the answer has."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The parent sends the coordinator a request beside the membership."""

    request_id: int
    """The id that the answer has."""
    request: CoordinatorRequest


ToChild: TypeAlias = Start | MetricsAsked | Asked | CallerEvent
"""The messages of the parent."""


# To the parent.


@dataclass(frozen=True, slots=True)
class Shown:
    """A view that the engine published, without the parts that the parent has already."""

    view: MemberView
    """The view, without the parts that are the same."""
    same_call: bool
    """Whether the call is the one of the view before, and left out here."""
    same_events: bool
    """Whether the rebalances are those of the view before, and left out here."""


@dataclass(frozen=True, slots=True)
class MetricsTold:
    """Answers `MetricsAsked`."""

    request_id: int
    values: dict[str, float]
    """The metrics by Kafka's names."""


@dataclass(frozen=True, slots=True)
class Told:
    """Answers `Asked`."""

    request_id: int
    answer: Response | GroupSdkError


@dataclass(frozen=True, slots=True)
class Logged:
    """One log record, as plain values."""

    name: str
    """The logger's name."""
    level: int
    """A level of `logging`."""
    message: str
    """The message with its arguments inserted."""
    created: float
    """When, in seconds since 1970."""
    thread: str
    path: str
    """The source file."""
    line: int
    function: str
    trace: str | None
    """The exception's traceback, as text."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The last frame: the engine has ended."""

    error: str | None
    """Why the engine ended by itself; None: it was closed."""
    metrics: dict[str, float]
    """The last metrics, by Kafka's names."""


ToParent: TypeAlias = Shown | MetricsTold | Told | Logged | Ended
"""The messages of the child."""


def encode(message: ToChild | ToParent) -> bytes:
    """Return a message as a frame; FrameError if it is too large."""
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    if len(body) > MAX_FRAME_BYTES:
        raise FrameError(
            f"{type(message).__name__} of {len(body)} bytes, more than {MAX_FRAME_BYTES}"
        )
    return len(body).to_bytes(_PREFIX_BYTES) + body


class FrameReader:
    """Assembles frames from the pieces that arrive."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[object]:
        """Add received bytes, and yield the messages that are now complete."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _PREFIX_BYTES:
            size = int.from_bytes(buffer[:_PREFIX_BYTES])
            if size > MAX_FRAME_BYTES:
                raise FrameError(f"a frame of {size} bytes, more than {MAX_FRAME_BYTES}")
            end = _PREFIX_BYTES + size
            if len(buffer) < end:
                return
            body = bytes(buffer[_PREFIX_BYTES:end])
            del buffer[:end]
            yield pickle.loads(body)


class ViewSender:
    """Omits the parts of a view that the other side has: assignments and histories can be large."""

    def __init__(self) -> None:
        self._call: Call | None = None
        self._events: tuple[RebalanceEvent, ...] = ()

    def shown(self, view: MemberView) -> Shown:
        """Return the message for a view. Every message must be sent, in order, as the next one builds on it."""
        same_call = view.call is self._call
        same_events = view.events == self._events
        self._call, self._events = view.call, view.events
        if same_call:
            view = replace(view, call=None)
        if same_events:
            view = replace(view, events=())
        return Shown(view, same_call, same_events)


class ViewReceiver:
    """Restores complete views."""

    def __init__(self) -> None:
        self._call: Call | None = None
        self._events: tuple[RebalanceEvent, ...] = ()

    def view(self, shown: Shown) -> MemberView:
        """Return the complete view."""
        view = shown.view
        if shown.same_call:
            view = replace(view, call=self._call)
        if shown.same_events:
            view = replace(view, events=self._events)
        self._call, self._events = view.call, view.events
        return view


def lowest_level() -> int:
    """Return the lowest level that any logger of the package currently accepts."""
    levels = [logging.getLogger(_OURS).getEffectiveLevel()]
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and name.startswith(f"{_OURS}."):
            levels.append(logger.getEffectiveLevel())
    return max(min(levels), logging.root.manager.disable + 1)


class ForwardingHandler(logging.Handler):
    """Passes the child's log records on as plain values, on the thread that logs them."""

    def __init__(self, forward: Callable[[Logged], None]) -> None:
        super().__init__()
        self._forward = forward

    @override
    def emit(self, record: logging.LogRecord) -> None:
        try:
            trace = record.exc_text
            if trace is None and record.exc_info and record.exc_info[0] is not None:
                trace = _formatter.formatException(record.exc_info)
            self._forward(
                Logged(
                    name=record.name,
                    level=record.levelno,
                    message=record.getMessage(),
                    created=record.created,
                    thread=record.threadName or "",
                    path=record.pathname,
                    line=record.lineno,
                    function=record.funcName or "",
                    trace=trace,
                )
            )
        except Exception:  # noqa: BLE001  # as every handler: a bad record is reported, not raised
            self.handleError(record)


def log_here(logged: Logged, pid: int) -> None:
    """Log a record of the child with process id `pid` as if it were ours."""
    logger = logging.getLogger(logged.name)
    if not logger.isEnabledFor(logged.level):
        return
    record = logger.makeRecord(
        logged.name,
        logged.level,
        logged.path,
        logged.line,
        logged.message,  # whole already, and taken as it is where there are no arguments
        (),
        None,
        logged.function,
    )
    record.created = logged.created
    record.msecs = logged.created % 1 * 1000
    record.exc_text = logged.trace
    record.process = pid
    record.processName = "groupsdk"
    record.threadName = logged.thread
    logger.handle(record)
