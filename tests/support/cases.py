"""Run many cases of one idea in one test."""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from itertools import product
from typing import Any, Final

import pytest


_SHOWN: Final = 5
_AXES: Final = "axes of cases"
_BODY: Final = "body of cases"

Test = Callable[..., None]


def each_case(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[[Test], Test]:
    """Call a test once for each value, as `pytest.mark.parametrize` does, but as one test.

    For cases that are one idea: seeds, error codes, every message in every version. All of them run; the
    test then fails with the number of failures and the names of the first few, and shows the traceback
    of the first. Used more than once, it runs every combination. Fixtures are made once for all cases, so it is
    not for tests that change a fixture.

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
        def run(*args: Any, **fixtures: Any) -> None:
            failures: list[tuple[str, BaseException]] = []
            count = 0
            for parts in product(*axes):
                count += 1
                case = {name: value for part in parts for name, value in part.items()}
                failure = _failure(body, args, case | fixtures)
                if failure is not None:
                    failures.append((_named(case), failure))
            if failures:
                raise AssertionError(_report(failures, count)) from failures[0][1]

        vars(run).update({_AXES: axes, _BODY: body})
        signature = inspect.signature(body)
        kept = [each for name, each in signature.parameters.items() if name not in taken]
        vars(run)["__signature__"] = signature.replace(parameters=kept)
        return run

    return decorate


def _failure(body: Test, args: tuple[Any, ...], arguments: dict[str, Any]) -> BaseException | None:
    """Run one case and return why it failed, or None."""
    try:
        body(*args, **arguments)
    except pytest.fail.Exception as failed:  # of pytest.raises, for one
        if "pytest-timeout" in str(failed):
            raise  # the time of the whole test is over
        return failed
    except Exception as error:  # noqa: BLE001  # the test fails with it after the other cases
        return error
    return None


def _named(case: dict[str, Any]) -> str:
    return ", ".join(
        f"{name}={value.__name__ if isinstance(value, type) else repr(value)}"
        for name, value in case.items()
    )


def _report(failures: list[tuple[str, BaseException]], count: int) -> str:
    lines = [f"{len(failures)} of {count} cases failed:"]
    for name, error in failures[:_SHOWN]:
        first = str(error).strip().split("\n")[0]
        lines.append(f"  {name}: {type(error).__name__}: {first}")
    if len(failures) > _SHOWN:
        more = ", ".join(name for name, _ in failures[_SHOWN : 10 * _SHOWN])
        lines.append(f"  and {more}{', ...' if len(failures) > 10 * _SHOWN else ''}")
    return "\n".join(lines)
