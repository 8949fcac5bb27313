"""What a connection of the daemon says to waypost.http beside what ASGI has words for."""

from typing import Final

# The extension whose "event" is set when another request has come behind this one, on the same connection.
BEHIND: Final = "waypost.behind"
EVENT: Final = "event"
