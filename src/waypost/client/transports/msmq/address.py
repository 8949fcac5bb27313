"""The address of a host, the names of its queues, and the errors for messages that it did not take."""

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

# Placeholder for the host while a name without a host is parsed.
_HERE: Final = "waypost-host"


@dataclass(frozen=True, slots=True)
class HostAddress:
    """The address of a host. `identifier` is the GUID under which the host knows the sender."""

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
        """Check the arguments. Raises InvalidParameter, or IllegalPathName for an invalid name of a host."""
        if not isinstance(host, str):
            raise InvalidParameter(f"`host` must be text, not {excerpt(host)}")
        if not is_address(host):
            check_computer_name(host, 0)
            _refuse_port(host)
        if not isinstance(port, int) or not 0 < port <= 0xFFFF:
            raise InvalidParameter(f"`port` must be a number from 1 to 65535, not {excerpt(port)}")
        if not isinstance(bind, str) or (bind and not is_address(bind)):
            raise InvalidParameter(f"`bind` must be an IP address of this computer, not {excerpt(bind)}")
        if not isinstance(timeout, int | float) or not 0 < timeout < 1_000_000:
            raise InvalidParameter(f"`timeout` must be a number of seconds, not {excerpt(timeout)}")
        return cls(host, port, bind, float(timeout), _guid(identifier))

    @property
    def text(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORT else f"{host}:{self.port}"

    def queue(self, name: Name) -> FormatName:
        """The queue with this name on the host. Raises the errors of waypost.api.names."""
        found = format_name(name, _HERE)
        if isinstance(found, DirectFormatName) and found.address == _HERE:
            return replace(found, protocol=Protocol.TCP if is_address(self.host) else Protocol.OS, address=self.host)
        return found

    def destination(self, name: Name) -> FormatName:
        """The queue with this name, to send to. Raises UnsupportedFormatName if a session does not reach it."""
        found = self.queue(name)
        match found:
            case DirectFormatName(Protocol.OS | Protocol.TCP, _, QueueKind.PRIVATE | QueueKind.PUBLIC):
                is_possible = found.suffix is Suffix.NONE
            case PrivateFormatName() | PublicFormatName():
                is_possible = found.suffix is Suffix.NONE
            case _:
                is_possible = False
        if not is_possible:
            raise UnsupportedFormatName(f"a session with {self.text} does not support messages to {found}")
        return found

    def source(self, name: Name) -> FormatName:
        """The queue with this name, to read (MS-MQRR 2.2.3). Raises UnsupportedFormatName if that is impossible."""
        found = self.queue(name)
        match found:
            case DirectFormatName(Protocol.OS | Protocol.TCP):
                is_possible = True
            case _:
                is_possible = isinstance(found, PrivateFormatName | PublicFormatName | MachineFormatName)
        if not is_possible:
            raise UnsupportedFormatName(f"{self.text} does not support {found}, neither for reading nor for sending")
        return found

    def failure(
        self, kind: type[HostError], reason: str, count: int, sent: Collection[int], acknowledged: Collection[int]
    ) -> HostError:
        """The error for `count` messages; `sent` and `acknowledged` are places of messages among them."""
        unknown = sorted(set(sent) - set(acknowledged))
        if not sent:
            outcome = "nothing was sent"
        elif count == 1:
            outcome = "it is unknown whether the message arrived"
        else:
            outcome = (
                f"of {count} messages, {len(acknowledged)} are acknowledged, {len(unknown)} may have arrived, and "
                f"{count - len(sent)} were not sent"
            )
        return kind(f"{self.text} {reason}; {outcome}", tuple(sorted(acknowledged)), tuple(unknown))


def _refuse_port(host: str) -> None:
    found = _WITH_PORT.fullmatch(host)
    if found:
        port = found[1] or found[2]
        raise InvalidParameter(
            f"{excerpt(host)} contains a port: pass only the host, with rpc_port={port} to read or port={port} to send"
        )


def _guid(identifier: object) -> bytes:
    if identifier is None:
        return new_guid()
    try:
        if isinstance(identifier, str):
            return parse_guid(identifier)
    except DecodeError:
        pass
    raise InvalidParameter(f"`identifier` must be a GUID of 8-4-4-4-12 hexadecimal digits, not {excerpt(identifier)}")


def reason_of(error: Exception) -> str:
    """The reason of a failed connection, to follow the name of the host."""
    if isinstance(error, socket.gaierror):
        return "is an unknown host name"
    # asyncio changes the text of the error.
    number = error.errno if isinstance(error, OSError) else None
    return f"is unreachable: {os.strerror(number) if number else error}"
