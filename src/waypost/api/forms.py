"""Forms of values over HTTP, one for each kind, as the OpenAPI document states them.

The code that reads a value refuses other forms with a sentence.
"""

from typing import Annotated, Final

from msgspec import Meta

from waypost.core.positions import END
from waypost.guid import GUID_PATTERN
from waypost.limits import MAX_BULK_NAME

# JSON Schema of texts, also for parameters of paths and queries.
GUID_FORM: Final = {"format": "uuid"}
GUID_OR_NOTHING_FORM: Final = {"pattern": f"^({GUID_PATTERN})?$"}
ADDRESS_FORM: Final = {"anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}
ADDRESS_OR_NOTHING_FORM: Final = {"anyOf": [{"format": "ipv4"}, {"format": "ipv6"}, {"maxLength": 0}]}
# {GUID}\ordinal.
MESSAGE_ID_FORM: Final = {"pattern": rf"^(\{{{GUID_PATTERN}\}}\\(0|[1-9][0-9]{{0,8}}))?$"}
# Decimal digits, because a number of JavaScript has 53 bits. The last numbers below END, which no message gets, are
# left out for the sake of a short pattern.
_LOOKUP_ID: Final = "[0-9]{1,17}|[1-4][0-9]{17}|5[0-6][0-9]{16}|57[0-5][0-9]{15}"
LOOKUP_ID_FORM: Final = {"pattern": f"^({_LOOKUP_ID})$"}
LOOKUP_ID_OR_NOTHING_FORM: Final = {"pattern": f"^({_LOOKUP_ID})?$"}
# The `next` of a page.
NEXT_FORM: Final = {"pattern": "^([0-9a-f]{2})*$"}
# The name that a program gives to its claim or query. The length counts bytes of UTF-8.
BULK_NAME_FORM: Final = {"minLength": 1, "maxLength": MAX_BULK_NAME}
# A time in UTC.
TIME_FORM: Final = {"format": "date-time"}

Guid = Annotated[str, Meta(extra_json_schema=GUID_FORM)]
GuidOrNothing = Annotated[str, Meta(extra_json_schema=GUID_OR_NOTHING_FORM)]
Address = Annotated[str, Meta(extra_json_schema=ADDRESS_FORM)]
LookupIdText = Annotated[str, Meta(extra_json_schema=LOOKUP_ID_FORM)]
LookupIdOrNothing = Annotated[str, Meta(extra_json_schema=LOOKUP_ID_OR_NOTHING_FORM)]
# Requests accept both.
LookupIdNumber = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": END - 1})]
LookupId = LookupIdNumber | LookupIdText
Time = Annotated[str, Meta(extra_json_schema=TIME_FORM)]
BulkName = Annotated[str, Meta(extra_json_schema=BULK_NAME_FORM)]
BulkNameOrNothing = Annotated[str, Meta(extra_json_schema={"maxLength": MAX_BULK_NAME})]
Query = Annotated[str, Meta(description="Name of the query.", extra_json_schema=BULK_NAME_FORM)]

Seconds = Annotated[float, Meta(ge=0)]
# Seconds of a lease: a lease of 0 would be useless.
LeaseSeconds = Annotated[float, Meta(gt=0)]
Age = Annotated[float, Meta(extra_json_schema={"minimum": 0})]
Count = Annotated[int, Meta(ge=1)]
