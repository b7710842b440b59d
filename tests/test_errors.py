"""Test the tree of errors: what it says, and that it survives the way between processes."""

import inspect
import pickle
import re

import pytest

from groupsdk import errors
from groupsdk.error_code import ErrorCode
from groupsdk.errors import BrokerError, ConfigError, GroupSdkError, broker_error
from tests.support.cases import each_case


CLASSES = [
    each
    for _, each in inspect.getmembers(errors, inspect.isclass)
    if issubclass(each, GroupSdkError) and each.__module__ == errors.__name__
]


def refused_for_good(error: GroupSdkError) -> GroupSdkError:
    error.fatal = True
    return error


def lines_of_the_tree() -> list[tuple[int, str, str]]:
    """Depth, name and flags of each line of the module's docstring."""
    found = re.findall(
        r"^    ([│ ├└─]*)(\w+)(?:  +(r|f)(?:  .*)?|  +.*)?$", errors.__doc__ or "", re.MULTILINE
    )
    return [(len(prefix) // 4, name, flag) for prefix, name, flag in found]


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    tree = lines_of_the_tree()
    assert tree[0][:2] == (0, "GroupSdkError")
    path: list[str] = []
    for depth, name, flag in tree:
        del path[depth:]
        error = getattr(errors, name)
        if path:
            assert error.__mro__[1].__name__ == path[-1], f"{name} stands below {path[-1]}"
        assert error.retriable is (flag == "r"), name
        assert error.fatal is (flag == "f"), name
        path.append(name)
    named = {name for _, name, _ in tree}
    # one class for many codes, all of which Kafka calls retriable: not worth a line for users
    assert {each.__name__ for each in CLASSES} - named == {"RetriableBrokerError"}


def test_no_error_is_both_retriable_and_fatal() -> None:
    assert not [each for each in CLASSES if each.retriable and each.fatal]


def test_a_wrong_setting_is_a_value_error_too() -> None:
    assert issubclass(ConfigError, ValueError)


@each_case("code", [*ErrorCode, 1234, -7])
def test_every_error_code_gives_an_error_that_says_what_kafka_says(code: int) -> None:
    error = broker_error(code, "JoinGroup of group 'g'")
    known = ErrorCode.of(code)
    assert error.code == int(code)
    assert error.error_code is known
    assert str(error).startswith("JoinGroup of group 'g': ")
    assert str(int(code)) in str(error) or known.name in str(error)
    passes = {ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.UNRELEASED_INSTANCE_ID}
    assert error.retriable is (known.retriable or code in passes)
    assert str(error).endswith(str(broker_error(code)))


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.NOT_COORDINATOR, errors.CoordinatorNotAvailableError),
        (ErrorCode.FENCED_INSTANCE_ID, errors.FencedInstanceIdError),
        (ErrorCode.UNKNOWN_MEMBER_ID, errors.UnknownMemberIdError),
        (ErrorCode.ILLEGAL_GENERATION, errors.IllegalGenerationError),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, errors.GroupAuthorizationError),
        (ErrorCode.REQUEST_TIMED_OUT, errors.RetriableBrokerError),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, BrokerError),
        (4321, BrokerError),
    ],
)
def test_the_codes_that_a_user_may_want_to_catch_have_classes(
    code: int, kind: type[BrokerError]
) -> None:
    assert type(broker_error(code)) is kind


@each_case(
    "error",
    [
        *(each("what happened") for each in CLASSES if not issubclass(each, BrokerError)),
        *(broker_error(code, "Heartbeat") for code in (*ErrorCode, 1234)),
        broker_error(16),
        refused_for_good(broker_error(42)),
        refused_for_good(errors.UnsupportedVersionError("too old")),
    ],
)
def test_every_error_comes_whole_out_of_another_process(error: GroupSdkError) -> None:
    received = pickle.loads(pickle.dumps(error))
    assert type(received) is type(error)
    assert str(received) == str(error)
    assert vars(received) == vars(error)
    assert (received.retriable, received.fatal) == (error.retriable, error.fatal)


def test_error_text_of_a_broker_is_escaped() -> None:
    error = broker_error(42, "Heartbeat (the broker: \x1b[2J\nall is well)")
    assert str(error).startswith(r"Heartbeat (the broker: \x1b[2J\x0aall is well): ")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
