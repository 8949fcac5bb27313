"""Bodies of the types with one value: numbers, money, times, truth values, GUIDs.

waypost.wire.describe formats values one by one. Whole numbers are formatted here for all rows at once, the same way.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from waypost.api.bodies import Reading
from waypost.arrow.bodies.columns import Columns
from waypost.arrow.bodies.flat import flat
from waypost.wire.describe.bodies import body_text
from waypost.wire.variant_types import VarType

INTEGERS: Final[dict[int, np.dtype[Any]]] = {
    int(VarType.VT_I1): np.dtype("i1"),
    int(VarType.VT_UI1): np.dtype("u1"),
    int(VarType.VT_I2): np.dtype("<i2"),
    int(VarType.VT_UI2): np.dtype("<u2"),
    int(VarType.VT_I4): np.dtype("<i4"),
    int(VarType.VT_UI4): np.dtype("<u4"),
    int(VarType.VT_I8): np.dtype("<i8"),
    int(VarType.VT_UI8): np.dtype("<u8"),
}

# VT_R4, VT_R8, VT_CY, VT_DATE and VT_FILETIME have no names in MS-MQMQ.
VALUES: Final = {
    4: "float",
    5: "float",
    6: "currency",
    7: "date",
    int(VarType.VT_BOOL): "boolean",
    64: "date",
    int(VarType.VT_CLSID): "guid",
}


def read_integers(body: pa.BinaryArray, body_type: int) -> Columns:
    number = INTEGERS[body_type]
    _, offsets = flat(body)
    fits = np.diff(offsets) == number.itemsize
    data, _ = flat(body.filter(pa.array(fits)))
    text = pa.array(np.array(data).view(number)).cast(pa.string())
    others = body.filter(pa.array(~fits)).to_pylist()
    return Columns.together(
        [
            (np.flatnonzero(fits), Columns.of("integer", text)),
            (
                np.flatnonzero(~fits),
                Columns.of_readings(_mismatch(each, body_type, "integer") for each in others),
            ),
        ]
    )


def read_values(body: pa.BinaryArray, body_type: int) -> Columns:
    kind = VALUES[body_type]
    return Columns.of_readings(_value(each, body_type, kind) for each in body.to_pylist())


def _value(body: bytes, body_type: int, kind: str) -> Reading:
    text = body_text(body, body_type)
    return Reading(text, kind) if text else _mismatch(body, body_type, kind)


def _mismatch(body: bytes, body_type: int, kind: str) -> Reading:
    reason = f"a body of type {body_type:#x} with {len(body)} bytes is not a valid {kind}; read the body as bytes"
    return Reading(None, kind, reason)
