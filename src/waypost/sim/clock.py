"""The clocks of a simulated host, which run apart and jump."""

from dataclasses import dataclass

from waypost.clock import Now


@dataclass(slots=True)
class Clock:
    """Both clocks as functions of the time of the simulation. Only the wall clock can go back."""

    monotonic_offset: float
    wall_offset: float
    wall_rate: float

    def now(self, time: float) -> Now:
        return Now(time + self.monotonic_offset, self.wall_offset + time * self.wall_rate)

    def time_of(self, monotonic: float) -> float:
        return monotonic - self.monotonic_offset
