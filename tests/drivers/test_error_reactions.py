"""Answer each request of a member with each error code, in both protocols, and count what its caller's loop raises.

The loop is the one of docs/workers.md: it polls, logs an error, and stops at one that is `fatal`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

import pytest
from typing_extensions import override

from groupsdk.drivers.caller import CallerSide, Raise
from groupsdk.drivers.engine.connect import refusal
from groupsdk.error_code import ErrorCode
from groupsdk.errors import GroupSdkError
from groupsdk.member.actions import CompleteJoin, PrepareJoin
from groupsdk.member.events import CallerRequest, CloseRequested, LookupFailed
from groupsdk.types import GroupMembershipOperation
from groupsdk.wire.messages.configs import DescribeConfigsRequest
from groupsdk.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from groupsdk.wire.messages.groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    SyncGroupRequest,
)
from groupsdk.wire.messages.metadata import MetadataRequest
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from groupsdk.wire.schema import ApiKey, Response
from tests.member import driving as classic
from tests.member.consumer import driving as modern
from tests.support.cases import each_case


E = ErrorCode
CODES: Final = [*(code for code in E if code is not E.NONE), 999, -2, 32_767]
SICK_MS: Final = 10_000
MOST_RAISED: Final = 16
"""In ten seconds, with backoffs of 0.1, 0.2, 0.4, 0.8 and then 1 s, each a fifth shorter or longer."""
RECOVERED_MS: Final = 60_000

Flags = str | None
"""What the loop sees: None, "told", "retriable" or "fatal"."""

_MENDED_BY_OTHERS: Final = {E.GROUP_MAX_SIZE_REACHED, E.UNRELEASED_INSTANCE_ID}
_MOVED: Final = {E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR}
_REJOINS: Final = _MOVED | {E.REBALANCE_IN_PROGRESS, E.UNKNOWN_MEMBER_ID}


def expected(protocol: str, api: ApiKey, code: int) -> Flags:
    """Return what a caller sees of an error code; restated here so that a slip in the tables is seen."""
    known = E.of(code)
    passing = known.retriable and code == known
    if protocol == "consumer" and api is ApiKey.CONSUMER_GROUP_HEARTBEAT:
        if code in _MENDED_BY_OTHERS:
            return "retriable"
        if code in (
            E.UNSUPPORTED_ASSIGNOR,
            E.GROUP_ID_NOT_FOUND,
            E.GROUP_AUTHORIZATION_FAILED,
            E.TOPIC_AUTHORIZATION_FAILED,
            E.UNKNOWN_SERVER_ERROR,
        ):
            return "told"
        silent = passing or code in (E.FENCED_MEMBER_EPOCH, E.UNKNOWN_MEMBER_ID)
        return None if silent else "fatal"
    if api is ApiKey.FIND_COORDINATOR:
        return "retriable" if passing or code in _MENDED_BY_OTHERS else "told"
    if protocol == "classic" and code == E.FENCED_INSTANCE_ID:
        return "fatal"
    if api is ApiKey.HEARTBEAT:
        return "told" if code == E.GROUP_AUTHORIZATION_FAILED else None
    if api is ApiKey.JOIN_GROUP or api is ApiKey.SYNC_GROUP:
        if code in _MENDED_BY_OTHERS:
            return "retriable"
        rejoins = _REJOINS | ({E.ILLEGAL_GENERATION} if api is ApiKey.SYNC_GROUP else set())
        return None if passing or code in rejoins else "told"
    return None  # a commit's caller has its error, and heartbeats decide about the membership


class Loop(ABC):
    """A member, its caller's loop, and a broker that is sick: it answers one API with one error code.

    Args:
        code: the error code; 0 once the broker is well.
    """

    def __init__(self, api: ApiKey, code: int) -> None:
        self.api = api
        self.code = code
        self.side = CallerSide()
        self.raised: list[GroupSdkError] = []
        self.requests = 0

    def run(self, duration_ms: int) -> None:
        """Poll for so long, and stop at an error that is fatal; a well broker is polled until the member works."""
        driver: Any = self.driver
        until_ms = driver.now_ms + duration_ms
        while driver.now_ms < until_ms and not (self.raised and self.raised[-1].fatal):
            if not self.code and self.works:
                return
            step = self.side.step(driver.view, driver.now_ms)
            if isinstance(step, Raise):
                self.raised.append(step.error)
                assert len(self.raised) < 1_000
                if step.report is not None:
                    driver.handle(step.report)
            elif not self.move():
                self.request()
                driver.poll()
                driver.advance(100)

    def move(self) -> bool:
        """Let the broker or the caller do the next thing, if there is one."""
        driver: Any = self.driver
        if driver.looking:
            if self.code and self.api is ApiKey.FIND_COORDINATOR:
                driver.looking = False
                driver.handle(LookupFailed(refusal(self.code, "FindCoordinator of group 'g'")))
            else:
                driver.found()
        elif isinstance(driver.view.call, PrepareJoin):
            driver.prepare()
        elif isinstance(driver.view.call, CompleteJoin):
            self.take_up()
        elif driver.outstanding:
            request = driver.outstanding[0].request
            driver.answer(self.response(request))
        else:
            return False
        return True

    def response(self, request: Any) -> Response:
        code = self.code if request.api.key is self.api else 0
        match request:
            case OffsetCommitRequest():
                partition = OffsetCommitResponsePartition(error_code=code)
                topic = OffsetCommitResponseTopic("t", partitions=(partition,))
                return OffsetCommitResponse(topics=(topic,))
            case OffsetFetchRequest():
                group = OffsetFetchResponseGroup(group_id="g", error_code=code)
                return OffsetFetchResponse(groups=(group,))
            case _:
                return self.answer(request, code)

    def request(self) -> None:
        """Ask what the caller asks beside the membership."""
        driver: Any = self.driver
        generation = driver.view.generation
        requests: dict[ApiKey, Callable[[], Any]] = {
            ApiKey.OFFSET_COMMIT: lambda: OffsetCommitRequest(
                group_id="g",
                generation_id_or_member_epoch=generation.generation_id,
                member_id=generation.member_id,
            ),
            ApiKey.OFFSET_FETCH: lambda: OffsetFetchRequest(groups=()),
        }
        if self.api in requests:
            self.requests += 1
            driver.handle(CallerRequest(self.requests, requests[self.api]()))

    @property
    @abstractmethod
    def driver(self) -> classic.Driver | modern.Member: ...

    @abstractmethod
    def take_up(self) -> None: ...

    @abstractmethod
    def answer(self, request: Any, code: int) -> Response: ...

    @property
    @abstractmethod
    def works(self) -> bool:
        """Whether the member has its assignment."""


class ClassicLoop(Loop):
    def __init__(self, api: ApiKey, code: int) -> None:
        super().__init__(api, code)
        self._driver = classic.Driver()
        self.joins = 0

    @property
    @override
    def driver(self) -> classic.Driver:
        return self._driver

    @override
    def take_up(self) -> None:
        self._driver.deliver()

    @override
    def answer(self, request: Any, code: int) -> Response:
        match request:
            case JoinGroupRequest():
                self.joins += 1
                if code:
                    return classic.join_refused(code, f"m-{self.joins}")
                return classic.joined(self.joins, request.member_id or f"m-{self.joins}")
            case SyncGroupRequest():
                return classic.synced(error=code)
            case HeartbeatRequest():
                return classic.beaten(code)
            case DescribeGroupsRequest():
                return DescribeGroupsResponse()
            case _:
                raise AssertionError(request)

    @property
    @override
    def works(self) -> bool:
        return self._driver.active


class ConsumerLoop(Loop):
    def __init__(self, api: ApiKey, code: int) -> None:
        super().__init__(api, code)
        self._driver = modern.Member()
        self._epoch = 1

    @property
    @override
    def driver(self) -> modern.Member:
        return self._driver

    @override
    def take_up(self) -> None:
        self._driver.take_up()

    @override
    def answer(self, request: Any, code: int) -> Response:
        match request:
            case ConsumerGroupHeartbeatRequest():
                if code:
                    return modern.refused(code)
                if request.member_epoch == 0:
                    self._epoch += 1
                    return modern.beaten(self._epoch, t=(0,))
                return modern.beaten(self._epoch)
            case MetadataRequest():
                return modern.names(*(each.topic_id for each in request.topics or ()))
            case DescribeConfigsRequest():
                return modern.session(modern.SESSION_MS)
            case _:
                raise AssertionError(request)

    @property
    @override
    def works(self) -> bool:
        return self._driver.view.holds_at(self._driver.now_ms) and not self._driver.view.joining


LOOPS: Final[dict[str, type[Loop]]] = {"classic": ClassicLoop, "consumer": ConsumerLoop}
ASKED: Final = [
    ("classic", ApiKey.FIND_COORDINATOR),
    ("classic", ApiKey.JOIN_GROUP),
    ("classic", ApiKey.SYNC_GROUP),
    ("classic", ApiKey.HEARTBEAT),
    ("classic", ApiKey.OFFSET_COMMIT),
    ("classic", ApiKey.OFFSET_FETCH),
    ("consumer", ApiKey.FIND_COORDINATOR),
    ("consumer", ApiKey.CONSUMER_GROUP_HEARTBEAT),
    ("consumer", ApiKey.OFFSET_COMMIT),
    ("consumer", ApiKey.OFFSET_FETCH),
]


def _flags(error: GroupSdkError) -> str:
    assert not (error.fatal and error.retriable)
    return "fatal" if error.fatal else "retriable" if error.retriable else "told"


def _check(loop: Loop, protocol: str, code: int) -> None:
    """Run through ten bad seconds and a good minute, and check both."""
    wanted = expected(protocol, loop.api, code)
    loop.run(SICK_MS)
    assert {_flags(each) for each in loop.raised} == (set() if wanted is None else {wanted})
    assert all(getattr(each, "code", None) == code for each in loop.raised)
    assert len(loop.raised) <= (1 if wanted == "fatal" else MOST_RAISED)
    loop.code = 0
    if wanted == "fatal":
        _check_ended(loop)
        return
    loop.run(RECOVERED_MS)
    assert loop.works


def _check_ended(loop: Loop) -> None:
    """A fatal error is raised by every call, and nothing brings the member back."""
    (error,) = loop.raised
    for _ in range(3):
        loop.raised.clear()
        loop.run(RECOVERED_MS)
        assert loop.raised == [error]
    driver: Any = loop.driver
    driver.outstanding.clear()
    driver.poll()
    driver.advance(RECOVERED_MS)
    assert not driver.outstanding
    assert not driver.looking
    assert not loop.works


@each_case("code", CODES)
@pytest.mark.parametrize(("protocol", "api"), ASKED, ids=lambda each: getattr(each, "name", each))
def test_each_error_is_mended_told_or_fatal_as_its_flags_say(
    protocol: str, api: ApiKey, code: int
) -> None:
    _check(LOOPS[protocol](api, code), protocol, code)


@each_case("code", CODES)
def test_each_error_for_a_member_of_the_group_is_mended_told_or_fatal(code: int) -> None:
    loop = ConsumerLoop(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0)
    loop.run(1_000)
    assert loop.works
    loop.code = code
    _check(loop, "consumer", code)


@each_case("code", CODES)
def test_a_leave_is_over_with_its_answer_in_the_consumer_protocol_too(code: int) -> None:
    member = modern.in_group()
    member.handle(CloseRequested(GroupMembershipOperation.DEFAULT, 30_000, "done"))
    member.answer(modern.refused(code))
    assert member.stopped
    assert member.view.failure is None
