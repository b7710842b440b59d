"""Ask several coordinators on behalf of one request, and go on when all have answered."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from groupsdk.broker.runtime.coordinator_runtime import CoordinatorRuntime
from groupsdk.broker.server.call import Call
from groupsdk.broker.server.refusals import refuse
from groupsdk.error_code import ErrorCode
from groupsdk.wire.schema import Request, Response


MAX_FILTERS: Final = 1_000
"""How many states and types a client may ask for: every coordinator looks at them all."""


def submit(call: Call, runtime: CoordinatorRuntime | ErrorCode, request: Request[Any]) -> None:
    """Have a coordinator answer a call; where there is none, answer the error."""
    if type(runtime) is CoordinatorRuntime:
        connection = call.connection
        runtime.submit(
            request,
            call.answer,
            call.route.version,
            call.client_id,
            connection.client_host,
            connection.principal,
        )
    else:
        ask(call, runtime, request, call.answer)


def ask(
    call: Call,
    runtime: CoordinatorRuntime | ErrorCode,
    request: Request[Any],
    answer: Callable[[Response], None],
) -> None:
    """Have a coordinator answer a request made for a call."""
    if isinstance(runtime, CoordinatorRuntime):
        connection = call.connection
        runtime.submit(
            request,
            answer,
            call.route.version,
            call.client_id,
            connection.client_host,
            connection.principal,
        )
        return
    response = refuse(request, runtime, call.route.version)
    assert response is not None, "every request of a coordinator has a place for an error"
    answer(response)


def gather(
    call: Call,
    parts: Sequence[tuple[CoordinatorRuntime | ErrorCode, Request[Any]]],
    combine: Callable[[list[Any]], Response],
) -> Response | None:
    """Ask for all parts; answer the call with what `combine` makes of the answers, in their order.

    Returns:
        None, or the answer where there is nothing to ask.
    """
    if not parts:
        return combine([])
    answers: list[Response | None] = [None] * len(parts)
    missing = len(parts)

    def take(index: int, response: Response) -> None:
        nonlocal missing
        answers[index] = response
        missing -= 1
        if missing == 0:
            call.answer(combine(answers))

    for index, (runtime, request) in enumerate(parts):
        ask(call, runtime, request, partial(take, index))
    return None
