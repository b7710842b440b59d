from groupsdk.broker.coordinator.runtime.contract import append_error
from groupsdk.error_code import ErrorCode as E


def test_failed_append_is_answered_in_the_coordinators_codes() -> None:
    translated = {error: append_error(error) for error in E if append_error(error) is not error}
    assert translated == {
        E.of(3): E.of(15),
        E.of(19): E.of(15),
        E.of(20): E.of(15),
        E.of(7): E.of(15),
        E.of(6): E.of(16),
        E.of(56): E.of(16),
        E.of(10): E.of(-1),
        E.of(18): E.of(-1),
        E.of(4): E.of(-1),
    }
