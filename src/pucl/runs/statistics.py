"""Mean, spread and paired difference over several seeds."""

import math
from dataclasses import dataclass

import numpy as np

from pucl.data.errors import ExtraMissingError
from pucl.texts import fixed, signed

ROUNDING = 1e-9  # Differences that vary by less than this share of their mean count as equal.


@dataclass(frozen=True)
class Spread:
    """Several values of one quantity.

    Args:
        deviation: Their standard deviation (0 for a single value).
    """

    mean: float
    deviation: float
    count: int

    @classmethod
    def of(cls, values: list[float]) -> "Spread":
        """The spread of these values."""
        array = np.asarray(values, dtype=np.float64)
        return cls(float(array.mean()), float(array.std(ddof=1)) if len(array) > 1 else 0.0, len(array))

    def __str__(self) -> str:
        """The mean, with the standard deviation where several values have one."""
        return f"{fixed(self.mean)} ± {fixed(self.deviation)}" if self.count > 1 else fixed(self.mean)

    @property
    def margin(self) -> float | None:
        """Half of the 95 % interval of the mean; None for a single value."""
        if self.count < 2:
            return None
        return student_quantile(self.count - 1) * self.deviation / math.sqrt(self.count)

    def interval(self, lowest: float = -math.inf, highest: float = math.inf) -> tuple[float, float] | None:
        """The 95 % interval of the mean, cut at the possible values; None for a single value."""
        if self.margin is None:
            return None
        return max(lowest, self.mean - self.margin), min(highest, self.mean + self.margin)


@dataclass(frozen=True)
class Difference:
    """A paired difference with its 95 % interval.

    Args:
        mean: Mean difference over the seeds.
        low: Lower end of the interval; None for a single pair, and for pairs with equal differences, which are
            common on few samples.
        high: Upper end.
    """

    mean: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        """The difference with its interval, if it has one."""
        if self.low is None or self.high is None:
            return signed(self.mean)
        return f"{signed(self.mean)} ({signed(self.low)} to {signed(self.high)})"

    @property
    def sign(self) -> int:
        """1 if the values are above the base by more than chance, -1 if they are below it; 0 if it may be chance.

        Example:
            >>> Difference(2.0, 0.5, 3.5).sign, Difference(-2.0, -3.5, -0.5).sign, Difference(2.0, -1.0, 5.0).sign
            (1, -1, 0)
        """
        return 0 if self.low is None or self.high is None else (self.low > 0) - (self.high < 0)

    @classmethod
    def between(cls, values: list[float], base: list[float]) -> "Difference":
        """Values less base, seed by seed."""
        spread = Spread.of([value - other for value, other in zip(values, base, strict=True)])
        if spread.margin is None or spread.deviation <= ROUNDING * abs(spread.mean):
            return cls(spread.mean, None, None)
        return cls(spread.mean, spread.mean - spread.margin, spread.mean + spread.margin)


def student_quantile(freedom: int) -> float:
    """The quantile of Student's t for a two-sided interval of 95 %, by scipy.

    Args:
        freedom: Degrees of freedom, at least 1.

    Example:
        >>> round(student_quantile(4), 3), round(student_quantile(1), 3)
        (2.776, 12.706)
    """
    try:
        from scipy.special import stdtrit  # type: ignore[import-untyped]  # noqa: PLC0415
    except ImportError as error:
        raise ExtraMissingError("the 95 % interval of a mean", "scipy") from error
    return float(stdtrit(freedom, 0.975))
