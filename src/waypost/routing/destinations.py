"""MS-MQQB 3.1.7.4 Get Destination Info: where the queue with a format name is.

The text takes host and GUID from the Queue object that the directory has of a public queue, where neither is: they are
those of its queue manager. The host in the name of an HTTP queue or of a group is nothing that a session leads to.
"""

from waypost.errors import UnsupportedFormatName
from waypost.routing.topology import RoutingDirectory
from waypost.wire.direct_names import DEFAULT_PORTS
from waypost.wire.format_names import ConnectorFormatName, Destination, DirectFormatName, FormatName, PublicFormatName


def get_destination_info(name: FormatName, directory: RoutingDirectory | None) -> Destination | None:
    """None if the directory does not know the queue, or messages do not go there over a session."""
    match name:
        case PublicFormatName(guid) | ConnectorFormatName(guid):
            return None if directory is None else directory.destination_of_queue(guid)
        case DirectFormatName(protocol) if protocol in DEFAULT_PORTS:
            return None
    try:
        return name.destination()
    except UnsupportedFormatName:
        return None
