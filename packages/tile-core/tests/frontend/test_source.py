"""Where the source of a traced function comes from, and what cannot be traced."""

from __future__ import annotations

import linecache
import subprocess
import sys
import textwrap

import pytest
from tvm import tirx

import tile_core as tl
import tile_core.language as T
from tile_core.errors import NoBuilderError, SourceUnavailableError, UnsupportedSyntaxError


def registered(text: str, name: str) -> dict[str, object]:
    """Execute a program whose source is in linecache."""
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict[str, object] = {"__name__": "registered"}
    exec(compile(text, name, "exec"), scope)
    return scope


PROGRAM = """
import tile_core.language as T

@T.prim_func
def kernel(A: T.Tensor((8,), T.int32)):
    with T.Kernel(1, threads=32):
        for i in T.serial(8):
            A[i] = i
"""


def test_errors_in_code_without_source_have_a_place_and_no_line():
    with pytest.raises(NoBuilderError) as caught:
        exec(compile("import tile_core.language as T\nT.copy(1, 2)", "<gone>", "exec"), {})
    assert "  --> <gone>:2:1" in str(caught.value)
    assert "^" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("yield 1", ("yield",)),
        ("x = yield", ("yield",)),
        ("def inner(): pass", ("T.macro",)),
        ("class Inner: pass", ("class",)),
        ("global G", ("global",)),
        ("async def inner(): pass", ("async",)),
        ("x = 1 if A[0] > 0 else (y := 2)", (":=",)),
        ("x = A[0] > 0 and (y := 2)", (":=",)),
        ("while (y := A[0]) > 1: A[0] = y - 1", (":=",)),
    ],
)
def test_constructs_without_meaning(source, words):
    text = f"""
import tile_core.language as T

def kernel(A: T.Tensor((8,), T.int32)):
    with T.Kernel(1, threads=32):
        A[0] = 1
        {source}
"""
    kernel = registered(text, "refused.py")["kernel"]
    with pytest.raises((UnsupportedSyntaxError, tl.errors.StatementInExpressionError)) as caught:
        T.prim_func(kernel)
    assert caught.value.span is not None
    assert caught.value.span.line == 7
    assert caught.value.span.file == "refused.py"
    assert all(word in str(caught.value) for word in words)


def test_source_registered_in_linecache():
    text = PROGRAM
    assert isinstance(registered(text, "<my cell 1>")["kernel"], tirx.PrimFunc)


def test_source_that_is_not_available_says_what_to_do():
    with pytest.raises(SourceUnavailableError, match="linecache") as caught:
        exec(compile(PROGRAM, "<nowhere>", "exec"), {})
    assert "put the function in a file" in str(caught.value)


def test_source_from_the_command_line():
    program = PROGRAM + "print(kernel.attrs['global_symbol'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "kernel", done.stderr


def test_errors_on_the_command_line_show_the_line():
    program = PROGRAM.replace("A[i] = i", "A[i + 1.5] = i")
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "A[i + 1.5] = i" in done.stderr
    assert "TILE-E0108" in done.stderr


def test_source_from_a_doctest():
    import doctest

    text = textwrap.dedent("""
        >>> import tile_core.language as T
        >>> @T.prim_func
        ... def kernel(A: T.Tensor((8,), T.int32)):
        ...     with T.Kernel(1, threads=32):
        ...         A[0] = 1
        >>> kernel.attrs["global_symbol"]
        'kernel'
    """)
    test = doctest.DocTestParser().get_doctest(text, {}, "example", None, 0)
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(test)
    assert runner.failures == 0


def test_a_source_edited_after_its_import_is_refused():
    scope: dict[str, object] = {"__name__": "edited"}
    text = PROGRAM.replace("@T.prim_func\n", "\n")
    exec(compile(text, "edited.py", "exec"), scope)
    changed = text.replace("A[i] = i", "A[i] = i; j = i")
    linecache.cache["edited.py"] = (len(changed), None, changed.splitlines(True), "edited.py")
    with pytest.raises(SourceUnavailableError, match="import it again"):
        T.prim_func(scope["kernel"])


def test_one_source_traced_twice():
    text = PROGRAM.replace("A[i] = i", "A[i] = 1 if i > 3 and A[i] > 0 or not A[i] else 2")
    first, second = registered(text, "twice.py")["kernel"], registered(text, "twice.py")["kernel"]
    assert str(first) == str(second)


def test_threads_trace_one_function_at_once():
    from concurrent.futures import ThreadPoolExecutor

    text = PROGRAM.replace("@T.prim_func\n", "\n").replace(
        "A[i] = i", "A[i] = 1 if A[i] > 0 and i > 2 or i == 7 else 2"
    )
    for attempt in range(3):
        kernel = registered(text, f"threads{attempt}.py")["kernel"]
        with ThreadPoolExecutor(8) as pool:
            programs = set(map(str, pool.map(T.prim_func, [kernel] * 16)))
        assert len(programs) == 1
