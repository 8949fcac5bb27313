"""Roles of callers for management."""

from enum import IntEnum


class Role(IntEnum):
    """A role for management. Each includes those before it."""

    NONE = 0
    READ = 1
    OPERATE = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        return self.name.lower()
