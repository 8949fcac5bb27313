"""What the simulator finds."""


class Violation(Exception):
    """Something that must always be true is not: one sentence."""
