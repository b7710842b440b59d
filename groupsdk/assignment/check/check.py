"""Run an assignor on many groups and report the smallest one on which it breaks the contract."""

import copy
import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from groupsdk.assignment import (
    Assignment,
    GroupAssignment,
    PartitionAssignor,
    Partitions,
    RebalanceProtocol,
    is_assignor,
    missing_parts,
)
from groupsdk.assignment.check.cases import (
    GENERATION_ID,
    LARGE,
    SMALL,
    Case,
    MakeAssignor,
    after_assignment,
    fresh_case,
    later_case,
    shrunk,
)
from groupsdk.assignment.check.clock import LATER_S, package_of, shifted_clock
from groupsdk.assignment.check.hashes import with_other_hashes
from groupsdk.assignment.check.server_check import (
    MakeServerAssignor,
    ServerCheck,
    is_server_assignor,
)
from groupsdk.assignment.check.steps import StepLimit, TooManySteps, growth_problem
from groupsdk.assignment.contract import misfit
from groupsdk.assignment.plan import Plan, find_problems


if TYPE_CHECKING:
    from groupsdk.broker.coordinator.consumer.assignors import ServerAssignor

    AnyAssignor = PartitionAssignor | ServerAssignor

_ROUNDS = 10
_EVERY = 5
_ELSEWHERE = 40
"""So many groups are also assigned in a process with other hashes."""

Written = dict[str, tuple[dict[str, tuple[int, ...]], bytes | None]]
"""A result in which nothing depends on the types or the order of mappings."""


class AssignorCheckError(AssertionError):
    """An assignor breaks the contract; the message contains the smallest failing group found."""


class _BrokenError(Exception):
    """One property does not hold on one case."""


def check_assignor(
    assignor: "AnyAssignor | Callable[[], AnyAssignor]",
    *,
    cases: int = 200,
    seed: int = 0,
    max_steps: int = 1_000_000,
) -> int:
    """Check an assignor against the contract of `PartitionAssignor` or `ServerAssignor`, on random groups.

    One whose `assign` takes a group and nothing else is a `ServerAssignor`, which runs in the coordinator (KIP-848).
    It may depend on the order of mappings, since the coordinator's is always the same, and may leave members out.

    Most groups have up to eight members and topics of up to 6 partitions, so that little has to be read where
    one fails. Every fifth pair is larger: up to 40 members, and topics of up to 300 partitions.

    What is checked on each group:

    - valid: every partition goes to exactly one subscriber, and every member is in the result
    - deterministic: the same again, from the same object and from a new one
    - order-free: the same with all mappings, sets and lists of topics in another order
    - timeless: the same when the clocks of `time` and `datetime` are ahead, by a second, an hour and 43 days. Only the global
      names of the modules in the assignor's package are replaced: a clock that is imported within a function,
      or read elsewhere, is not seen
    - hash-free: the same in another process, where strings have other hashes (checked once on some groups, where
      another process can import the class; a lambda or a class in `__main__` is not checked)
    - considerate: the arguments are as they were
    - robust: claims that cannot be true and user data that does not parse raise nothing
    - bounded: no more lines of Python than `max_steps` (see `StepLimit` for what is not seen)
    - linear: four times the members, topics or partitions, one of these at a time, take at most eight times the lines
      of Python (checked once, on groups whose members subscribe to all topics and own nothing, or everything;
      comparing member ids counts as a line, also within `in` or `list.index`)
    - for a cooperative one: what a member owns is not given to another before it is revoked, and the
      rounds come to an end with everything given out

    Groups come in pairs: a fresh one, and the same later, when members own what they were given, have
    reported it in their user data, some have gone and others come, and some say what is not true.

    Args:
        assignor: a class (or anything that makes an assignor when called), or an assignor, which is copied.
        cases: how many pairs of groups.
        seed: other numbers make other groups; the same makes the same.
        max_steps: lines of Python for one call of `assign`.

    Returns:
        The number of groups checked.

    Raises:
        AssignorCheckError: something does not hold; the text says what, and on which group, as small as it
            could be made.
        TypeError: the assignor cannot be copied; give what makes one.
    """
    if is_server_assignor(assignor) or (callable(assignor) and is_server_assignor(_made(assignor))):
        return _check_server(_maker(assignor), cases, seed, max_steps)
    make: MakeAssignor = _maker(assignor)
    check = _Check(make, max_steps, seed)
    check.shape()
    checked = 0
    some: list[Case] = []
    for number in range(cases):
        # text seeds are the same in all versions of Python
        source = random.Random(f"{seed}/{number}")
        scale = LARGE if number % _EVERY == 1 else SMALL
        case = fresh_case(source, scale)
        check.case(case)
        plan = make().assign(case.cluster, case.subscriptions)
        later = later_case(source, case, plan, make, scale)
        check.case(later)
        some += [case, later] if len(some) < _ELSEWHERE else []
        checked += 2
    check.growth()
    check.hashes(assignor, some)
    return checked


def _results(assignor_and_cases: tuple[Any, list[Case]]) -> list[str]:
    """Return the result for each group as a text in which nothing depends on order."""
    assignor, cases = assignor_and_cases
    make: MakeAssignor = _maker(assignor)
    return [
        repr(sorted((m, sorted(topics.items()), data) for m, (topics, data) in written.items()))
        for case in cases
        for written in [_written(make().assign(case.cluster, case.subscriptions))]
    ]


def _check_server(make: MakeServerAssignor, cases: int, seed: int, max_steps: int) -> int:
    check = ServerCheck(make, max_steps)
    problem = check.problem_of_shape()
    if problem is not None:
        raise AssignorCheckError(f"assignor {check.name} {problem}")
    for number in range(cases):
        fresh, make_later = check.cases(seed, number)
        for made in (lambda fresh=fresh: fresh, make_later):
            failure = check.failure_of(made())
            if failure is not None:
                case, text = failure
                raise AssignorCheckError(
                    f"assignor {check.name} {text}\n\nOn this group, where what a member owns is its previous"
                    f" target:\n{case.written()}"
                )
    problem = check.growth_problem()
    if problem is not None:
        raise AssignorCheckError(f"assignor {check.name} {problem}")
    return 2 * cases


def _made(assignor: Callable[[], Any]) -> object:
    try:
        return assignor()
    except Exception:  # noqa: BLE001 - the check itself says what is wrong with it
        return None


def _maker(assignor: Any) -> Callable[[], Any]:
    if isinstance(assignor, type) or not (is_assignor(assignor) or is_server_assignor(assignor)):
        make: Callable[[], Any] = assignor
        return make

    def copied() -> Any:
        try:
            return copy.deepcopy(assignor)
        except Exception as error:
            raise TypeError(
                f"{assignor!r} cannot be copied ({error}): give a class or function that makes one"
            ) from error

    return copied


class _Check:
    def __init__(self, make: MakeAssignor, max_steps: int, seed: int) -> None:
        self._make = make
        self._max_steps = max_steps
        self._seed = seed
        self._name = repr(getattr(make(), "name", make))

    def shape(self) -> None:
        """Check the properties that do not depend on a group."""
        assignor: object = self._make()
        if not is_assignor(assignor):
            missing = ", ".join(missing_parts(assignor))
            raise AssignorCheckError(f"{assignor!r} is not a PartitionAssignor: it lacks {missing}")
        if wrong := misfit(assignor):
            raise AssignorCheckError(wrong)
        data: object = assignor.subscription_user_data(frozenset({"a-topic"}))
        if data is not None and not isinstance(data, bytes):
            raise AssignorCheckError(
                f"assignor {assignor.name!r}: subscription_user_data() must return bytes or None, not {data!r}"
            )

    def case(self, case: Case) -> None:
        """Check one group; the error has the smallest group that was found."""
        failure = self._failure(case)
        if failure is None:
            return
        case, failure = shrunk(case, failure, self._failure)
        raise AssignorCheckError(
            f"assignor {self._name} {failure}\n\nOn this group:\n{case.written()}"
        )

    def growth(self) -> None:
        problem = growth_problem(self._prepared)
        if problem is not None:
            raise AssignorCheckError(f"assignor {self._name} {problem}")

    def _prepared(self, case: Case) -> Callable[[], object]:
        subscriptions = {
            member_id: after_assignment(
                self._make(), each, Assignment(each.owned_partitions), GENERATION_ID
            )
            if each.owned_partitions
            else each
            for member_id, each in case.subscriptions.items()
        }
        return lambda: self._make().assign(case.cluster, subscriptions)

    def hashes(self, assignor: object, cases: list[Case]) -> None:
        """Compare the results for some groups with those in a process where strings have other hashes."""
        others = with_other_hashes(_results, (assignor, cases))
        if others is None:
            return
        for case, here, there in zip(cases, _results((assignor, cases)), others, strict=True):
            if here != there:
                raise AssignorCheckError(
                    f"assignor {self._name} is not hash-free: it gives {here}\n"
                    f"in a process with other hashes {there}\n\nOn this group:\n{case.written()}"
                )

    def _failure(self, case: Case) -> str | None:
        try:
            for check in (self._is_sound, self._is_the_same, self._settles):
                check(case)
        except _BrokenError as broken:
            return str(broken)
        return None

    def _assign(self, assignor: PartitionAssignor, case: Case) -> GroupAssignment:
        try:
            return assignor.assign(case.cluster, case.subscriptions)
        except Exception as error:
            raise _BrokenError(
                f"is not robust: it raises {type(error).__name__}: {error}"
            ) from error

    def _is_sound(self, case: Case) -> None:
        before = case.written()
        try:
            with StepLimit(self._max_steps):
                plan = self._assign(self._make(), case)
        except TooManySteps:
            raise _BrokenError(f"is not bounded: over {self._max_steps} lines of Python") from None
        if case.written() != before:
            raise _BrokenError(
                f"is not considerate: it changed its arguments, which were:\n{before}\nnow:"
            )
        self._is_valid(case, plan, self._may_withhold())
        for member_id, (_, user_data) in _written(plan).items():
            data: object = user_data
            if data is not None and not isinstance(data, bytes):
                raise _BrokenError(f"is not valid: {member_id!r} is given the user data {data!r}")

    def _is_valid(self, case: Case, plan: GroupAssignment, may_withhold: bool) -> None:
        whole = Plan(case.cluster, case.subscriptions, plan)
        problems = list(islice(find_problems(whole, may_withhold=may_withhold), 5))
        if problems:
            raise _BrokenError(f"is not valid: {'; '.join(problems)}\nIt gave: {plan!r}")

    def _is_the_same(self, case: Case) -> None:
        assignor = self._make()
        first = _written(self._assign(assignor, case))
        again = _written(self._assign(assignor, case))
        if again != first:
            raise _BrokenError(f"is not deterministic: first {first!r}\nthen {again!r}")
        anew = _written(self._assign(self._make(), case))
        if anew != first:
            raise _BrokenError(f"is not deterministic: one object {first!r}\nanother {anew!r}")
        source = random.Random(f"{self._seed}/order")
        for _ in range(3):
            turned = _written(self._assign(self._make(), case.shuffled(source)))
            if turned != first:
                raise _BrokenError(
                    f"is not order-free: it gives {first!r}\n"
                    f"with mappings or lists of topics in another order {turned!r}"
                )
        for seconds in LATER_S:
            with shifted_clock(seconds, package_of(assignor)):
                later = _written(self._assign(self._make(), case))
            if later != first:
                raise _BrokenError(
                    f"is not timeless: it gives {first!r}\nwith the clock {seconds} s ahead {later!r}"
                )

    def _settles(self, case: Case) -> None:
        if not self._may_withhold():
            return
        # one object for each member, as in a group
        assignors = {member_id: self._make() for member_id in case.subscriptions}
        for generation_id in range(GENERATION_ID + 2, GENERATION_ID + 2 + _ROUNDS):
            plan = self._assign(self._make(), case)
            self._is_valid(case, plan, may_withhold=True)
            if not _is_waiting(case, plan):
                return
            case = Case(
                case.cluster,
                {
                    member_id: after_assignment(
                        assignors[member_id], subscription, plan[member_id], generation_id
                    )
                    for member_id, subscription in case.subscriptions.items()
                },
            )
        raise _BrokenError(f"does not settle: still moving after {_ROUNDS} cooperative rounds")

    def _may_withhold(self) -> bool:
        return RebalanceProtocol.COOPERATIVE in self._make().supported_protocols


def _is_waiting(case: Case, plan: GroupAssignment) -> bool:
    """Return whether the group must rebalance again: partitions are withheld, or a member has to revoke."""
    if next(find_problems(Plan(case.cluster, case.subscriptions, plan)), None) is not None:
        return True
    return any(
        not set(_pairs(subscription.owned_partitions)) <= set(_pairs(plan[member_id].partitions))
        for member_id, subscription in case.subscriptions.items()
    )


def _pairs(partitions: Partitions) -> Iterator[tuple[str, int]]:
    for topic, numbers in partitions.items():
        for number in numbers:
            yield topic, number


def _written(plan: GroupAssignment) -> Written:
    return {
        member_id: (
            {topic: tuple(numbers) for topic, numbers in share.partitions.items() if len(numbers)},
            share.user_data,
        )
        for member_id, share in plan.items()
    }
