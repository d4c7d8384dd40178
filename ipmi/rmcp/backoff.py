"""How long to leave a BMC alone after it failed. Pure: time and chance are given."""

from dataclasses import dataclass


@dataclass
class Backoff:
    """Doubles from `first` to `longest` seconds; jitter spreads a rack that failed all at once."""

    first: float = 1.0
    longest: float = 60.0
    failures: int = 0
    until: float = 0.0

    def failed(self, now: float, chance: float, at_least: float = 0.0) -> None:
        """`chance` is in [0, 1): the wait is between half and all of the doubled value."""
        self.failures += 1
        wait = min(self.longest, self.first * 2.0 ** min(self.failures - 1, 16))
        self.until = now + max(at_least, wait * (0.5 + chance / 2))

    def succeeded(self) -> None:
        self.failures = 0
        self.until = 0.0

    def remaining(self, now: float) -> float:
        return max(0.0, self.until - now)
