"""Test what the coordinators of both protocols share, beyond what the tests of each go through."""

import pytest

from groupsdk.consumer.partition_owner import FirstError


def test_all_steps_are_done_and_the_first_exception_is_raised_at_the_end() -> None:
    done: list[int] = []

    def step(number: int, error: Exception | None) -> None:
        done.append(number)
        if error is not None:
            raise error

    errors = FirstError()
    errors.keep(lambda: step(1, None))
    errors.keep(lambda: step(2, ValueError("second")))
    errors.keep(lambda: step(3, KeyError("third")))
    assert done == [1, 2, 3]
    with pytest.raises(ValueError, match="second"):
        errors.raise_first()


def test_what_is_no_exception_comes_out_at_once() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        FirstError().keep(interrupted)
    FirstError().raise_first()
