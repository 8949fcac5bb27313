"""Extension of ASGI between the connections of the daemon and waypost.http."""

from typing import Final

# The name of the extension. Its "event" is set when another request comes behind this one, on the same connection.
BEHIND: Final = "waypost.behind"
EVENT: Final = "event"
