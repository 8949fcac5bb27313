"""Extensions of ASGI between the connections of the daemon and waypost.http."""

from typing import Final

# The name of the extension. Its "event" is set when another request comes behind this one, on the same connection.
BEHIND: Final = "waypost.behind"
EVENT: Final = "event"
# The key of the scope with the origin of the connection, as waypost.security.callers.Caller has it.
ORIGIN: Final = "waypost.origin"
# The key of the scope with the caller of an admitted request.
CALLER: Final = "waypost.caller"
