"""Errors raised by the interpreter part."""

from __future__ import annotations

from tile_core.errors.base import TileError

__all__ = [
    "BarrierMisuseError",
    "DataRaceError",
    "DeviceAssertError",
    "DeviceDivisionError",
    "DivergentCollectiveError",
    "EndlessLoopError",
    "InterpretOptionError",
    "InterpreterLimitError",
    "LoopIndexRangeError",
    "NoReferenceMeaningError",
    "OutOfBoundsAccessError",
    "UninitializedReadError",
]


class OutOfBoundsAccessError(TileError, IndexError):
    """A kernel run by the interpreter indexed a tile outside its shape.

    Accesses to global tensors are guarded by the language: reads beyond them give the safe value, writes are skipped.
    Shared memory, fragments and local memory are not guarded, because a guard there would hide the mistake. Correct
    the index, or put the access under a condition.
    """

    code = "TILE-E0801"


class UninitializedReadError(TileError, ValueError):
    """A kernel run by the interpreter read an element of a tile that nothing had written.

    Fill the tile first (`T.clear`, `T.fill`), or write every element that is read. A local variable that the
    iterations of a `T.Parallel` loop left with different values counts as unwritten after the loop, since which
    iteration ran last depends on the mapping to threads.
    """

    code = "TILE-E0802"


class DataRaceError(TileError, RuntimeError):
    """Two iterations of a `T.Parallel` loop, or two threads, use one element and at least one writes it.

    Which comes first is not defined, so the result is not either. Iterations may write the same value to one element;
    they may not write different values, nor read what another iteration writes. Use a serial loop, a reduction, an
    atomic, or a second tile.
    """

    code = "TILE-E0803"


class BarrierMisuseError(TileError, RuntimeError):
    """A barrier is reached by some of the threads that must reach it, or by a wrong number of them.

    On hardware the block hangs or continues too early. Move the barrier out of the condition on the thread index.
    """

    code = "TILE-E0804"


class DeviceAssertError(TileError, AssertionError):
    """An `assert` or `T.device_assert` in a kernel failed.

    The message is the author's. The interpreter also names the block and the iteration; what the kernel wrote before
    stays written.
    """

    code = "TILE-E0805"


class NoReferenceMeaningError(TileError, NotImplementedError):
    """A kernel uses something that the interpreter has no meaning for.

    The interpreter runs the portable language. A vendor's instruction, foreign code and raw addresses have no meaning
    in numpy; run such kernels on the backend that they are written for.
    """

    code = "TILE-E0806"
    kind = "unsupported"


class DivergentCollectiveError(TileError, RuntimeError):
    """A tile operation or a `T.Parallel` loop depends on which thread runs it.

    Tile operations are carried out by all threads of a block together: their regions, values and the condition that
    they stand under must be the same for every thread. Take the thread index out of it, or write the loop for one
    thread at a time.
    """

    code = "TILE-E0807"


class DeviceDivisionError(TileError, ZeroDivisionError):
    """A kernel run by the interpreter divided an integer by zero, which hardware leaves undefined."""

    code = "TILE-E0808"


class EndlessLoopError(TileError, RuntimeError):
    """A `while` loop ran longer than the interpreter's limit, set by the pass config `interpret.max_steps`."""

    code = "TILE-E0809"


class InterpretOptionError(TileError, ValueError):
    """A pass config `interpret.…` has a value of the wrong type.

    `interpret.check_races`, `interpret.check_uninitialized` and `interpret.reversed_order` are true or false,
    `interpret.max_steps` is a number.
    """

    code = "TILE-E0810"


class InterpreterLimitError(TileError, MemoryError):
    """A tile or a `T.Parallel` loop is larger than the interpreter takes.

    It keeps whole tiles and whole iteration spaces as numpy arrays; the limits, a gigabyte a tile and 2^25 iterations a
    loop, are far beyond what fits a block on hardware. Split the work over blocks.
    """

    code = "TILE-E0811"


class LoopIndexRangeError(TileError, OverflowError):
    """The index of a loop leaves its dtype.

    A loop over int32 bounds has an int32 index. Its last value is the start plus the number of iterations less one;
    where that does not fit, there is no such loop on hardware. Compute the bounds in int64.
    """

    code = "TILE-E0812"
