"""The error for a broken promise."""


class Violation(Exception):
    """Something that must always be true is not: one sentence."""
