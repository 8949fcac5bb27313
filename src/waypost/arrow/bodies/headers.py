"""The headers of NServiceBus and Rebus in a column of extension fields."""

from typing import Final

import pyarrow as pa

from waypost.api.framework_headers import headers_of

HEADERS: Final = pa.map_(pa.string(), pa.string())


def extension_headers(extension: pa.Array) -> pa.Array:
    """The headers of each extension field, null where it has none."""
    found = map(headers_of, extension.to_pylist())
    return pa.array((None if headers is None else list(headers.items()) for headers in found), HEADERS)
