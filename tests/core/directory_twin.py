"""A directory in a dictionary, for tests of the core: the port waypost.core.ports.Directory and nothing more."""

from waypost.core.ports import PublicQueue
from waypost.core.queues import Queue
from waypost.errors import DirectoryError
from waypost.wire.format_names import DistributionListFormatName, FormatName


class DirectoryTwin:
    """`is_broken` lets every change fail; `reads` are answered one after the other before the dictionary is asked."""

    def __init__(self) -> None:
        self.queues: dict[bytes, PublicQueue] = {}
        self.reads: list[PublicQueue | None] = []
        self.log: list[str] = []
        self.is_broken = False

    def create_queue(self, queue: Queue) -> bytes:
        self._change(f"create {queue}")
        identifier = bytes([0xD1] * 15 + [len(self.log)])
        pathname, base_priority = str(queue.pathname), queue.attributes.base_priority
        self.queues[identifier] = PublicQueue(pathname, bytes(16), queue.pathname.computer, base_priority)
        return identifier

    def delete_queue(self, queue: Queue) -> None:
        self._change(f"delete {queue}")
        del self.queues[queue.identifier]

    def paths_of(self, queue: Queue) -> tuple[str, str] | None:
        known = queue.identifier in self.queues
        return (f"CN={queue.pathname.queue}", f"LDAP://CN={queue.pathname.queue}") if known else None

    def find_queue(self, identifier: bytes) -> PublicQueue | None:
        return self.reads.pop(0) if self.reads else self.queues.get(identifier)

    def computer_name(self, queue_manager: bytes) -> str | None:
        return None

    def members(self, name: DistributionListFormatName) -> tuple[FormatName, ...] | None:
        return None

    def _change(self, what: str) -> None:
        if self.is_broken:
            raise DirectoryError(f"cannot {what}")
        self.log.append(what)
