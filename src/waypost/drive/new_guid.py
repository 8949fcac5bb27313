"""New GUIDs for objects that a client names itself."""

import os


def new_guid() -> bytes:
    """A random GUID (RFC 4122 version 4), in packet form."""
    data = bytearray(os.urandom(16))
    data[7] = data[7] & 0x0F | 0x40
    data[8] = data[8] & 0x3F | 0x80
    return bytes(data)
