"""Every error of a log carries the code that a client is answered with."""

import inspect

from groupsdk.broker.log import errors
from groupsdk.broker.log.errors import (
    BadCompressionError,
    LogError,
    RecordsRefusedError,
    StorageError,
    storage_error,
)
from groupsdk.error_code import ErrorCode


def test_each_kind_of_error_has_a_code_of_its_own_meaning() -> None:
    kinds = [
        each
        for _, each in inspect.getmembers(errors, inspect.isclass)
        if issubclass(each, LogError)
        and each not in (LogError, RecordsRefusedError, BadCompressionError)
    ]
    assert len(kinds) > 15
    assert all(each.error_code is not ErrorCode.UNKNOWN_SERVER_ERROR for each in kinds)
    assert errors.OutOfOrderSequenceError.error_code == 45
    assert errors.InvalidProducerEpochError.error_code == 47
    assert errors.TransactionCoordinatorFencedError.error_code == 52


def test_a_storage_error_says_what_where_and_why() -> None:
    error = storage_error("appending 3 bytes", "/data/x.log", OSError(28, "No space left"))
    assert isinstance(error, StorageError)
    assert str(error) == "appending 3 bytes failed: /data/x.log: No space left"
    assert str(storage_error("a", "b", OSError())) == "a failed: b: OSError"
