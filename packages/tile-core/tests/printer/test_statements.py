"""Printed statements: structure, scopes, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm.ir.prim.expr as P
from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors import UnprintableError
from tile_core.ir.launch import Launch
from tile_core.passes.unroll_loops import UNROLL_FACTOR
from tile_core.printer import print_function
from tile_core.printer.c import C

SPAN = ir.Span(ir.SourceName("/somewhere/kernel.py"), 12, 12, 4, 20)


def imm(value: int) -> Any:
    return tirx.IntImm("int32", value)


def loop(var: Any, extent: Any, body: Any, kind: S.ForKind = S.ForKind.SERIAL, start: int = 0, **options: Any) -> Any:
    return S.For(var, imm(start), extent if not isinstance(extent, int) else imm(extent), kind, body, **options)


def launch(grid: list[Any], extents: list[Any], body: Any) -> Any:
    threads = tuple(tirx.Var(f"t{axis}", "int32") for axis in "xyz")
    return Launch(tuple(grid), tuple(extents), threads, (1, 1, 1), False, "", (1, 1, 1), body).to_stmt(), threads


def text(params: list[Any], body: Any, **options: Any) -> str:
    return print_function(tirx.PrimFunc(params, body).with_attr("global_symbol", "run"), C, **options).source


I, J, N = (tirx.Var(name, "int32") for name in "ijn")
OUT = tirx.decl_buffer((16,), "int32", "out")


def store(value: Any, index: Any) -> Any:
    return S.BufferStore(OUT, value, [index])


def test_a_whole_function_reads_like_c() -> None:
    a = tirx.decl_buffer((N, 8), "float32", "A")
    tile = tirx.decl_buffer((8,), "float32", "tile", scope="shared.dyn")
    total = tirx.decl_buffer((1,), "float32", "total", scope="local.var")
    bx = tirx.Var("bx", "int32")
    body = S.SeqStmt(
        [
            S.AllocBuffer(tile),
            S.AllocBuffer(total),
            S.BufferStore(total, tirx.FloatImm("float32", 0.0), [imm(0)]),
            loop(I, 8, S.BufferStore(tile, tirx.BufferLoad(a, [bx, I]), [I]), S.ForKind.PARALLEL),
            loop(
                I,
                8,
                S.BufferStore(total, P.Add(tirx.BufferLoad(total, [imm(0)]), tirx.BufferLoad(tile, [I])), [imm(0)]),
            ),
            S.IfThenElse(
                P.LT(bx, imm(3)),
                S.BufferStore(a, tirx.BufferLoad(total, [imm(0)]), [bx, imm(0)]),
                S.IfThenElse(
                    P.EQ(bx, imm(5)), S.Evaluate(imm(0)), S.BufferStore(a, tirx.FloatImm("float32", 1), [bx, imm(1)])
                ),
            ),
        ]
    )
    nest, _ = launch([bx], [N], body)
    assert text([a], nest).split("\n\n", 1)[1] == (
        "void run_kernel(float* A, int32_t n) {\n"
        "  for (int32_t bx = 0; bx < n; ++bx) {\n"
        "    float tile[8];\n"
        "    float total;\n"
        "    total = 0.0f;\n"
        "    for (int32_t i = 0; i < 8; ++i) {\n"
        "      tile[i] = A[(int64_t)bx * 8 + i];\n"
        "    }\n"
        "    for (int32_t i = 0; i < 8; ++i) {\n"
        "      total = total + tile[i];\n"
        "    }\n"
        "    if (bx < 3) {\n"
        "      A[(int64_t)bx * 8] = total;\n"
        "    } else if (bx == 5) {\n"
        "    } else {\n"
        "      A[(int64_t)bx * 8 + 1] = 1.0f;\n"
        "    }\n"
        "  }\n"
        "}\n"
    )


def test_source_lines_on_request() -> None:
    body = S.SeqStmt([S.BufferStore(OUT, imm(1), [imm(0)], SPAN), S.BufferStore(OUT, imm(2), [imm(1)], SPAN)])
    assert "out[0] = 1;  // kernel.py:12\n  out[1] = 2;\n" in text([OUT], body, source_lines=True)
    assert "//" not in text([OUT], body)


def test_grid_runs_x_fastest(run_c: Any) -> None:
    x, y = tirx.Var("bx", "int32"), tirx.Var("by", "int32")
    counter = tirx.decl_buffer((1,), "int32", "counter")
    count = tirx.BufferLoad(counter, [imm(0)])
    body = S.SeqStmt(
        [store(P.Add(P.Mul(y, imm(10)), x), count), S.BufferStore(counter, P.Add(count, imm(1)), [imm(0)])]
    )
    nest, _ = launch([x, y], [imm(3), imm(2)], body)
    result = np.full(16, -1, np.int32)
    run_c(print_function(tirx.PrimFunc([OUT, counter], nest), C), result, np.zeros(1, np.int32))
    assert result[:7].tolist() == [0, 1, 2, 10, 11, 12, -1]


def test_loop_bounds_are_read_once(run_c: Any) -> None:
    bound = tirx.BufferLoad(OUT, [imm(15)])
    body = loop(I, bound, S.SeqStmt([store(imm(7), I), store(imm(1), imm(15))]))
    result = np.zeros(16, np.int32)
    result[15] = 4
    run_c(print_function(tirx.PrimFunc([OUT], body), C), result)
    assert result.tolist() == [7, 7, 7, 7, *[0] * 11, 1]


def test_start_step_break_continue_while(run_c: Any) -> None:
    stop = S.IfThenElse(P.GE(I, imm(9)), S.Break(), None)
    skip = S.IfThenElse(P.EQ(I, imm(5)), S.Continue(), None)
    stepped = loop(I, 20, S.SeqStmt([stop, skip, store(I, I)]), start=1, step=imm(2))
    first = tirx.BufferLoad(OUT, [imm(0)])
    counted = S.While(P.LT(first, imm(6)), store(P.Add(first, imm(1)), imm(0)))
    result = np.zeros(16, np.int32)
    run_c(print_function(tirx.PrimFunc([OUT], S.SeqStmt([stepped, counted])), C), result)
    assert result.tolist() == [6, 1, 0, 3, 0, 0, 0, 7, *[0] * 8]


def test_names_are_made_legal_and_never_shadow(run_c: Any) -> None:
    keyword, function = tirx.Var("double", "int32"), tirx.Var("sqrtf", "int32")
    inner = tirx.Var("i", "int32")
    bound = tirx.Var("floordiv_int32", "int32")
    value = P.Add(P.Mul(I, imm(4)), P.FloorDiv(P.Sub(inner, bound), imm(2)))
    nest = loop(
        I,
        2,
        S.SeqStmt(
            [S.Bind(bound, P.Sub(keyword, function)), loop(inner, 2, store(value, P.Add(P.Mul(I, imm(2)), inner)))]
        ),
    )
    result = np.zeros(16, np.int32)
    run_c(print_function(tirx.PrimFunc([OUT, keyword, function], nest), C), result, 5, 2)
    assert result[:4].tolist() == [-2, -1, 2, 3]


def test_an_empty_extent_runs_nothing(run_c: Any) -> None:
    result = np.full(16, -1, np.int32)
    run_c(print_function(tirx.PrimFunc([OUT], loop(I, 0, store(I, I))), C), result)
    assert (result == -1).all()


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (lambda: store(tirx.Var("ghost", "int32"), imm(0)), "ghost"),
        (lambda: S.BufferStore(OUT, P.Broadcast(imm(1), 4), [P.Ramp(imm(0), imm(1), 4)]), "store of int32x4"),
        (lambda: store(tirx.call_extern("int32", "f", imm(1)), imm(0)), "call_extern"),
        (lambda: S.AttrStmt(OUT, "some.attr", imm(1), store(imm(1), imm(0))), "some.attr"),
        (lambda: S.AllocBuffer(tirx.decl_buffer((4,), "int32", "T", scope="wmma.matrix_a")), "wmma.matrix_a"),
        (lambda: S.AllocBuffer(tirx.decl_buffer((N,), "int32", "T", scope="local")), "T, whose extent n"),
        (lambda: S.AllocBuffer(tirx.decl_buffer((4,), "float8_e4m3fn", "T", scope="local")), "float8_e4m3fn"),
        (lambda: S.AssertStmt(P.LT(N, imm(1)), ir.StringImm("ValueError"), [ir.StringImm("no")]), "AssertStmt"),
        (lambda: loop(I, 4, store(I, I), step=imm(-1)), "step is -1"),
        (
            lambda: store(P.Cast("int32", P.Max(tirx.FloatImm("float32", 1), tirx.FloatImm("float32", 2))), imm(0)),
            "NaN",
        ),
        (
            lambda: store(
                P.Cast("int32", P.FloorDiv(tirx.FloatImm("float32", 1), tirx.FloatImm("float32", 2))), imm(0)
            ),
            "FloorDiv",
        ),
    ],
)
def test_what_the_language_lacks_is_refused_with_target_and_line(body: Any, named: str) -> None:
    nest = loop(J, 1, body(), span=SPAN)
    with pytest.raises(UnprintableError) as caught:
        print_function(tirx.PrimFunc([OUT, N], nest), C, target="toy")
    assert named in caught.value.message
    assert "C for target toy" in caught.value.message
    assert caught.value.span is not None
    assert (caught.value.span.file, caught.value.span.line) == ("/somewhere/kernel.py", 12)


def test_a_thread_index_is_refused_where_blocks_have_no_threads() -> None:
    threads = tuple(tirx.Var(f"t{axis}", "int32") for axis in "xyz")
    body = store(threads[0], imm(0))
    nest = Launch((I,), (imm(1),), threads, (32, 1, 1), True, "", (1, 1, 1), body).to_stmt()
    with pytest.raises(UnprintableError, match="thread index x"):
        text([OUT], nest)


def test_a_language_is_extended_by_tables() -> None:
    other = C.extend(
        "Other",
        types={"int32": "int"},
        scopes={"shared": "SHARED"},
        loops={int(S.ForKind.UNROLLED): "#pragma unroll"},
        function="KERNEL {name}({parameters})",
    )
    tile = tirx.decl_buffer((4,), "int32", "tile", scope="shared")
    body = S.SeqStmt([S.AllocBuffer(tile), loop(I, 4, store(I, I), S.ForKind.UNROLLED)])
    source = print_function(tirx.PrimFunc([OUT], body).with_attr("global_symbol", "run"), other).source
    assert source.endswith(
        "KERNEL run_kernel(int* out) {\n"
        "  SHARED int tile[4];\n"
        "#pragma unroll\n"
        "  for (int i = 0; i < 4; ++i) {\n"
        "    out[i] = i;\n"
        "  }\n"
        "}\n"
    )
    assert C.types["int32"] == "int32_t"


@pytest.mark.parametrize("line", ["#pragma unroll", "#pragma unroll 16"])
def test_the_authors_factor_replaces_the_languages(line: str) -> None:
    other = C.extend("Other", loops={int(S.ForKind.UNROLLED): line})
    annotations = {UNROLL_FACTOR: imm(3)}
    unrolled = S.For(I, imm(0), imm(4), S.ForKind.UNROLLED, store(I, I), annotations=annotations)
    assert "#pragma unroll 3\n  for" in print_function(tirx.PrimFunc([OUT], unrolled), other).source


def test_a_parameter_that_the_language_lacks_is_refused_with_a_line() -> None:
    factor = tirx.Var("factor", "float8_e5m2")
    with pytest.raises(UnprintableError, match="dtype float8_e5m2 of parameter factor") as caught:
        print_function(tirx.PrimFunc([OUT, N, factor], loop(J, 1, store(imm(0), imm(0)), span=SPAN)), C)
    assert caught.value.span is not None
