"""The error for a broken promise."""


class Violation(Exception):
    """The error for an invariant that does not hold: one sentence."""
