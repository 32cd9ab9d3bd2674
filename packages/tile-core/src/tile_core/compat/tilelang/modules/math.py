"""`tilelang.math`."""

from __future__ import annotations

__all__ = ["cdiv", "next_power_of_2"]


def cdiv(a: int, b: int) -> int:
    """How many groups of `b` hold `a`.

    >>> cdiv(10, 4)
    3
    """
    return -(-a // b)


def next_power_of_2(x: int) -> int:
    """The smallest power of two that is not below `x`.

    >>> [next_power_of_2(n) for n in (1, 2, 3, 1000)]
    [1, 2, 4, 1024]
    """
    return 1 << (x - 1).bit_length()
