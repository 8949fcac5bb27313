"""SQL functions for the columns of messages. They are temporary functions of the session, written in SQL.

| function | result |
|---|---|
| `msmq_message_id(id)` | printed form `{guid}\\number` of a message id, which is given as 20 bytes |
| `msmq_message_id_bytes(text)` | the 20 bytes of the message id with this printed form; null for any other text |
| `msmq_class_name(class)` | name of a message class, such as MQMSG_CLASS_NORMAL; null for other classes |
| `msmq_class_meaning(class)` | meaning of a message class in a few words |
| `msmq_is_negative(class)` | true if the class reports a failure |
"""

from collections.abc import Callable
from typing import Final

from pyspark.sql import SparkSession

from waypost.wire.message_class import NEGATIVE, MessageClass, meaning

# Bytes of a GUID in the order of its text, counted from 1 (waypost.guid).
GUID_BYTES: Final = ((4, 3, 2, 1), (6, 5), (8, 7), (9, 10), (11, 12, 13, 14, 15, 16))
ORDINAL_BYTES: Final = (20, 19, 18, 17)
_MAX_ORDINAL: Final = 0xFFFF_FFFF
_GUID: Final = "^[{]?[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}[}]?$"


def register_functions(spark: SparkSession) -> None:
    """Add the SQL functions to a session. A repeated call replaces the functions."""
    for signature, (kind, expression) in FUNCTIONS.items():
        spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {signature} RETURNS {kind} RETURN {expression}")


def _digits(places: tuple[int, ...], text: str = "hex(id)") -> str:
    return f"concat({', '.join(f'substring({text}, {2 * place - 1}, 2)' for place in places)})"


def _text() -> str:
    guid = ", ".join(_digits(part, "lower(hex(id))") for part in GUID_BYTES)
    return f"concat('{{', concat_ws('-', {guid}), '}}\\\\', conv({_digits(ORDINAL_BYTES)}, 16, 10))"


def _bytes() -> str:
    """The digits of the text in the order of the bytes; the number is turned round. NULL for any other text."""
    first, second, third = (f"split_part(text, '\\\\', {part})" for part in (1, 2, 3))
    digits = f"regexp_replace({first}, '[^0-9A-Fa-f]', '')"
    ordinal = f"try_cast({second} AS BIGINT)"
    number = f"lpad(hex({ordinal}), 8, '0')"
    places = [place for part in GUID_BYTES for place in part]
    guid = [f"substring({digits}, {2 * places.index(byte) + 1}, 2)" for byte in range(1, 17)]
    found = f"unhex(concat({', '.join([*guid, *(f'substring({number}, {at}, 2)' for at in (7, 5, 3, 1))])}))"
    is_guid = f"{first} RLIKE '{_GUID}' AND {third} = ''"
    return f"CASE WHEN {is_guid} AND {ordinal} BETWEEN 0 AND {_MAX_ORDINAL} THEN {found} END"


def _by_class(value: Callable[[MessageClass], str], other: str) -> str:
    cases = " ".join(f"WHEN {each.value} THEN '{value(each)}'" for each in MessageClass)
    return f"CASE class {cases} ELSE {other} END"


# Signature, and the type and expression of the result.
FUNCTIONS: Final = {
    "msmq_message_id(id BINARY)": ("STRING", _text()),
    "msmq_message_id_bytes(text STRING)": ("BINARY", _bytes()),
    "msmq_class_name(class INT)": ("STRING", _by_class(lambda each: each.name, "NULL")),
    "msmq_class_meaning(class INT)": (
        "STRING",
        _by_class(meaning, "concat('a class defined by the application, 0x', lpad(hex(class), 4, '0'))"),
    ),
    "msmq_is_negative(class INT)": ("BOOLEAN", f"(class & {NEGATIVE}) != 0"),
}
