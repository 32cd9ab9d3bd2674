"""Errors of tile ops and of the language functions that emit them: codes E02xx."""

from __future__ import annotations

from tile_core.errors.base import TileError

__all__ = [
    "AllocationError",
    "AnnotationError",
    "AtomicOperandError",
    "CopyOverlapError",
    "CopyShapeError",
    "GemmDTypeError",
    "GemmShapeError",
    "GemmSymbolicError",
    "MemoryOrderError",
    "NotPortableError",
    "OpArgumentError",
    "OpDTypeError",
    "OperandOverlapError",
    "ReduceDTypeError",
    "ReduceKindError",
    "ReduceShapeError",
    "ReducerError",
    "RegionBoundsError",
    "ScanShapeError",
    "TransposeShapeError",
    "ViewError",
]


class CopyShapeError(TileError, ValueError):
    """The two sides of a copy do not fit together.

    `T.copy` aligns both regions from their last axis. Equal numbers of non-unit axes are paired in order; otherwise the
    axes are right-aligned. An axis of the source must equal the destination's, be 1 (it is broadcast), or be shorter
    than an on-chip destination (the rest is padded). A source longer than its destination is never accepted: slice it.
    """

    code = "TILE-E0201"


class CopyOverlapError(TileError, ValueError):
    """A copy inside one buffer whose regions may overlap and whose extents are not constants.

    A copy means "read everything, then write". For overlapping regions of one buffer that takes a staging tile, whose
    extents must be constants. Copy through a tile of your own, or make the extents constants.
    """

    code = "TILE-E0202"
    kind = "unsupported"


class RegionBoundsError(TileError, IndexError, ValueError):
    """A region with constant bounds lies outside its buffer.

    Reads of a `global` tensor beyond its end give 0 (or the annotated safe value) and writes beyond it are skipped, for
    every op but `T.fill`, whose constant region must be inside. A region of an on-chip tile must always be inside.
    """

    code = "TILE-E0203"


class GemmShapeError(TileError, ValueError):
    """The M, N or K of a matrix multiply disagree between its operands, or an operand is not a matrix.

    A is [M, K] ([K, M] with `transpose_A`), B is [K, N] ([N, K] with `transpose_B`), C is [M, N]. Leading axes must
    be 1.
    """

    code = "TILE-E0204"


class GemmDTypeError(TileError, TypeError, ValueError):
    """The element types of a matrix multiply do not go together.

    A and B have one dtype (the 4-, 6- and 8-bit float families may mix where the target can), and C accumulates:
    a float C for float operands, an integer C of at least 32 bits for integer operands.
    """

    code = "TILE-E0205"


class GemmSymbolicError(TileError, ValueError):
    """M, N and K of a matrix multiply must be constants.

    Tile sizes decide registers and instructions, so they are known when the kernel is traced. Use a constant tile and
    let the copies pad it: elements beyond a tensor's end read as 0 and do not change the product.
    """

    code = "TILE-E0206"


class ReduceShapeError(TileError, ValueError):
    """The output of a reduction has the wrong shape, or `dim` is out of range.

    The output is the input without the reduced axis, or with 1 in its place.
    """

    code = "TILE-E0207"


class ReduceDTypeError(TileError, TypeError, ValueError):
    """The reduction is not defined for this dtype: bit operations need integers or bool."""

    code = "TILE-E0208"


class ReduceKindError(TileError, ValueError):
    """A reduction or a reducer of a kind that there is not; the message lists the kinds that there are."""

    code = "TILE-E0209"


class ScanShapeError(TileError, ValueError):
    """`T.cumsum` and `T.cummax` need source and destination of one shape, and `dim` inside it.

    They run in place or between different buffers: two regions of one buffer that overlap without being the same are
    refused.
    """

    code = "TILE-E0210"


class TransposeShapeError(TileError, ValueError):
    """`T.transpose` swaps the last two axes: the destination has them swapped, and the leading axes agree.

    Source and destination must be different buffers.
    """

    code = "TILE-E0211"


class AtomicOperandError(TileError, TypeError, ValueError):
    """An atomic operation got an operand it cannot work on.

    The destination is an element, a buffer or a region of memory that threads share (`global` or shared); the value
    has the same shape, or is broadcast to it. `atomic_or` needs integers.
    """

    code = "TILE-E0212"


class MemoryOrderError(TileError, KeyError, ValueError):
    """Unknown memory order, or one that the operation cannot have.

    Known: relaxed, consume, acquire, release, acq_rel, seq_cst. Loads take relaxed, consume, acquire or seq_cst; stores
    take relaxed, release or seq_cst.
    """

    code = "TILE-E0213"

    def __str__(self) -> str:  # KeyError's own __str__ would print the repr
        return TileError.__str__(self)


class ReducerError(TileError, ValueError):
    """A reducer is used outside its order.

    The order is `reducer_init`, any number of `reducer_update`, `finalize_reducer`, then reads.
    """

    code = "TILE-E0214"


class OpArgumentError(TileError, TypeError, ValueError):
    """An argument of a language function has the wrong kind or value; the message says which and what is expected."""

    code = "TILE-E0215"


class OpDTypeError(TileError, TypeError):
    """A function is not defined for the dtype of its operand; the message names both."""

    code = "TILE-E0216"


class NotPortableError(TileError, NotImplementedError):
    """The name belongs to hardware that only some targets have, so the portable dialect refuses it.

    Use the dialect of that target (`import tile_cuda.language as T`, …), or write what the message proposes.
    """

    code = "TILE-E0217"
    kind = "unsupported"


class AllocationError(TileError, TypeError, ValueError):
    """A buffer cannot be allocated as asked: its shape, dtype, scope or initial value is not accepted."""

    code = "TILE-E0218"


class ViewError(TileError, ValueError):
    """A view must cover exactly the bits of its source.

    `T.reshape` keeps the dtype and the number of elements; `T.view` may change dtype, shape and strides as long as the
    total number of bits stays and the source is contiguous or the strides are given.
    """

    code = "TILE-E0219"


class AnnotationError(TileError, ValueError):
    """An annotation does not fit what it annotates; the message names the buffer and what was expected."""

    code = "TILE-E0220"


class OperandOverlapError(TileError, ValueError):
    """The destination of an operation may overlap one of its sources.

    A matrix multiply, a reduction or an atomic update of one region of a buffer from another region of it would read
    what it has already written. Use a tile of its own for the result.
    """

    code = "TILE-E0221"
