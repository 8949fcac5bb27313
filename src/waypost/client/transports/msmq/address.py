"""Where a host is, how its queues are named, and how it is said that it did not take a message."""

import os
import re
import socket
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from waypost.api.excerpt import excerpt
from waypost.api.names import Name, format_name
from waypost.drive.new_guid import new_guid
from waypost.errors import DecodeError, HostError, InvalidParameter, UnsupportedFormatName
from waypost.guid import parse_guid
from waypost.wire.format_names import (
    DirectFormatName,
    FormatName,
    MachineFormatName,
    PrivateFormatName,
    Protocol,
    PublicFormatName,
    Suffix,
)
from waypost.wire.ip_addresses import is_address
from waypost.wire.path_names import QueueKind, check_computer_name
from waypost.wire.session_header import SESSION_PORT

DEFAULT_PORT: Final = SESSION_PORT
DEFAULT_TIMEOUT: Final = 30.0

_WITH_PORT: Final = re.compile(r"[^:]+:(\d+)|\[.+\]:(\d+)")

# Stands for the host while a name is parsed that does not say one.
_HERE: Final = "waypost-host"


@dataclass(frozen=True, slots=True)
class HostAddress:
    """A host, and how it is talked to. `identifier` is the GUID that the sender has there."""

    host: str
    port: int
    bind: str
    timeout: float
    identifier: bytes

    @classmethod
    def of(
        cls,
        host: object,
        port: object = DEFAULT_PORT,
        bind: object = "",
        timeout: object = DEFAULT_TIMEOUT,
        identifier: object = None,
    ) -> "HostAddress":
        """Raises InvalidParameter, or IllegalPathName for what can be no host."""
        if not isinstance(host, str):
            raise InvalidParameter(f"a host is named by text, not by {excerpt(host)}")
        if not is_address(host):
            check_computer_name(host, 0)
            _refuse_port(host)
        if not isinstance(port, int) or not 0 < port <= 0xFFFF:
            raise InvalidParameter(f"a port is a number from 1 to 65535, not {excerpt(port)}")
        if not isinstance(bind, str) or (bind and not is_address(bind)):
            raise InvalidParameter(f"bind is an IP address of this computer, not {excerpt(bind)}")
        if not isinstance(timeout, int | float) or not 0 < timeout < 1_000_000:
            raise InvalidParameter(f"timeout is a number of seconds, not {excerpt(timeout)}")
        return cls(host, port, bind, float(timeout), _guid(identifier))

    @property
    def text(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORT else f"{host}:{self.port}"

    def queue(self, name: Name) -> FormatName:
        """The queue that `name` means on the host. Raises what waypost.api.names does."""
        found = format_name(name, _HERE)
        if isinstance(found, DirectFormatName) and found.address == _HERE:
            return replace(found, protocol=Protocol.TCP if is_address(self.host) else Protocol.OS, address=self.host)
        return found

    def destination(self, name: Name) -> FormatName:
        """The same, if something can be sent there over a session; else UnsupportedFormatName."""
        found = self.queue(name)
        match found:
            case DirectFormatName(Protocol.OS | Protocol.TCP, _, QueueKind.PRIVATE | QueueKind.PUBLIC):
                is_possible = found.suffix is Suffix.NONE
            case PrivateFormatName() | PublicFormatName():
                is_possible = found.suffix is Suffix.NONE
            case _:
                is_possible = False
        if not is_possible:
            raise UnsupportedFormatName(f"nothing can be sent to {found} over a session with {self.text}")
        return found

    def source(self, name: Name) -> FormatName:
        """The same, if it can be read from another computer (MS-MQRR 2.2.3); else UnsupportedFormatName."""
        found = self.queue(name)
        match found:
            case DirectFormatName(Protocol.OS | Protocol.TCP):
                is_possible = True
            case _:
                is_possible = isinstance(found, PrivateFormatName | PublicFormatName | MachineFormatName)
        if not is_possible:
            raise UnsupportedFormatName(
                f"{found} can neither be read at {self.text} nor sent to over a session with it"
            )
        return found

    def failure(
        self, kind: type[HostError], reason: str, count: int, sent: Collection[int], acknowledged: Collection[int]
    ) -> HostError:
        """The error for `count` messages, of which those at these places were sent, and acknowledged."""
        unknown = sorted(set(sent) - set(acknowledged))
        if not sent:
            outcome = "nothing was sent"
        elif count == 1:
            outcome = "whether it has the message is not known"
        else:
            outcome = (
                f"of {count} messages {len(acknowledged)} are acknowledged, {len(unknown)} may have arrived, "
                f"and {count - len(sent)} were not sent"
            )
        return kind(f"{self.text} {reason}; {outcome}", tuple(sorted(acknowledged)), tuple(unknown))


def _refuse_port(host: str) -> None:
    found = _WITH_PORT.fullmatch(host)
    if found:
        port = found[1] or found[2]
        raise InvalidParameter(
            f"{excerpt(host)} has a port in it: give the host alone, and rpc_port={port} to read or port={port} to send"
        )


def _guid(identifier: object) -> bytes:
    if identifier is None:
        return new_guid()
    try:
        if isinstance(identifier, str):
            return parse_guid(identifier)
    except DecodeError:
        pass
    raise InvalidParameter(f"identifier is a GUID of 8-4-4-4-12 hexadecimal digits, not {excerpt(identifier)}")


def reason_of(error: Exception) -> str:
    """Of a connection that cannot be made, in words."""
    if isinstance(error, socket.gaierror):
        return "is not known by that name"
    # asyncio puts words of its own into the error.
    number = error.errno if isinstance(error, OSError) else None
    return f"cannot be reached: {os.strerror(number) if number else error}"
