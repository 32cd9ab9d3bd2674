"""One program for every code of the tile ops and of the language functions that emit them."""

from __future__ import annotations

import pytest

from tile_core.errors import ops as codes
from tile_core.testing.codes import Program, inside, refuse

MATRICES = 'A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "int32"), n: T.int32'

PROGRAMS = {
    "AllocationError": Program(inside('T.alloc_var("int32", 1, init=2)  # HERE'), "alloc_var: two initial values"),
    "AnnotationError": Program(
        inside(
            """
            tile = T.alloc_shared((128,), "float32")
            T.annotate_layout({tile: T.Layout((128,), lambda i: i % 64)})  # HERE
            """
        ),
        "tile",
    ),
    "AtomicOperandError": Program(
        inside('mine = T.alloc_local((4,), "int32")\nT.atomic_add(mine[0], 1)  # HERE'), "mine"
    ),
    "CopyOverlapError": Program(inside("T.copy(A[0:n, :], A[1:n + 1, :])  # HERE", parameters=MATRICES), "A"),
    "CopyShapeError": Program(
        inside('tile = T.alloc_shared((4,), "int32")\nT.copy(A, tile)  # HERE'),
        "A has shape (8) but tile has shape (4)",
    ),
    "GemmDTypeError": Program(
        inside('C = T.alloc_fragment((64, 64), "float32")\nT.gemm(A, B, C)  # HERE', parameters=MATRICES),
        "A = A is float32 but B = B is int32",
    ),
    "GemmShapeError": Program(
        inside('C = T.alloc_fragment((32, 64), "float32")\nT.gemm(A, A, C)  # HERE', parameters=MATRICES),
        "M is 64 in A",
    ),
    "GemmSymbolicError": Program(
        inside(
            'C = T.alloc_fragment((64, 64), "float32")\nT.gemm(A[:, 0:n], A[0:n, :], C)  # HERE', parameters=MATRICES
        ),
        "A[0:64, 0:n] is n",
    ),
    "MemoryOrderError": Program(inside('T.atomic_add(A[0], 1, memory_order="sequential")  # HERE'), "'sequential'"),
    "NotPortableError": Program(inside("T.thread_return()  # HERE"), "thread_return"),
    "OpArgumentError": Program(inside("T.copy(A, 3)  # HERE"), "copy: dst: 3"),
    "OpDTypeError": Program(inside("A[0] = T.pow(A[0], A[1])  # HERE"), "int32"),
    "OperandOverlapError": Program(
        inside("T.reduce_sum(A, A[0:64, 0], dim=1)  # HERE", parameters=MATRICES), "the destination A"
    ),
    "ReduceDTypeError": Program(
        inside('out = T.alloc_fragment((1,), "float32")\nT.reduce_bitand(X, out)  # HERE'), "X is float32"
    ),
    "ReduceKindError": Program(inside('T.alloc_reducer((4,), "int32", op="mean")  # HERE'), "'mean'"),
    "ReduceShapeError": Program(
        inside('out = T.alloc_fragment((4,), "int32")\nT.reduce_sum(A, out, dim=0)  # HERE'), "the output out"
    ),
    "ReducerError": Program(inside('tile = T.alloc_fragment((4,), "int32")\nT.finalize_reducer(tile)  # HERE'), "tile"),
    "RegionBoundsError": Program(
        inside('tile = T.alloc_shared((4,), "int32")\nT.fill(A[4:12], 0)  # HERE'), "A[4:12] is outside A"
    ),
    "ScanShapeError": Program(inside('tile = T.alloc_shared((4,), "int32")\nT.cumsum(A, tile)  # HERE'), "tile"),
    "TransposeShapeError": Program(
        inside('tile = T.alloc_shared((64, 32), "float32")\nT.transpose(A, tile)  # HERE', parameters=MATRICES), "tile"
    ),
    "ViewError": Program(inside("T.reshape(A, (3, 3))  # HERE"), "A"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_for_each_code(name):
    refuse(getattr(codes, name), PROGRAMS[name])
