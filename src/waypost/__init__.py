"""Waypost: a message queue manager that uses the network protocols of Microsoft Message Queuing (MSMQ).

    import waypost

    with waypost.open("./data") as manager:
        orders = manager.create_queue("orders")
        orders.send("42 bolts", label="order")
        print(orders.receive().text)

Start with `waypost.open`. `waypost.connect` offers the same on a running daemon, and `waypost.msmq` sends to and reads
from any MSMQ host. `waypost.restore` creates a data folder from a backup. `waypost.aio` has all of them for asyncio,
and `waypost.errors` has the exceptions. The packets, names and values of the protocol are in waypost.wire.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

__version__ = "0.1.0"

if TYPE_CHECKING:
    from waypost import aio, errors
    from waypost.api.damaged import DamagedInfo
    from waypost.api.explanation import Explanation
    from waypost.api.new_bodies import xml_body
    from waypost.api.permissions import Acl, AclEntry
    from waypost.api.properties import QueueInfo
    from waypost.api.sequences import SequenceInfo, SequenceReset
    from waypost.api.status import Check, IdentityInfo, StatusInfo, StoreDamage, StoreReport
    from waypost.api.users import AuditEntry, NewToken, TokenInfo, UserInfo
    from waypost.client.backups.container import BackupInfo
    from waypost.client.backups.restoring import RestoreInfo, restore
    from waypost.client.connecting import connect
    from waypost.client.host import msmq
    from waypost.client.lease import Lease
    from waypost.client.manager import Manager
    from waypost.client.message import Message
    from waypost.client.opening import open  # noqa: A004, the name that people look for
    from waypost.client.queue import Cursor, Queue
    from waypost.client.storage.salvage_report import SalvagedQueue, SalvageReport
    from waypost.client.storage.salvaging import salvage
    from waypost.client.storage.verifying import verify
    from waypost.client.transaction import Transaction

__all__ = [
    "Acl",
    "AclEntry",
    "AuditEntry",
    "BackupInfo",
    "Check",
    "Cursor",
    "DamagedInfo",
    "Explanation",
    "IdentityInfo",
    "Lease",
    "Manager",
    "Message",
    "NewToken",
    "Queue",
    "QueueInfo",
    "RestoreInfo",
    "SalvageReport",
    "SalvagedQueue",
    "SequenceInfo",
    "SequenceReset",
    "StatusInfo",
    "StoreDamage",
    "StoreReport",
    "TokenInfo",
    "Transaction",
    "UserInfo",
    "__version__",
    "aio",
    "connect",
    "errors",
    "msmq",
    "open",
    "restore",
    "salvage",
    "verify",
    "xml_body",
]

# Imported on first use: the command line and the codec need none of them, and the imports take a while.
_HOMES: Final = {
    "Acl": "waypost.api.permissions",
    "AclEntry": "waypost.api.permissions",
    "AuditEntry": "waypost.api.users",
    "BackupInfo": "waypost.client.backups.container",
    "Check": "waypost.api.status",
    "Cursor": "waypost.client.queue",
    "DamagedInfo": "waypost.api.damaged",
    "Explanation": "waypost.api.explanation",
    "IdentityInfo": "waypost.api.status",
    "Lease": "waypost.client.lease",
    "Manager": "waypost.client.manager",
    "Message": "waypost.client.message",
    "NewToken": "waypost.api.users",
    "Queue": "waypost.client.queue",
    "QueueInfo": "waypost.api.properties",
    "RestoreInfo": "waypost.client.backups.restoring",
    "SalvageReport": "waypost.client.storage.salvage_report",
    "SalvagedQueue": "waypost.client.storage.salvage_report",
    "SequenceInfo": "waypost.api.sequences",
    "SequenceReset": "waypost.api.sequences",
    "StatusInfo": "waypost.api.status",
    "StoreDamage": "waypost.api.status",
    "StoreReport": "waypost.api.status",
    "TokenInfo": "waypost.api.users",
    "Transaction": "waypost.client.transaction",
    "UserInfo": "waypost.api.users",
    "connect": "waypost.client.connecting",
    "msmq": "waypost.client.host",
    "open": "waypost.client.opening",
    "restore": "waypost.client.backups.restoring",
    "salvage": "waypost.client.storage.salvaging",
    "verify": "waypost.client.storage.verifying",
    "xml_body": "waypost.api.new_bodies",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in ("aio", "errors"):
            return import_module(f"waypost.{name}")
        if name in _HOMES:
            return getattr(import_module(_HOMES[name]), name)
        raise AttributeError(f"module 'waypost' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
