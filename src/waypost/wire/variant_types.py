"""MS-MQMQ 2.2.12: the type constants of PROPVARIANT. A VARTYPE is an unsigned 16-bit number.

VT_VECTOR is never alone: it is OR-ed with the type of the elements. A message's BodyType uses these and many other
numbers of the same space (VT_BSTR, 8, is the commonest of all) and is carried as it is.
"""

from enum import IntEnum
from typing import Final


class VarType(IntEnum):
    """The types a PROPVARIANT of these specifications may have, VT_VECTOR aside."""

    VT_EMPTY = 0
    VT_NULL = 1
    VT_I2 = 2
    VT_I4 = 3
    VT_BOOL = 11
    VT_VARIANT = 12
    VT_I1 = 16
    VT_UI1 = 17
    VT_UI2 = 18
    VT_UI4 = 19
    VT_I8 = 20
    VT_UI8 = 21
    VT_LPWSTR = 31
    VT_BLOB = 65
    VT_CLSID = 72


VT_VECTOR: Final = 0x1000
