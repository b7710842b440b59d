"""Run many cases of one idea in one test, and report those that fail as pytest's subtests."""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from itertools import product
from typing import Any, Final, TypeVar

import pytest


_MOST_FAILURES: Final = 10
_AXES: Final = "axes of cases"
_BODY: Final = "body of cases"

T = TypeVar("T")
Test = Callable[..., None]


def with_long(values: Iterable[T], *long: T) -> list[Any]:
    """Return values for `pytest.mark.parametrize`, of which `long` are slow: part of `make test-full` only."""
    return [pytest.param(each, marks=[pytest.mark.slow] * (each in long)) for each in values]


def each_case(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[[Test], Test]:
    """Call a test once for each value, as `pytest.mark.parametrize` does, but as one test.

    For cases that are one idea: seeds, error codes, every message in every version. A case that fails is a failed
    subtest; after ten the rest is left out. A case that passes is not a subtest of its own: thousands would take
    longer to report than to run. Used more than once, it runs every combination. Fixtures are made once for all
    cases, so it is not for tests that change a fixture.

    Args:
        names: the parameter that takes each value, or a tuple of them for values that are tuples.
        values: the values; there must be at least one.
    """
    values = list(values)
    if any(isinstance(value, type(pytest.param())) for value in values):
        raise TypeError(f"the values of {names} must be plain, not pytest.param(...)")
    axis = [
        {names: value} if isinstance(names, str) else dict(zip(names, value, strict=True))
        for value in values
    ]
    if not axis:
        raise ValueError(f"no values for {names}: a test without cases cannot fail")

    def decorate(test: Test) -> Test:
        axes = [axis, *vars(test).get(_AXES, ())]
        body: Test = vars(test).get(_BODY, test)
        taken = {name for each in axes for name in each[0]}

        @wraps(test)
        def run(*args: Any, subtests: pytest.Subtests, **fixtures: Any) -> None:
            failures = 0
            for parts in product(*axes):
                case = {name: value for part in parts for name, value in part.items()}
                try:
                    body(*args, **case, **fixtures)
                except (Exception, pytest.fail.Exception) as failure:
                    if "pytest-timeout" in str(failure):
                        raise  # the time of the whole test is over
                    failures += 1
                    with subtests.test(**case):
                        raise
                if failures == _MOST_FAILURES:
                    pytest.fail(f"{failures} cases failed; the rest was left out")

        vars(run).update({_AXES: axes, _BODY: body})
        signature = inspect.signature(body)
        kept = [each for name, each in signature.parameters.items() if name not in taken]
        asked = inspect.Parameter("subtests", inspect.Parameter.KEYWORD_ONLY)
        vars(run)["__signature__"] = signature.replace(parameters=[*kept, asked])
        return run

    return decorate
