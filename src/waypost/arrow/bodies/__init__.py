"""Decode bodies by the thousand: the text, the kind and the error of each.

BodyType is a variant type in most messages, 0 if the sender names no type (such as the XmlMessageFormatter of .NET) and
0x300 for the BinaryMessageFormatter of .NET. Values of `body_kind`:

- `empty`: no type and no bytes; `xml`, `json`, `text`: no type, and text (json if the sender's headers say so);
  `binary`: no type, and not text
- `string`: VT_BSTR, VT_LPSTR, VT_LPWSTR
- `integer`, `float`, `currency`, `date`, `boolean`, `guid`: one value of that type
- `bytes`: an array of bytes; `json` if they are a JSON object or array; `object`: a COM object, streamed or stored
- `net-binary:NAME`: a body of the BinaryMessageFormatter, with the class of its root; `net-binary` if the class
  is unknown. The body stays opaque: nothing here makes an object of it
- `type-N`: any other type

`body_text` is null for a body without text. A body that does not match its type has a `body_error` of one sentence.
Time and memory are linear in the size of any bodies.
"""

from waypost.api.framework_headers import headers_of
from waypost.arrow.bodies.decode import decode_bodies, extension_headers, header_lists

__all__ = ["decode_bodies", "extension_headers", "header_lists", "headers_of"]
