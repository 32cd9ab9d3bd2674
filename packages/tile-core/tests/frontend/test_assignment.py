"""What a name holds: immutable values, variables, Python values, and what is refused."""

# The programs under test are written as users write them.
# ruff: noqa: B007, C416, F821, F841, F842, PLC3002
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tvm.tirx import stmt as S

import tile_core as tl
import tile_core.language as T
from tile_core.errors import (
    AssignmentTargetError,
    IndexRangeError,
    LoopCarriedNameError,
    OperandError,
    ParameterError,
    PythonStateError,
    ReboundNameError,
    ScopeError,
    StaleValueError,
    UndefinedNameError,
    UnpackError,
)

Ints = T.Tensor((8,), T.int32)


def zeros(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    """A poisoned output: no test expects -77."""
    return torch.full(shape, -77, dtype=dtype)


def arange(dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.arange(8, dtype=dtype)


def test_a_name_holds_the_value_of_its_moment(run):
    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            for i in T.serial(8):
                tmp = T.max(A[i], 1)
                A[i] = 2 * tmp
                B[i] = tmp // 2

    a, b = arange(), zeros(8)
    run(kernel, a, b)
    assert a.tolist() == [2, 2, 4, 6, 8, 10, 12, 14]
    assert b.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_variables_are_stored_to_and_read_late(run):
    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            total = T.alloc_var(T.int32, init=0)
            best = T.alloc_var(T.int32, init=-1)
            for i in range(8):
                total += A[i]
                if A[i] > best:
                    best = A[i]
            B[0] = total
            B[1] = best

    b = zeros(8)
    run(kernel, torch.tensor([3, 9, -4, 7, 0, 1, 2, 5], dtype=torch.int32), b)
    assert b[:2].tolist() == [23, 9]


def test_copies_of_a_variable_keep_their_value(run):
    @T.prim_func
    def kernel(B: Ints):
        with T.Kernel(1, threads=32):
            x = T.alloc_var(T.int32, init=1)
            old = x
            x = 5
            B[0] = old
            B[1] = x
            a = 1
            b = T.alloc_var(T.int32, init=a)
            a = 2
            d = T.alloc_var(T.int32, init=a)
            B[2] = b
            B[3] = d

    b = zeros(8)
    run(kernel, b)
    assert b[:4].tolist() == [1, 5, 1, 2]


def test_swaps_read_before_they_write(run):
    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            x = T.alloc_var(T.int32, init=1)
            y = T.alloc_var(T.int32, init=2)
            x, y = y, x
            B[0] = x
            B[1] = y
            A[0], A[1], A[2] = A[2], A[0], A[1]
            p, (q, *r) = 3, (4, 5, 6)
            B[2], B[3], B[4] = p, q, sum(r)
            u = v = A[3]
            B[5] = u + v

    a, b = arange(), zeros(8)
    run(kernel, a, b)
    assert a[:3].tolist() == [2, 0, 1]
    assert b[:6].tolist() == [2, 1, 3, 4, 11, 6]


def test_several_variables_of_one_line():
    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            low, high = T.alloc_var("int32", init=0), T.alloc_var("int32", init=8)
            while low < high:
                middle = (low + high) // 2
                if A[middle] < 5:
                    low = middle + 1
                else:
                    high = middle
            low, high = high + 10, low
            B[0] = low
            B[1] = high

    b = zeros(8)
    tl.compile(kernel, target="interpret")(arange(), b)
    assert b[:2].tolist() == [15, 5]


def test_unpacking_the_wrong_number(refused):
    with refused(UnpackError, at="a, b = (1, 2, 3)", naming=("3", "2")):

        @T.prim_func
        def kernel(B: Ints):
            with T.Kernel(1, threads=32):
                a, b = (1, 2, 3)
                B[0] = a + b


def test_augmented_assignment(run):
    @T.prim_func
    def kernel(A: T.Tensor((8,), T.float32), B: Ints):
        with T.Kernel(1, threads=32):
            k = 1
            k += 2
            A[k] += 1.5
            A[k] *= 2
            A[0] -= A[1]
            A[2] /= 4
            B[0] = 29
            B[0] //= 4
            B[1] = 29
            B[1] %= 4
            B[2] = 5
            B[2] <<= 2
            B[3] = 13
            B[3] &= 6
            B[4] = 8
            B[4] |= 3
            B[5] = 6
            B[5] ^= 3
            B[6] = -9
            B[6] >>= 1

    a, b = arange(torch.float32), zeros(8)
    run(kernel, a, b)
    assert a[:4].tolist() == [-1.0, 1.0, 0.5, 9.0]
    assert b[:7].tolist() == [7, 1, 20, 4, 11, 5, -5]


def test_index_expressions_are_evaluated_once(run):
    calls = []

    def index():
        calls.append(1)
        return 3

    @T.prim_func
    def kernel(A: Ints):
        with T.Kernel(1, threads=32):
            A[index()] += 1

    a = arange()
    run(kernel, a)
    assert a[3] == 4
    assert len(calls) == 1


def test_annotated_assignment_converts(run):
    @T.prim_func
    def kernel(A: T.Tensor((8,), T.float32), B: T.Tensor((8,), T.float32)):
        with T.Kernel(1, threads=32):
            x: T.float16 = A[0]
            B[0] = x
            y: T.int32 = A[1]
            B[1] = y
            z: T.uint8 = -1
            B[2] = z
            w: int = 7
            B[3] = w

    b = zeros(8, dtype=torch.float32)
    run(kernel, torch.tensor([1.0009765, -2.75] + [0.0] * 6), b)
    assert b[:4].tolist() == [1.0009765625, -2.0, 255.0, 7.0]


@pytest.mark.parametrize("kind", ["constant", "expression", "python"])
def test_a_rebound_name_is_refused_after_a_branch(refused, kind):
    with refused(ReboundNameError, at="B[0] = v", naming=("v", "T.alloc_var", "device branch")):

        @T.prim_func
        def kernel(A: Ints, B: Ints):
            with T.Kernel(1, threads=32):
                v = 5 if kind == "python" else A[0]
                if A[1] > 1:
                    v = 1 if kind != "expression" else A[2] + 1
                B[0] = v


def test_accumulating_in_a_name_is_refused(refused):
    with refused(LoopCarriedNameError, at="x = x + A[k]", naming=("x", "T.alloc_var")):

        @T.prim_func
        def kernel(A: Ints, B: Ints):
            with T.Kernel(1, threads=32):
                x = 0
                for k in T.serial(8):
                    x = x + A[k]
                B[0] = x

    with refused(LoopCarriedNameError, at="x += A[0]"):

        @T.prim_func
        def kernel2(A: Ints, B: Ints):
            with T.Kernel(1, threads=32):
                x = A[1]
                while A[0] > 0:
                    x += A[0]

    with refused(LoopCarriedNameError, at="while n < 4"):

        @T.prim_func
        def kernel3(A: Ints, B: Ints):
            with T.Kernel(1, threads=32):
                n = A[0]
                while n < 4:
                    n = A[1]


def test_a_name_set_anew_in_each_iteration_is_fine(run):
    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            x = 5
            B[7] = x
            for k in T.serial(4):
                x = A[k] * 2
                B[k] = x
            x = 6
            B[6] = x

    b = zeros(8)
    run(kernel, arange(), b)
    assert b.tolist() == [0, 2, 4, 6, -77, -77, 6, 5]


def test_python_loops_accumulate_as_python_does(run):
    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            x = 0
            for k in [0, 1, 2]:
                x = x + A[k + 1]
            B[0] = x
            for k in (4, 5):
                pass
            B[1] = k

    b = zeros(8)
    run(kernel, arange(), b)
    assert b[:2].tolist() == [6, 5]


def test_loop_names_after_a_device_loop_are_refused(refused):
    with refused(ReboundNameError, at="B[0] = i", naming=("i", "device loop")):

        @T.prim_func
        def kernel(B: Ints):
            with T.Kernel(1, threads=32):
                for i in T.serial(8):
                    B[i] = i
                B[0] = i


def test_the_name_of_a_variable_as_a_loop_index_is_a_new_binding(run):
    @T.prim_func
    def kernel(B: Ints):
        with T.Kernel(1, threads=32):
            i = T.alloc_var(T.int32, init=7)
            B[6] = i
            for i in T.serial(3):
                B[i] = i

    b = zeros(8)
    run(kernel, b)
    assert b.tolist() == [0, 1, 2, -77, -77, -77, 7, -77]


def test_values_kept_in_containers_do_not_leave_their_scope(refused):
    with refused(ScopeError, at="B[0] = box.value", naming=("v",)):

        class Box:
            value = None

        box = Box()

        def keep(v):
            box.value = v

        @T.prim_func
        def kernel(A: Ints, B: Ints):
            with T.Kernel(1, threads=32):
                for i in T.serial(8):
                    v = A[i]
                    keep(v)
                B[0] = box.value


def test_attributes_assigned_in_device_code_are_refused(refused):
    class Box:
        value = 0

    box = Box()
    with refused(PythonStateError, at="box.value = 3"):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                if A[0] > 0:
                    box.value = 3


def test_variables_in_containers_and_attributes_are_stored_to(run):
    class Box:
        count = None

    box = Box()

    @T.prim_func
    def kernel(B: Ints):
        with T.Kernel(1, threads=32):
            cells = [T.alloc_var(T.int32, init=k) for k in range(3)]
            box.count = T.alloc_var(T.int32, init=0)
            for i in T.serial(4):
                cells[1] = i + 10
                cells[2] += i
                box.count += 2
            for k, cell in enumerate(cells):
                B[k] = cell
            B[3] = box.count

    b = zeros(8)
    run(kernel, b)
    assert b[:4].tolist() == [0, 13, 8, 8]


def test_an_element_used_after_its_buffer_was_written_is_refused(refused):
    with refused(StaleValueError, at="B[0] = pair[0]", naming=("A",)):

        @T.prim_func
        def kernel(A: Ints, B: Ints):
            with T.Kernel(1, threads=32):
                pair = (A[0], A[1])
                A[0] = 9
                B[0] = pair[0]

    with refused(StaleValueError, naming=("A", "loop")):

        @T.prim_func
        def kernel2(A: Ints, B: Ints):
            with T.Kernel(1, threads=32):
                pair = (A[0], A[1])
                for k in T.serial(4):
                    B[k] = pair[0]
                    A[0] = k


def test_elements_in_containers_are_fine_where_nothing_wrote(run):
    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            for k, v in enumerate([A[3], A[1]]):
                B[k] = v
            B[2] = sum([A[k] for k in range(4)])

    b = zeros(8)
    run(kernel, arange(), b)
    assert b[:3].tolist() == [3, 1, 6]


def test_undefined_and_deleted_names(refused):
    with refused(UndefinedNameError, at="B[0] = later", naming=("later",)):

        @T.prim_func
        def kernel(B: Ints):
            with T.Kernel(1, threads=32):
                B[0] = later
                later = 1

    with refused(UndefinedNameError, at="B[0] = gone"):

        @T.prim_func
        def kernel2(B: Ints):
            with T.Kernel(1, threads=32):
                gone = 1
                del gone
                B[0] = gone

    with refused(UndefinedNameError, at="nowhere", naming=("nowhere",)):

        @T.prim_func
        def kernel3(B: Ints):
            with T.Kernel(1, threads=32):
                B[0] = nowhere


def test_a_tensor_is_not_written_by_its_name(refused):
    with refused(AssignmentTargetError, at="B = tile", naming=("B", "nothing is stored", "T.copy")):

        @T.prim_func
        def kernel(A: Ints, B: Ints):
            with T.Kernel(1, threads=32):
                tile = T.alloc_shared((8,), T.int32)
                T.copy(A, tile)
                B = tile

    with refused(AssignmentTargetError, at="B = A[i]"):

        @T.prim_func
        def kernel2(A: Ints, B: Ints):
            with T.Kernel(1, threads=32):
                for i in T.serial(8):
                    B = A[i]


def test_the_name_of_a_tensor_that_is_read_again_is_pythons():
    @T.prim_func
    def swapped(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            for _ in [0, 1, 2]:
                for i in T.Parallel(8):
                    B[i] = A[i] + 1
                A, B = B, A

    a, b = arange(), zeros(8)
    tl.compile(swapped, target="interpret")(a, b)
    assert b.tolist() == [value + 3 for value in range(8)]


def test_a_tile_of_a_device_loop_is_allocated_before_it(refused):
    with refused(ReboundNameError, at="tile, A", naming=("tile", "allocate the tile before the device loop")):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                for _ in range(2):
                    tile = T.alloc_shared((8,), T.int32)
                    T.copy(A, tile)
                T.copy(tile, A)


def test_assignment_targets(refused):
    with refused(AssignmentTargetError, at="A[0:4] = 1", naming=("T.fill",)):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                A[0:4] = 1

    with refused(AssignmentTargetError, at="A += 1"):

        @T.prim_func
        def kernel2(A: Ints):
            with T.Kernel(1, threads=32):
                A += 1

    with refused(OperandError, at="A[0] = A", naming=("whole buffer or region A",)):

        @T.prim_func
        def kernel3(A: Ints):
            with T.Kernel(1, threads=32):
                A[0] = A

    with refused(IndexRangeError, at="A[8] = 1", naming=("8", "A")):

        @T.prim_func
        def kernel4(A: Ints):
            with T.Kernel(1, threads=32):
                A[8] = 1


def test_a_declaration_outside_of_an_eager_function(refused):
    with refused(ParameterError, at="x: T.int32"):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                x: T.int32
                A[0] = 1


def test_stores_convert(run):
    @T.prim_func
    def kernel(A: T.Tensor((8,), T.float32), B: Ints, C: T.Tensor((8,), T.uint8)):
        with T.Kernel(1, threads=32):
            B[0] = A[0]
            B[1] = -2.9
            C[0] = -1
            C[1] = T.cast(300, T.uint8)
            v = T.alloc_var(T.int32)
            v = A[0]
            B[2] = v

    b, c = zeros(8), torch.zeros(8, dtype=torch.uint8)
    run(kernel, torch.full((8,), -1.75), b, c)
    assert b[:3].tolist() == [-1, -2, -1]
    assert c[:2].tolist() == [255, 44]


def test_walrus_and_comprehensions_and_f_strings(run):
    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            if (v := A[2]) > 1:
                B[0] = v
            squares = {f"k{k}": k * k for k in range(4) if k % 2}
            B[1] = squares["k3"]
            B[2] = (lambda x: x + 1)(A[0])
            B[3] = len([y for y in (1, 2, 3)])
            last = [w := k for k in range(3)][-1] + w
            B[4] = last

    b = zeros(8)
    run(kernel, arange(), b)
    assert b[:5].tolist() == [2, 9, 1, 3, 4]


def test_names_of_buffers_and_values_are_the_authors(body):
    @T.prim_func
    def kernel(A: Ints):
        with T.Kernel(1, threads=32) as bx:
            tile = T.alloc_shared((8,), T.int32)
            value = A[bx] + 1
            tile[0] = value
            value = A[bx] + 2
            tile[1] = value

    found = body(kernel)
    assert found[0].buffer.name == "tile"
    assert [stmt.var.name for stmt in found if isinstance(stmt, S.Bind)] == ["value", "value_1"]


def test_a_place_does_not_move_with_the_variable_that_indexed_it(run, refused):
    @T.macro
    def put(place: T.Ref, v: T.Ref):
        v = 3
        place = 50
        place += 1

    @T.prim_func
    def kernel(A: Ints):
        with T.Kernel(1, threads=32):
            v = T.alloc_var(T.int32, init=1)
            put(A[v], v)
            A[0] = v

    a = zeros(8)
    run(kernel, a)
    assert a.tolist() == [3, 51, -77, -77, -77, -77, -77, -77]
    with refused(StaleValueError, at="T.fill(part, 1)", naming=("v",)):

        @T.prim_func
        def moving(A: Ints):
            with T.Kernel(1, threads=32):
                v = T.alloc_var(T.int32, init=1)
                part = A[v : v + 2]
                v = 3
                T.fill(part, 1)


def test_bounds_of_a_loop_are_read_before_it(run):
    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            low = T.alloc_var(T.int32, init=1)
            for i in T.serial(low, A[3] + 2, 2):
                low = 100
                A[3] = 0
                B[i] = i
            for i in range(A[4]):
                A[4] = 0
                B[i + 4] = i

    b = zeros(8)
    run(kernel, arange(), b)
    assert b.tolist() == [-77, 1, -77, 3, 0, 1, 2, 3]


def test_conditions_that_fold_are_decided(run):
    @T.prim_func
    def kernel(A: Ints):
        with T.Kernel(1, threads=32):
            x = 1
            if T.int32(3) > 2:
                x = 2
            A[0] = x
            A[1] = 5 if T.int32(3) > 4 else x + 1

    a = zeros(8)
    run(kernel, a)
    assert a[:2].tolist() == [2, 3]


def test_a_write_through_a_view_is_a_write(refused):
    with refused(StaleValueError, at="B[0] = pair[0]", naming=("A",)):

        @T.prim_func
        def kernel(A: Ints, B: Ints):
            with T.Kernel(1, threads=32):
                rows = T.reshape(A, (2, 4))
                pair = (A[0], A[1])
                rows[0, 0] = 9
                B[0] = pair[0]


def test_a_variable_made_anew_in_a_loop(run, refused):
    @T.prim_func
    def kernel(B: Ints):
        with T.Kernel(1, threads=32):
            v = T.alloc_var(T.int32, init=1)
            B[6] = v
            for k in T.serial(3):
                v = T.alloc_var(T.int32, init=5)
                v += k
                for j in T.serial(2):
                    v = v + 10
                B[k] = v
            v = T.alloc_var(T.int32, init=7)
            B[7] = v

    b = zeros(8)
    run(kernel, b)
    assert b.tolist() == [25, 26, 27, -77, -77, -77, 1, 7]
    with refused(LoopCarriedNameError, at="v = T.alloc_var(T.int32, init=5)", naming=("v",)):

        @T.prim_func
        def shadowing(B: Ints):
            with T.Kernel(1, threads=32):
                v = T.alloc_var(T.int32, init=1)
                for k in T.serial(3):
                    for j in T.serial(2):
                        v += B[j]
                    v = T.alloc_var(T.int32, init=5)


def test_an_address_outlives_writes_of_its_elements_but_not_of_its_index() -> None:
    def traced(body: Callable[[Any, Any], None]) -> None:
        @T.prim_func
        def kernel(A: T.Tensor((8,), "int32")):
            with T.Kernel(1):
                local = T.alloc_local((8,), "int32")
                body(A, local)

    def kept(A: Any, local: Any) -> None:
        first, whole = T.address_of(local[2]), local.data
        local[2] = 1
        T.call_extern("int32", "f", first, whole)
        A[0] = local[2]

    def moved(A: Any, local: Any) -> None:
        place = T.address_of(A[local[0]])
        local[0] = 1
        T.call_extern("int32", "f", place)

    traced(kept)
    with pytest.raises(StaleValueError, match="local"):
        traced(moved)
