"""Handle a request of very many elements in parts, so that other requests on the loop can run.

Most APIs answer element by element. A request of such an API is split into requests of a few hundred elements, which
are handled one after the other, and their responses are merged.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final, cast

from groupsdk.broker.server.call import Call
from groupsdk.lazy_imports import override
from groupsdk.wire.schema import ApiKey, Request, Response


_PART: Final = 256
"""How many elements a part has."""

Paths = tuple[tuple[str, str], ...]
"""The arrays of a request, from the outside in, each with the array of the response that repeats its elements."""

_TOPICS: Final = (("topics", "topics"), ("partitions", "partitions"))
PARTS: Final[Mapping[int, tuple[Paths, ...]]] = {
    ApiKey.OFFSET_FETCH: (
        (("groups", "groups"), ("topics", "topics"), ("partition_indexes", "partitions")),
        (("topics", "topics"), ("partition_indexes", "partitions")),
    ),
    ApiKey.FIND_COORDINATOR: ((("coordinator_keys", "coordinators"),),),
    ApiKey.LEAVE_GROUP: ((("members", "members"),),),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ((("group_ids", "groups"),),),
    ApiKey.DESCRIBE_GROUPS: ((("groups", "groups"),),),
    ApiKey.DELETE_GROUPS: ((("groups_names", "results"),),),
    ApiKey.DELETE_RECORDS: (_TOPICS,),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (_TOPICS,),
    ApiKey.ADD_PARTITIONS_TO_TXN: ((("transactions", "results_by_transaction"),),),
    ApiKey.CREATE_ACLS: ((("creations", "results"),),),
    ApiKey.DELETE_ACLS: ((("filters", "filter_results"),),),
    ApiKey.DESCRIBE_CONFIGS: ((("resources", "results"),),),
    ApiKey.OFFSET_DELETE: (_TOPICS,),
    ApiKey.DESCRIBE_PRODUCERS: ((("topics", "topics"), ("partition_indexes", "partitions")),),
    ApiKey.DESCRIBE_TRANSACTIONS: ((("transactional_ids", "transaction_states"),),),
}
"""The APIs that can be split, with their arrays: each element is independent, and answered in the order of the
request.
"""


def paths_of(api_key: int, request: Any) -> Paths | None:
    """Return the arrays at which to split a request; None if it cannot be split, or has at most 256 elements."""
    for paths in PARTS.get(api_key, ()):
        if getattr(request, paths[0][0], None):
            return paths if _weight(request, paths, _PART) > _PART else None
    return None


def parts_of(message: Any, paths: Paths, size: int = _PART) -> Iterator[tuple[Any, int]]:
    """Split a message into parts of at most so many elements.

    Each part has a depth: in how many arrays, from the outside in, it continues the last element of the part before.
    """
    name, rest = paths[0][0], paths[1:]
    elements = getattr(message, name)
    if not rest:
        for start in range(0, len(elements), size):
            yield replace(message, **{name: elements[start : start + size]}), 0
        return
    waiting: list[Any] = []
    weight = 0
    for element in elements:
        inner = max(_weight(element, rest, size), 1)
        if waiting and weight + inner > size:
            yield replace(message, **{name: tuple(waiting)}), 0
            waiting, weight = [], 0
        if inner <= size:
            waiting.append(element)
            weight += inner
            continue
        for number, (part, depth) in enumerate(parts_of(element, rest, size)):
            yield replace(message, **{name: (part,)}), depth + 1 if number else 0
    if waiting:
        yield replace(message, **{name: tuple(waiting)}), 0


def _weight(message: Any, paths: Paths, enough: int) -> int:
    """Return how many elements a message has, or some number above `enough` if there are more."""
    elements = getattr(message, paths[0][0]) or ()
    if len(paths) == 1 or len(elements) > enough:
        return len(elements)
    weight = 0
    for element in elements:
        weight += max(_weight(element, paths[1:], enough - weight), 1)
        if weight > enough:
            break
    return weight


def together(answers: Sequence[tuple[Any, int]], paths: Paths) -> Any:
    """Merge the responses to all parts, in order, each with the depth of its part; see `parts_of`."""
    name, rest = paths[0][1], paths[1:]
    elements: list[Any] = []
    stop = 0
    while stop < len(answers):
        start, stop = stop, stop + 1
        while stop < len(answers) and answers[stop][1]:
            stop += 1
        found = [getattr(answer, name) for answer, _ in answers[start:stop]]
        if len(found) > 1 and all(len(each) == 1 for each in found):
            inner = [
                (each[0], max(depth - 1, 0))
                for each, (_, depth) in zip(found, answers[start:stop], strict=True)
            ]
            elements.append(together(inner, rest))
        else:
            elements += chain.from_iterable(found)
    return replace(answers[0][0], **{name: tuple(elements)})


class PartCall(Call):
    """A part of a request in flight; its response goes to the whole request."""

    __slots__ = ("_whole",)

    def __init__(self, whole: "InParts", call: Call) -> None:
        super().__init__(call.connection, call.route, call.correlation_id, call.client_id, 0)
        self._whole = whole

    @override
    def answer(self, response: Response) -> None:
        if not self.done:
            self.done = True
            self._whole.answered(response, is_large=self.large)


class InParts:
    """A request that is handled in parts."""

    def __init__(self, call: Call, request: Request[Any], paths: Paths) -> None:
        self._call = call
        self._paths = paths
        self._parts = parts_of(request, paths)
        self._answers: list[tuple[Any, int]] = []
        self._depth = 0

    def go_on(self) -> None:
        """Handle the next part; after the last one, answer the request. Does nothing once the connection is closed."""
        connection = self._call.connection
        if self._call.lost or not connection.node.running:
            return
        found = next(self._parts, None)
        if found is None:
            self._call.answer(self._answer())
            return
        part, self._depth = found
        connection.run(PartCall(self, self._call), part)

    def answered(self, response: Response, *, is_large: bool) -> None:
        """Keep the response to the current part, and schedule the next one after other pending work of the loop."""
        self._call.large |= is_large
        self._answers.append((response, self._depth))
        self._call.node.cluster.in_steps(self.go_on)

    def _answer(self) -> Response:
        for response, _ in self._answers:
            if getattr(response, "error_code", 0):
                return cast(
                    "Response", response
                )  # an error of the whole request, which every part has
        return cast("Response", together(self._answers, self._paths))
