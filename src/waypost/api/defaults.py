"""What is so of a daemon if nothing else is said: the same for those who start one and those who ask one."""

from typing import Final

HTTP_PORT: Final = 8181
URL: Final = f"http://127.0.0.1:{HTTP_PORT}"
# How long a transaction or a handle that nobody uses stays open.
LEASE_SECONDS: Final = 60.0
# How long a backup may take.
BACKUP_SECONDS: Final = 21_600.0
