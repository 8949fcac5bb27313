"""Types of the values of configuration keys."""

from typing import Annotated, TypeAlias

from msgspec import Meta

# A timer of more than a hundred years is a mistake.
Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=0xFFFF_FFFF)]
Milliseconds: TypeAlias = Annotated[int, Meta(ge=0, le=0xFFFF_FFFF)]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=0xFFFF_FFFF)]
Port: TypeAlias = Annotated[int, Meta(ge=0, le=0xFFFF)]
PeerPort: TypeAlias = Annotated[int, Meta(ge=1, le=0xFFFF)]
