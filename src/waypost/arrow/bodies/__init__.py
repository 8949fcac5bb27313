"""What is in a body: its text, its kind, and what is wrong with it, by the thousand.

BodyType is a variant type in most messages, 0 where the sender says nothing (the XmlMessageFormatter of .NET among
them) and 0x300 for the BinaryMessageFormatter of .NET. Words of `body_kind`:

- `empty`: no type and no bytes; `xml`, `json`, `text`: no type, and text (json if the sender's headers say so);
  `binary`: no type, and no text
- `string`: VT_BSTR, VT_LPSTR, VT_LPWSTR
- `integer`, `float`, `currency`, `date`, `boolean`, `guid`: one value of that type
- `bytes`: an array of bytes; `object`: a COM object, streamed or stored
- `net-binary:NAME`: what the BinaryMessageFormatter wrote, with the class of its root, and `net-binary` where the class
  cannot be told. It stays opaque: nothing here makes an object of it
- `type-N`: any other type

`body_text` is null where there is no text. A body that is not what its type says has a `body_error` of one sentence.
Time and memory are linear in the bodies, whatever is in them.
"""

from waypost.api.framework_headers import headers_of
from waypost.arrow.bodies.decode import decode_bodies, extension_headers

__all__ = ["decode_bodies", "extension_headers", "headers_of"]
