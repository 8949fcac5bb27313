"""Settings of an embedded queue manager."""

import os
import socket

from waypost.api.excerpt import excerpt
from waypost.errors import InvalidParameter
from waypost.node.recovery import Settings
from waypost.wire.path_names import check_computer_name
from waypost.wire.property_values import UNLIMITED


def settings(name: str | None, quota_kb: int | None) -> Settings:
    """The settings. `name` may be qualified with a domain (default: host name)."""
    if quota_kb is not None and (not isinstance(quota_kb, int) or not 0 <= quota_kb <= UNLIMITED):
        raise InvalidParameter(f"`quota_kb` must be 0 to {UNLIMITED} kilobytes, not {excerpt(quota_kb)}")
    qualified = name if name is not None else socket.gethostname()
    if not isinstance(qualified, str):
        raise InvalidParameter(f"the name of a computer must be text, not {excerpt(qualified)}")
    check_computer_name(qualified, 0)
    return Settings(qualified.partition(".")[0], qualified, quota=quota_kb)


def check_store(path: object, max_size: object) -> None:
    """Check the arguments. Raises InvalidParameter for an invalid path or size."""
    if not _is_path(path):
        raise InvalidParameter(f"the path of a folder must be text or a Path, not {excerpt(path)}")
    if max_size is not None and (not isinstance(max_size, int) or max_size < 1):
        raise InvalidParameter(f"`max_size` must be a number of bytes, not {excerpt(max_size)}")


def _is_path(path: object) -> bool:
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    try:
        return isinstance(text, str) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False
