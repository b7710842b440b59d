"""How a member leaves its group: a dynamic one with one request, a static one until the coordinator has heard of it."""

from typing import Final

from groupsdk.error_code import ErrorCode
from groupsdk.member.actions import Action
from groupsdk.member.classic.requests import leave_request
from groupsdk.member.member import Deadline, Member
from groupsdk.member.membership import MOVED
from groupsdk.wire.messages.groups import LeaveGroupRequest
from groupsdk.wire.schema import ApiKey


_NOT_HEARD: Final = MOVED | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
"""The errors of a broker that does not have the group, or not yet."""


class Leaving:
    """The request that says that a member has left; it is repeated for a static one, if it was lost.

    A dynamic member whose leave was lost is expelled by the next rebalance. For a static one every rebalance waits, for
    the whole rebalance timeout, and its session begins anew with each. The request names the process by its member id,
    so it may be repeated: whoever has joined under the same group.instance.id meanwhile has another.
    """

    def __init__(self, member: Member) -> None:
        self._member = member
        self._request: LeaveGroupRequest | None = None
        self._until_ms = self._retry_at_ms = 0
        self._failures = 0

    def begin(self, member_id: str, reason: str) -> list[Action]:
        """Send a leave: a dynamic member now, a static one as soon as the coordinator is known, and again if it is lost."""
        member = self._member
        request = leave_request(member.config, member_id, reason)
        if member.config.group_instance_id is None:
            return [] if member.coordinator is None else self._send(request)
        self._request = request
        member.owes_leave = True
        self._until_ms = (
            member.now_ms + member.config.session_timeout_ms + member.config.rebalance_timeout_ms
        )
        self._retry_at_ms = member.now_ms
        self._failures = 0
        return [] if member.coordinator is None else self._send(request)

    def answered(self, code: int) -> None:
        """Take note of the coordinator's answer: the leave is over, whatever it is, unless a wrong broker gave it."""
        if code not in _NOT_HEARD:
            self.forget()
            return
        member = self._member
        self._retry_at_ms = member.now_ms + member.backoff.backoff_ms(self._failures, member.random)
        self._failures += 1

    def forget(self) -> None:
        """Tell nobody any more: the member joins again, or cannot send it."""
        self._request = None
        self._member.owes_leave = False

    def deadlines(self) -> list[Deadline]:
        """Return when the leave is sent again, and when the group has noticed by itself."""
        request, member = self._request, self._member
        if request is None:
            return []
        deadlines: list[Deadline] = [(self._until_ms, self._give_up)]
        if (
            member.coordinator is not None
            and ApiKey.LEAVE_GROUP not in member.requests.summary.apis
        ):
            deadlines.append((self._retry_at_ms, lambda: self._send(request)))
        return deadlines

    def _give_up(self) -> list[Action]:
        self.forget()
        return []

    def _send(self, request: LeaveGroupRequest) -> list[Action]:
        timeout_ms = self._member.config.request_timeout_ms
        return [self._member.send(request, ApiKey.LEAVE_GROUP, timeout_ms)]
