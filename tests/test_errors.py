"""The error tree of waypost.errors against MS-MQMQ 2.4."""

import pytest

from waypost import errors
from waypost.errors import WaypostError
from waypost.hresult import HResult, Severity, severity


def subclasses(cls: type[WaypostError]) -> list[type[WaypostError]]:
    return [cls, *(below for child in cls.__subclasses__() for below in subclasses(child))]


TREE = [cls for cls in subclasses(WaypostError) if cls.__module__ == errors.__name__]
LEAVES = [cls for cls in TREE if not any(base is cls for below in TREE for base in below.__bases__)]


@pytest.mark.spec("MQMQ-2.4-02")
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.QueueNotFound, 0xC00E0003),
        (errors.InvalidParameter, 0xC00E0006),
        (errors.InvalidHandle, 0xC00E0007),
        (errors.OperationCancelled, 0xC00E0008),
        (errors.SharingViolation, 0xC00E0009),
        (errors.Timeout, 0xC00E001B),
        (errors.IllegalCursorAction, 0xC00E001C),
        (errors.MessageAlreadyReceived, 0xC00E001D),
        (errors.MessageNotFound, 0xC00E0088),
        (errors.QueueDeleted, 0xC00E005A),
    ],
)
def test_each_condition_of_the_read_path_has_its_own_error_and_code(error: type[WaypostError], code: int) -> None:
    assert error.hresult == code
    # A record that fails to encode is an invalid parameter, too, and so are a user that exists and the id of no token.
    others = (errors.EncodeError, errors.UserExists, errors.TokenNotFound)
    assert [cls for cls in LEAVES if cls.hresult == code and cls not in others] == [error]


def test_every_error_says_its_condition_and_carries_a_failure_code() -> None:
    for cls in TREE:
        assert cls.__doc__, cls
        assert isinstance(cls.hresult, HResult), cls
        assert severity(cls.hresult) is Severity.ERROR, cls


def test_no_class_but_a_branch_has_the_general_code() -> None:
    assert [cls for cls in LEAVES if cls.hresult is HResult.MQ_ERROR] == []


def test_an_error_prints_its_sentence() -> None:
    assert str(errors.QueueNotFound("the queue orders is missing")) == "the queue orders is missing"
    assert str(errors.EncodeError("MS-MQMQ 2.2.19.3", "Label", "too long")) == "Label: too long (MS-MQMQ 2.2.19.3)"
    decode_error = errors.IllegalPathName("MS-MQMQ 2.1.1", "QueueName", 5, "it is empty")
    assert str(decode_error) == "QueueName at offset 5: it is empty (MS-MQMQ 2.1.1)"
