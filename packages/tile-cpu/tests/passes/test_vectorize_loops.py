from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import tvm_ffi
from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ops.build import int32, parallel
from tile_core.passes.base import PassContext
from tile_cpu.llvm.features import facts_of
from tile_cpu.passes.vectorize_loops import VectorizeLoops
from tile_cpu.target import capabilities, parse_target

HOST = facts_of(capabilities(parse_target("cpu", {})))
MACHINES = {
    "host": HOST.__dict__,
    "no masks": {**HOST.__dict__, "masked": False},
    "narrow": {"vector_bytes": 16, "masked": False},
}


def f32(value):
    return tirx.FloatImm("float32", value)


def buffer(name, *shape, dtype="float32", scope="global"):
    return tirx.decl_buffer(shape, dtype, name, data_alignment=1, scope=scope)


def load(source, *indices):
    return tirx.BufferLoad(source, list(indices))


def store(target, value, *indices):
    return S.BufferStore(target, value, list(indices))


def guard(condition):
    return tirx.likely(condition)


def context(machine):
    return PassContext(None, SimpleNamespace(facts=MACHINES[machine]), None)


def vectorized(params, body, machine="host"):
    func = tirx.PrimFunc(params, body)
    made = context(machine)
    return VectorizeLoops()(func, made), made.report["vectorized_loops"]


def poisoned(*shape, dtype=torch.float32, pad=7):
    """A view into the middle of a larger tensor, so that a stray write shows."""
    count = 1
    for extent in shape:
        count *= extent
    whole = torch.full((count + 2 * pad,), 77, dtype=dtype)
    return whole, whole[pad : pad + count].view(*shape)


def untouched(whole, pad=7):
    return bool((whole[:pad] == 77).all() and (whole[-pad:] == 77).all())


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("n", [0, 1, 2, 7, 15, 16, 17, 31, 33, 64, 100, 1003])
def test_static_extent(build, machine, n):
    A, B = buffer("A", max(n, 1)), buffer("B", max(n, 1))
    body = parallel([int32(n)], lambda i: store(B, tirx.Add(load(A, *i), f32(1.0)), *i))
    func, _ = vectorized([A, B], body, machine)
    whole, out = poisoned(max(n, 1))
    source = torch.randn(max(n, 1))
    build(func)(source, out)
    assert torch.equal(out[:n], source[:n] + 1)
    assert untouched(whole)
    assert n or float(out[0]) == 77


@pytest.mark.parametrize("machine", MACHINES)
def test_dynamic_extent(build, machine):
    n = tirx.Var("n", "int32")
    A, B = buffer("A", n), buffer("B", n)
    body = parallel([n], lambda i: store(B, tirx.Add(load(A, *i), f32(1.0)), *i))
    func, widths = vectorized([A, B], body, machine)
    assert widths[0]["lanes"] == MACHINES[machine]["vector_bytes"] // 4
    run = build(func)
    for size in (0, 1, 5, 16, 17, 47, 257):
        whole, out = poisoned(size)
        source = torch.randn(size)
        run(source, out)
        assert torch.equal(out, source + 1)
        assert untouched(whole)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["int8", "bool", "float16", "float64", "int64", "uint8"])
def test_copies_of_every_width(build, machine, dtype):
    A, B = buffer("A", 3, 101, dtype=dtype), buffer("B", 3, 101, dtype=dtype)
    body = parallel([int32(3), int32(101)], lambda i: store(B, load(A, *i), *i))
    func, widths = vectorized([A, B], body, machine)
    source = (torch.rand(3, 101) * 100).to(getattr(torch, dtype))
    out = torch.zeros_like(source)
    build(func)(source, out)
    assert torch.equal(out, source)
    bits = 8 if dtype == "bool" else ir.PrimType(dtype).dtype.bits
    assert widths[0]["lanes"] == MACHINES[machine]["vector_bytes"] * 8 // bits


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (1, 1), (63, 65), (100, 10), (3, 200), (0, 5), (130, 129)])
def test_guarded_tile_copy(build, machine, rows, columns):
    """A 64x64 tile at every position of a tensor that tiles do not divide, out and back in with zeros."""
    m, n = tirx.Var("m", "int32"), tirx.Var("n", "int32")
    A, B = buffer("A", m, n), buffer("B", m, n)
    tile = buffer("tile", 64, 64, scope="local")
    by, bx = tirx.Var("by", "int32"), tirx.Var("bx", "int32")

    def read(i):
        row, column = by * 64 + i[0], bx * 64 + i[1]
        inside = tirx.And(guard(row < m), guard(column < n))
        return store(tile, tirx.if_then_else(inside, load(A, row, column), f32(5.0)), *i)

    def write(i):
        row, column = by * 64 + i[0], bx * 64 + i[1]
        return S.IfThenElse(tirx.And(guard(row < m), guard(column < n)), store(B, load(tile, *i), row, column), None)

    steps = [S.AllocBuffer(tile), parallel([int32(64), int32(64)], read), parallel([int32(64), int32(64)], write)]
    body = S.SeqStmt(steps)
    for var, extent in ((bx, n), (by, m)):
        body = S.For(var, int32(0), tirx.floordiv(extent + 63, 64), S.ForKind.SERIAL, body)
    func, widths = vectorized([A, B], body, machine)
    assert [entry["lanes"] > 1 for entry in widths] == [True, True]
    whole, out = poisoned(rows, columns)
    source = torch.randn(rows, columns)
    build(func)(source, out)
    assert torch.equal(out, source)
    assert untouched(whole)


@pytest.mark.parametrize("machine", MACHINES)
def test_padding_value_where_the_guard_fails(build, machine):
    A, B = buffer("A", 10), buffer("B", 40)
    body = parallel([int32(40)], lambda i: store(B, tirx.if_then_else(guard(i[0] < 10), load(A, *i), f32(-3.0)), *i))
    func, _ = vectorized([A, B], body, machine)
    source, out = torch.randn(10), torch.zeros(40)
    build(func)(source, out)
    assert torch.equal(out[:10], source)
    assert (out[10:] == -3).all()


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("low", [-20, -4, 0, 3])
def test_guard_from_below(build, machine, low):
    A, B = buffer("A", 50), buffer("B", 50)
    shift = tirx.Var("shift", "int32")

    def body(i):
        at = i[0] + shift
        inside = tirx.And(guard(at >= 0), guard(at < 50))
        return store(B, tirx.if_then_else(inside, load(A, at), f32(0.0)), *i)

    func, _ = vectorized([A, B, shift], parallel([int32(50)], body), machine)
    source, out = torch.randn(50), torch.zeros(50)
    build(func)(source, out, low)
    want = torch.zeros(50)
    for i in range(50):
        if 0 <= i + low < 50:
            want[i] = source[i + low]
    assert torch.equal(out, want)


@pytest.mark.parametrize("machine", MACHINES)
def test_condition_on_data(build, machine):
    """A branch on loaded values, with an else, whose first branch overwrites what the condition reads."""
    A, B = buffer("A", 37), buffer("B", 37)

    def body(i):
        positive = tirx.GT(load(A, *i), f32(0.0))
        then = S.SeqStmt([store(A, f32(-1.0), *i), store(B, f32(2.0), *i)])
        return S.IfThenElse(positive, then, store(B, load(A, *i), *i))

    func, _ = vectorized([A, B], parallel([int32(37)], body), machine)
    source = torch.randn(37)
    data, out = source.clone(), torch.full((37,), 9.0)
    build(func)(data, out)
    assert torch.equal(out, torch.where(source > 0, torch.tensor(2.0), source))
    assert torch.equal(data, torch.where(source > 0, torch.tensor(-1.0), source))


@pytest.mark.parametrize("machine", MACHINES)
def test_gather_and_integer_division(build, machine):
    """B[i, j] += A[i, j // 32] over (16, 448)."""
    A, B = buffer("A", 16, 14, dtype="int32"), buffer("B", 16, 448, dtype="int32")
    body = parallel(
        [int32(16), int32(448)],
        lambda i: store(B, tirx.Add(load(B, *i), load(A, i[0], tirx.floordiv(i[1], 32))), *i),
    )
    func, widths = vectorized([A, B], body, machine)
    assert widths[0]["lanes"] > 1
    a = torch.randint(-99, 99, (16, 14), dtype=torch.int32)
    b = torch.randint(-99, 99, (16, 448), dtype=torch.int32)
    out = b.clone()
    build(func)(a, out)
    assert torch.equal(out, b + a.repeat_interleave(32, dim=1))


@pytest.mark.parametrize("machine", MACHINES)
def test_division_by_data_stays_scalar_in_dead_lanes(build, machine):
    A, B = buffer("A", 21, dtype="int32"), buffer("B", 21, dtype="int32")
    body = parallel(
        [int32(21)],
        lambda i: store(
            B, tirx.if_then_else(tirx.NE(load(A, *i), int32(0)), tirx.truncdiv(int32(60), load(A, *i)), int32(0)), *i
        ),
    )
    func, widths = vectorized([A, B], body, machine)
    assert widths[0]["lanes"] == 1
    source = torch.tensor([0, 1, 2, 3, 4, 5, 6] * 3, dtype=torch.int32)
    out = torch.zeros(21, dtype=torch.int32)
    build(func)(source, out)
    assert out.tolist() == [0, 60, 30, 20, 15, 12, 10] * 3


@pytest.mark.parametrize("machine", MACHINES)
def test_one_address_for_all_iterations_stays_sequential(build, machine):
    """A variable written by every iteration and read back: D[i] = i * i."""
    D, cell = buffer("D", 50, dtype="int32"), buffer("cell", 1, dtype="int32", scope="local")
    body = parallel(
        [int32(50)],
        lambda i: S.SeqStmt([store(cell, i[0] * i[0], int32(0)), store(D, load(cell, int32(0)), *i)]),
    )
    func, widths = vectorized([D], S.SeqStmt([S.AllocBuffer(cell), body]), machine)
    assert widths[0]["lanes"] == 1
    out = torch.zeros(50, dtype=torch.int32)
    build(func)(out)
    assert out.tolist() == [i * i for i in range(50)]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("n", [16, 19])
def test_array_and_loop_inside_an_iteration(build, machine, n):
    """Each iteration sums a column with its own accumulator."""
    A, B = buffer("A", 9, n), buffer("B", n)
    total, k = buffer("total", 1, scope="local"), tirx.Var("k", "int32")

    def body(i):
        step = store(total, tirx.Add(load(total, int32(0)), load(A, k, *i)), int32(0))
        return S.SeqStmt(
            [
                S.AllocBuffer(total),
                store(total, f32(0.0), int32(0)),
                S.For(k, int32(0), int32(9), S.ForKind.SERIAL, step),
                store(B, load(total, int32(0)), *i),
            ]
        )

    func, widths = vectorized([A, B], parallel([int32(n)], body), machine)
    assert widths[0]["lanes"] > 1
    source, out = torch.randn(9, n), torch.zeros(n)
    build(func)(source, out)
    torch.testing.assert_close(out, source.sum(0))


@pytest.mark.parametrize("machine", MACHINES)
def test_outer_axis_is_consecutive(build, machine):
    """The vector axis is the one along which memory runs, wherever it stands in the nest."""
    A, B = buffer("A", 23, 37), buffer("B", 23, 37)
    body = parallel([int32(37), int32(23)], lambda i: store(B, tirx.Mul(load(A, i[1], i[0]), f32(2.0)), i[1], i[0]))
    func, widths = vectorized([A, B], body, machine)
    assert widths[0]["lanes"] > 1
    assert "T.Ramp(0, 37" not in func.script()
    source, out = torch.randn(23, 37), torch.zeros(23, 37)
    build(func)(source, out)
    assert torch.equal(out, source * 2)


@pytest.mark.parametrize("machine", MACHINES)
def test_transposing_store(build, machine):
    A, B = buffer("A", 23, 37), buffer("B", 37, 23)
    body = parallel([int32(23), int32(37)], lambda i: store(B, load(A, *i), i[1], i[0]))
    func, _ = vectorized([A, B], body, machine)
    source, out = torch.randn(23, 37), torch.zeros(37, 23)
    build(func)(source, out)
    assert torch.equal(out, source.T)


@pytest.mark.parametrize("machine", MACHINES)
def test_vectorized_loop_with_a_start(build, machine):
    A, B = buffer("A", 16), buffer("B", 16)
    i = tirx.Var("i", "int32")
    func, _ = vectorized([A, B], S.For(i, int32(4), int32(4), S.ForKind.VECTORIZED, store(B, load(A, i), i)), machine)
    source, out = torch.randn(16), torch.zeros(16)
    build(func)(source, out)
    assert torch.equal(out[4:8], source[4:8])
    assert not out[:4].any() and not out[8:].any()


@pytest.mark.parametrize("machine", MACHINES)
def test_vectorized_loop_that_reads_what_it_wrote(build, machine):
    A = buffer("A", 17)
    i = tirx.Var("i", "int32")
    step = store(A, tirx.Add(load(A, i), f32(1.0)), i + 1)
    func, widths = vectorized([A], S.For(i, int32(0), int32(16), S.ForKind.VECTORIZED, step), machine)
    assert widths[0]["lanes"] == 1
    data = torch.zeros(17)
    build(func)(data)
    assert data.tolist() == list(range(17))


def test_other_loops_are_left_alone():
    A = buffer("A", 16)
    i = tirx.Var("i", "int32")
    body = S.For(i, int32(0), int32(16), S.ForKind.SERIAL, store(A, f32(0.0), i))
    func, widths = vectorized([A], body)
    assert widths == []
    assert tvm_ffi.structural_equal(func.body, body)


def test_no_guard_in_the_main_loop():
    n = tirx.Var("n", "int32")
    A, B = buffer("A", n), buffer("B", n)
    body = parallel([int32(64)], lambda i: S.IfThenElse(guard(i[0] < n), store(B, load(A, *i), *i), None))
    func, _ = vectorized([A, B], body)
    main, rest = [stmt for stmt in func.body.seq if isinstance(stmt, S.For)]
    assert isinstance(main.body, S.BufferStore)
    assert ("masked_store" in str(rest)) == HOST.masked


@pytest.mark.parametrize("machine", MACHINES)
def test_division_by_a_scalar_is_division(build, machine):
    """Bit for bit: ordinary numbers, and every special dividend and divisor with every other."""
    A, B, D = buffer("A", 1 << 16), buffer("B", 1 << 16), buffer("D", 1)
    body = parallel([int32(1 << 16)], lambda i: store(B, tirx.Div(load(A, *i), load(D, int32(0))), *i))
    func, _ = vectorized([A, B, D], body, machine)
    run = build(func)
    values = torch.randn(1 << 16) * torch.exp2(torch.randint(-90, 90, (1 << 16,)).float())
    special = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1.0, -3.0, 3e38, 1e-45, -1e-40, 1e-30, 1e30]
    values[: len(special)] = torch.tensor(special)
    for divisor in [*special, 7.0, 1.0 / 3.0, *(torch.randn(20) * 1000).tolist()]:
        scalar, out = torch.tensor([divisor]), torch.zeros(1 << 16)
        run(values, out, scalar)
        want = values / scalar
        same = (out.view(torch.int32) == want.view(torch.int32)) | (out.isnan() & want.isnan())
        assert same.all(), (divisor, values[~same][:5], out[~same][:5], want[~same][:5])


@pytest.mark.parametrize("offset", [0, 1, 16])
def test_large_outputs_are_stored_past_the_caches(build, offset):
    n = 20_000
    A, B = buffer("A", n), buffer("B", n)
    body = parallel([int32(n)], lambda i: store(B, tirx.Add(load(A, *i), f32(1.0)), *i))
    func = VectorizeLoops(passing_bytes=4 * n)(tirx.PrimFunc([A, B], body), context("host"))
    assert ("tile_store_past" in func.script()) == (HOST.vector_bytes == 64)
    source, whole = torch.randn(n), torch.full((n + 32,), 77.0)
    build(func)(source, whole[offset : offset + n])
    assert torch.equal(whole[offset : offset + n], source + 1)
    assert (whole[:offset] == 77).all() and (whole[offset + n :] == 77).all()


def test_outputs_that_are_read_or_small_are_stored_as_usual():
    A, B = buffer("A", 64), buffer("B", 64)
    body = parallel([int32(64)], lambda i: store(B, tirx.Add(load(B, *i), load(A, *i)), *i))
    func = tirx.PrimFunc([A, B], body)
    for least in (0, 1 << 20):
        assert "tile_store_past" not in VectorizeLoops(passing_bytes=least)(func, context("host")).script()


@pytest.mark.parametrize("function", [tirx.rsqrt, tirx.asin, lambda x: tirx.atan2(x, f32(2.0))])
def test_a_function_of_what_no_lane_differs_in_is_a_scalar(build, function):
    A, scale, B = buffer("A", 100), buffer("scale", 1), buffer("B", 100)
    zero = int32(0)
    body = parallel([int32(100)], lambda i: store(B, tirx.Mul(load(A, *i), function(load(scale, zero))), *i))
    func, widths = vectorized([A, scale, B], body)
    assert [entry["lanes"] for entry in widths] == [HOST.lanes(32)]
    factor = torch.tensor([0.25])
    expected = {tirx.rsqrt: factor.rsqrt(), tirx.asin: factor.asin()}.get(function, factor.atan2(torch.tensor([2.0])))
    source, out = torch.randn(100), torch.full((100,), 7.0)
    build(func)(source, factor, out)
    torch.testing.assert_close(out, source * expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("machine", MACHINES)
def test_an_index_with_a_name(build, machine):
    n = tirx.Var("n", "int32")
    A, B = buffer("A", n), buffer("B", n)
    at, twice = tirx.Var("at", "int32"), tirx.Var("twice", "int32")

    def body(i):
        names = [S.Bind(at, i[0] + 3), S.Bind(twice, at * 2 - at)]
        inside = guard(tirx.LT(i[0] + 3, n))
        return S.SeqStmt([*names, S.IfThenElse(inside, store(B, tirx.Add(load(A, twice), f32(1.0)), at), None)])

    func, widths = vectorized([A, B], parallel([n], body), machine)
    assert widths[0]["lanes"] == MACHINES[machine]["vector_bytes"] // 4
    run = build(func)
    for size in (0, 1, 4, 19, 20, 257):
        whole, out = poisoned(size)
        source = torch.randn(size)
        run(source, out)
        assert torch.equal(out[3:], source[3:] + 1)
        assert bool((out[:3] == 77).all())
        assert untouched(whole)


def test_names_that_would_grow_without_bound_stay(build):
    A = buffer("A", 64, dtype="int32")
    names = [tirx.Var(f"a{level}", "int32") for level in range(40)]

    def body(i):
        values = [i[0], *(tirx.Add(name, name) for name in names)]
        binds = [S.Bind(name, value) for name, value in zip(names, values, strict=False)]
        return S.SeqStmt([*binds, store(A, names[-1], *i)])

    func, _ = vectorized([A], parallel([int32(64)], body))
    assert len(func.script()) < 20_000
    out = torch.ones(64, dtype=torch.int32)
    build(func)(out)
    assert not out.any()
