"""Defaults of a daemon, common to the server and its clients."""

from typing import Final

HTTP_PORT: Final = 8181
URL: Final = f"http://127.0.0.1:{HTTP_PORT}"
# Time that an unused transaction or handle stays open.
LEASE_SECONDS: Final = 60.0
# Time limit of a backup.
BACKUP_SECONDS: Final = 21_600.0
