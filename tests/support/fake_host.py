"""Run the machine of a member in virtual time against answers that a test scripts."""

from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import Future

from groupsdk.clock import Clock, ManualClock
from groupsdk.drivers.engine_handle import Pause
from groupsdk.drivers.hosts.host import Mailbox, promise, settle
from groupsdk.errors import EngineError, GroupSdkError
from groupsdk.member.actions import Send
from groupsdk.member.events import CallerEvent, CallerRequest, Event
from groupsdk.member.requests import CoordinatorRequest, MembershipRequest
from groupsdk.settings.config import MemberConfig
from groupsdk.wire.messages.groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from groupsdk.wire.schema import Response
from tests.member.driving import (
    Driver,
    beaten,
    joined,
    left,
    synced,
)


Answer = Response | GroupSdkError | None
"""What becomes of a request: an answer, a broken connection, or nothing (yet)."""
AnyRequest = MembershipRequest | CoordinatorRequest
Script = Answer | Callable[[AnyRequest], Answer]

GOOD: dict[type[AnyRequest], Callable[[], Response]] = {
    JoinGroupRequest: joined,
    SyncGroupRequest: synced,
    HeartbeatRequest: beaten,
    LeaveGroupRequest: left,
    DescribeGroupsRequest: DescribeGroupsResponse,
}


class ScriptedHost:
    """Runs the machine right where events are posted; answers come at once, as scripted or good ones."""

    def __init__(self, config: MemberConfig, clock: Clock, mailbox: Mailbox) -> None:
        assert isinstance(clock, ManualClock)
        self.driver = Driver(clock.now_ms(), config=config)
        self.ended: Future[None] = promise()
        self.scripts: dict[type[AnyRequest], deque[Script]] = defaultdict(deque)
        """Request class to what becomes of the next ones; beyond these all answers are good."""
        self.lookup_errors: deque[GroupSdkError] = deque()
        self.lookups_hang = False
        """Whether no lookup ends."""
        self.bug: Exception | None = None
        """What the engine fails with, as soon as it is to do anything."""
        self.will_end = True
        """Whether closing ends the engine."""
        self._clock = clock
        self._mailbox = mailbox
        self._parked: set[int] = set()
        self._asked: dict[int, Future[Response]] = {}

    def start(self) -> None: ...

    def post(self, event: CallerEvent) -> None:
        self.handle(event)

    def ask(self, request: CoordinatorRequest) -> Future[Response]:
        answer: Future[Response] = promise()
        self._asked[len(self._asked) + 1] = answer
        self.handle(CallerRequest(len(self._asked), request))
        return answer

    def metrics(self) -> Future[dict[str, float]]:
        answer: Future[dict[str, float]] = promise()
        answer.set_result(self.driver.metrics)
        return answer

    def abandon(self) -> None:
        self.end()

    def abort(self) -> None:
        self.end()

    def end(self) -> None:
        """End as an engine does that has nothing left to do."""
        if not self.ended.done():
            self.ended.set_result(None)

    def crash(self, bug: Exception = KeyError("bug")) -> None:  # noqa: B008  # never raised
        """End as an engine with a bug does."""
        self._mailbox.crash(
            EngineError(f"the background thread ended: {type(bug).__name__}: {bug}")
        )
        self.end()

    def handle(self, event: Event) -> None:
        """Let something happen, and all that follows from it at once."""
        self.driver.now_ms = self._clock.now_ms()
        self.driver.handle(event)
        self._settle()

    def answer(self, response: Response) -> None:
        """Answer a request that was left without an answer."""
        self.driver.now_ms = self._clock.now_ms()
        self.driver.answer(response)
        self._settle()

    def advance(self, delta_ms: int) -> None:
        """Let time pass, with answers at once."""
        until_ms = self._clock.now_ms() + delta_ms
        while (step_ms := self._next_ms(until_ms)) < until_ms:
            self._step_to(step_ms)
        self._step_to(until_ms)

    def wait(self, pause: Pause) -> None:
        """Let time pass until there is something new for the caller."""
        until_ms = self._clock.now_ms() + pause.timeout_ms
        while self._mailbox.version == pause.version and self._clock.now_ms() < until_ms:
            self._step_to(self._next_ms(until_ms))

    def _next_ms(self, until_ms: int) -> int:
        wake_at_ms = self.driver.wake_at_ms
        return (
            until_ms if wake_at_ms is None else max(self._clock.now_ms(), min(wake_at_ms, until_ms))
        )

    def _step_to(self, at_ms: int) -> None:
        self.driver.now_ms = self._clock.now_ms()
        before = len(self.driver.log)
        self.driver.advance(at_ms - self._clock.now_ms())
        self._clock.advance(at_ms - self._clock.now_ms())
        if len(self.driver.log) != before:
            self._settle()

    def _settle(self) -> None:
        if self.bug is not None:
            self.crash(self.bug)
            return
        while self._answer_one():
            pass
        for caller_request_id, told in self.driver.told.items():
            if not self._asked[caller_request_id].done():
                assert isinstance(told, Response | GroupSdkError)
                settle(self._asked[caller_request_id], told)
        if self.driver.stopped and self.will_end:
            self.end()
        self._mailbox.publish(self.driver.view)

    def _answer_one(self) -> bool:
        driver = self.driver
        if driver.looking and not self.lookups_hang:
            if self.lookup_errors:
                driver.lookup_failed(self.lookup_errors.popleft())
            else:
                driver.found()
            return True
        for send in driver.outstanding:
            if send.request_id not in self._parked:
                self._serve(send)
                return True
        return False

    def _serve(self, send: Send) -> None:
        scripts = self.scripts[type(send.request)]
        script: Script = scripts.popleft() if scripts else GOOD[type(send.request)]()
        answer = script(send.request) if callable(script) else script
        if answer is None:
            self._parked.add(send.request_id)
        elif isinstance(answer, GroupSdkError):
            self.driver.disconnect(answer)
        else:
            self.driver.answer(answer)
