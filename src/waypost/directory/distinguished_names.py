"""Where an object stands in the directory: the distinguished names of MS-MQDSSM 2.2.1, in the form of RFC 4514."""

import re
from typing import Final

from waypost.directory.objects import DirectoryObject, Queue, QueueManager
from waypost.directory.topology import ConnectedNetwork, DistributionList, Enterprise, RoutingLink, Site, User
from waypost.guid import guid_text

_SPECIAL: Final = re.compile(r'[,+"\\<>;=#]')
_SERVICES: Final = "CN=MsmqServices,CN=Services,CN=Configuration"


def distinguished_name(item: DirectoryObject, root: str) -> str:
    """The name of an object below `root`. The directory never has two objects with one name."""
    parts: tuple[str, ...]
    match item:
        case Queue(pathname=pathname):
            computer, _, queue = pathname.partition("\\")
            parts = (_cn(queue), "CN=msmq", _cn(computer), "CN=Computers")
        case QueueManager(computer_name=name):
            parts = ("CN=msmq", _cn(name), "CN=Computers")
        case Enterprise():
            parts = (_SERVICES,)
        case Site(name=name):
            parts = (_cn(name), "CN=Sites", "CN=Configuration")
        case RoutingLink(site1_identifier=site1, site2_identifier=site2):
            # MS-MQDSSM 3.1.6.1.4.2: the digits of both.
            parts = (_cn((guid_text(site1) + guid_text(site2)).replace("-", "")), _SERVICES)
        case ConnectedNetwork(name=name):
            parts = (_cn(name), "CN=Networks", _SERVICES)
        case User(security_identifier=sid):
            parts = (_cn(str(sid)), "CN=Users")
        case DistributionList(identifier=identifier):
            parts = (_cn(guid_text(identifier)), "CN=Users")
        case _:
            raise AssertionError(f"{type(item).__name__} is not an object of the directory")
    return ",".join((*parts, root))


def _cn(name: str) -> str:
    return "CN=" + _SPECIAL.sub(lambda match: "\\" + match[0], name)
