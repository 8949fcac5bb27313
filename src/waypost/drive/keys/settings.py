"""Settings of the keys of a queue manager."""

from dataclasses import dataclass, field
from typing import Final

# The folder of keys in a data folder.
KEY_FOLDER: Final = "keys"
DEFAULT_BITS: Final = 2048


@dataclass(frozen=True, slots=True)
class KeySettings:
    """`passphrase` protects the private keys on disk. Without `uses_processes`, threads of this program do the work."""

    bits: int = DEFAULT_BITS
    passphrase: bytes | None = field(default=None, repr=False)
    uses_processes: bool = False
