"""MS-MQDMPR 1.8: which codes leave the queue manager, and what they may mean there."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.core.engine import Rig
from tests.test_errors import TREE
from tests.test_hresult import SECTION_2_4
from waypost import hresult
from waypost.core.queues import ReadRequest
from waypost.errors import WaypostError
from waypost.hresult import FACILITY_MSMQ, HResult, facility, is_vendor_defined

PACKAGE = Path(hresult.__file__).parent

# MS-ERREF 2.3.1.
NTSTATUS = {
    "STATUS_INVALID_HANDLE": 0xC0000008,
    "STATUS_INVALID_PARAMETER": 0xC000000D,
    "STATUS_ACCESS_DENIED": 0xC0000022,
    "STATUS_NOT_FOUND": 0xC0000225,
}
PUBLISHED = {
    **SECTION_2_4,
    **NTSTATUS,
    "MQ_OK": 0,
    # MS-MQMP 2.2.1 and MS-MQQP 2.2.
    "MQ_INFORMATION_REMOTE_OPERATION": 0x400E03E8,
    "MQ_INFORMATION_REMOTE_CANCELED_BY_CLIENT": 0x400E03E9,
}

# For each code of MS-MQMQ 2.4 that an error carries, the errors whose condition is the one in the table.
CONDITIONS = {
    # Generic: only branches of the tree, which nobody raises without saying more.
    0xC00E0001: "WaypostError ProtocolError DecodeError QueueError MessageError WaitError TransactionError",
    # One or more of the properties passed are invalid.
    0xC00E0002: "PropertyError",
    0xC00E0003: "QueueNotFound",
    0xC00E0005: "QueueExists",
    0xC00E0006: "InvalidParameter EncodeError UserExists TokenNotFound",
    0xC00E0007: "InvalidHandle",
    0xC00E0008: "OperationCancelled",
    0xC00E0009: "SharingViolation",
    0xC00E000B: "ServiceNotAvailable CannotConnect ConnectionLost",
    0xC00E0013: "DirectoryNotConnected",
    0xC00E0014: "IllegalPathName",
    0xC00E0018: "IllegalPropertyValue",
    0xC00E0019: "IllegalPropertyType",
    0xC00E001B: "Timeout",
    0xC00E001C: "IllegalCursorAction",
    0xC00E001D: "MessageAlreadyReceived",
    0xC00E001E: "IllegalFormatName",
    0xC00E0020: "UnsupportedFormatName",
    0xC00E0021: "IllegalSecurityDescriptor IllegalSddl",
    0xC00E0025: "AccessDenied TooManyLogins NotLoggedIn",
    0xC00E0027: "InsufficientResources LimitReached StoreFull",
    # A message could not be stored.
    0xC00E002A: "StoreError OutcomeUnknown StoreReadOnly StoreInUse StoreDamaged RecordDamaged StoreTooOld StoreTooNew "
    "NotAStore BackupError BackupUnderWay BackupDamaged",
    0xC00E002C: "CertificateNotFound",
    # A cryptographic function failed.
    0xC00E0030: "DecryptionFailed KeyFolderError",
    # The SID of a user was not found.
    0xC00E0036: "UserNotFound",
    0xC00E0039: "IllegalPropertyId",
    0xC00E003E: "PropertyNotAllowed",
    # An error of the directory: the objects that it lacks, or has already, need not be queues.
    0xC00E0043: "DirectoryError DirectoryObjectNotFound DirectoryAttributeNotFound DirectoryObjectExists",
    0xC00E0045: "UnsupportedAccessMode",
    # A read failed because its queue is out of reach.
    0xC00E004B: "QueueNotAvailable ResetUnderWay",
    # The coordinator of transactions does not answer.
    0xC00E004C: "CoordinatorNotConnected",
    0xC00E004E: "TransactionImportFailed",
    0xC00E0050: "TransactionUsage",
    0xC00E0051: "TransactionSequence",
    # Handles of an earlier start are stale, and so is the claim of an earlier start of a reader.
    0xC00E0056: "ClaimTaken",
    0xC00E0058: "TransactionEnlistFailed",
    0xC00E005A: "QueueDeleted",
    0xC00E005D: "LabelTooLong",
    # The public key of a computer is not known.
    0xC00E0079: "PublicKeyUnknown PinNotFound",
    # A computer that was asked for something does not answer.
    0xC00E0069: "HostError HostUnreachable SessionRefused SessionLost NotAcknowledged",
    0xC00E0082: "AuthenticationFailed",
    0xC00E0088: "MessageNotFound",
    0xC00E009A: "TooManyProperties",
    0xC00E009C: "MessageLocked",
}


def status_literals(source: str) -> Iterator[int]:
    """Numbers in the form of a status of Message Queuing, whoever made it up, or of an NTSTATUS error."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value >> 32 == 0:
            number = node.value & ~hresult.CUSTOMER
            is_msmq = number >> 30 and facility(number) == FACILITY_MSMQ
            if number & 0xFFFF and (is_msmq or number >> 16 == 0xC000):
                yield node.value


@pytest.mark.spec("MQDMPR-1.8-01")
def test_every_code_without_the_customer_bit_is_published_under_its_name() -> None:
    ours = {code.name: code.value for code in HResult if not is_vendor_defined(code)}
    assert ours.items() <= PUBLISHED.items()


@pytest.mark.spec("MQDMPR-1.8-01")
def test_no_code_is_made_up_beside_the_list() -> None:
    assert list(status_literals("a = 0xC00E0003, 0xE00E0001, 0xC0000225, 0x400E, 0x8000_0001, 1 << 40")) == [
        0xC00E0003,
        0xE00E0001,
        0xC0000225,
    ]
    found = {
        str(path.relative_to(PACKAGE)): numbers
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name != "hresult.py" and (numbers := list(status_literals(path.read_text("utf-8"))))
    }
    assert found == {}


@pytest.mark.spec("MQDMPR-1.8-01")
@pytest.mark.parametrize("error", TREE, ids=lambda cls: cls.__name__)
def test_an_error_has_its_own_code_or_the_published_one_of_its_condition(error: type[WaypostError]) -> None:
    assert is_vendor_defined(error.hresult) or error.__name__ in CONDITIONS[error.hresult].split()


@pytest.mark.spec("MQDMPR-1.8-02")
def test_codes_of_other_facilities_have_their_published_numbers() -> None:
    foreign = {code.name: code.value for code in HResult if code and facility(code) != FACILITY_MSMQ}
    assert foreign == NTSTATUS


@pytest.mark.spec("MQDMPR-1.8-02")
def test_a_code_of_another_facility_is_returned_only_for_what_it_says() -> None:
    rig = Rig()
    handle = rig.open()
    rig.receive(handle, ReadRequest(tag=7))
    cancel = rig.manager.reading.cancel_waiting_message_read_request
    cancelled = HResult.MQ_ERROR_OPERATION_CANCELLED
    # No entry has the tag: the object was not found (MS-ERREF).
    assert cancel(handle, 8, cancelled) == 0xC0000225
    assert cancel(handle, 7, cancelled) is HResult.MQ_OK
    assert cancel(handle, 7, cancelled) == 0xC0000225
    assert not {error.hresult for error in TREE} & set(NTSTATUS.values())
