"""Ways that an administrator has written down: for queue managers in a workgroup, where no directory knows them."""

from dataclasses import dataclass

from waypost.guid import NULL_GUID


@dataclass(frozen=True, slots=True)
class Route:
    """Messages for a queue manager go to its host, or by way of another queue manager that has a route too."""

    queue_manager: bytes
    host: str = ""
    via: bytes = NULL_GUID


@dataclass(frozen=True, slots=True)
class Relays:
    """Queue managers that bring the messages of others, and acknowledgments of what goes by way of them.

    They are named by their GUIDs or IP addresses.
    """

    guids: frozenset[bytes] = frozenset()
    addresses: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.guids or self.addresses)
