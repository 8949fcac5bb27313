"""The worked example in the documents, computed by src and by the second implementation."""

import hashlib
import re
from pathlib import Path

from tests.security import second
from waypost.core.message import Message
from waypost.core.message_values import DeliveryGuarantee
from waypost.core.serialization import packet_of
from waypost.guid import parse_guid
from waypost.security.signatures import SignatureVersion, signature_input
from waypost.wire.algorithms import HashAlgorithm
from waypost.wire.format_names import FormatName
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.user_message import UserMessage

PAGE = next((Path(__file__).parents[2] / "docs").glob("read*s.md"))
VERSIONS = {1: SignatureVersion.SIG10, 2: SignatureVersion.SIG20}


def example() -> bytes:
    return packet_of(
        Message(
            identifier=MessageIdentifier(parse_guid("01020304-0506-0708-090a-0b0c0d0e0f10"), 7),
            destination_queue_format_name=FormatName.parse(r"DIRECT=OS:b\private$\q"),
            response_queue_format_name=FormatName.parse(r"DIRECT=OS:a\private$\r"),
            delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
            label="Hi",
            body=b"body",
            body_type=0x1011,
            application_tag=42,
            hash_algorithm=HashAlgorithm.SHA_512,
            sent_time=1,
        )
    )


def test_the_hash_input_is_that_of_the_worked_example() -> None:
    packet = example()
    text = PAGE.read_text()
    for number, version in VERSIONS.items():
        found = signature_input(UserMessage.decode(packet), version)
        assert second.hash_input(packet, number) == found
        shown = re.search(rf"The hash input of version {number} is:\n+```text\n(.*?)```", text, re.DOTALL)
        assert shown is not None
        assert bytes.fromhex(shown[1]) == found
        digest = re.search(rf"The SHA-512 hash of version {number} is:\n+```text\n(.*?)```", text, re.DOTALL)
        assert digest is not None
        assert bytes.fromhex(digest[1]) == hashlib.sha512(found).digest()
