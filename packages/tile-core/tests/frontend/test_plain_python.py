"""Python that touches no device value means in a traced function what it means outside of one.

One body of statements is run twice, as a plain function and traced, and must record the same.
"""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest
import torch

import tile_core.language as T
from tile_core.errors import DeviceValueAsNumberError, IndexCountError

BODIES = {
    "assignments": """
a = b = [1, 2]
(c, *d), e = "xyz", 4
f, (g, h) = 1, (2, 3)
a[0], a[1] = a[1], a[0]
a[0:1] = [7, 8]
box.value = box.other = 3
box.value += 2
box.items["k"] = [1]
box.items["k"] += [2]
n: int = 5
n <<= 2
n //= 3
s = "ab"
s *= 2
record(a, b is a, c, d, e, f, g, h, box.value, box.other, box.items, n, s)
""",
    "deletion": """
x = {"a": 1, "b": 2}
del x["a"]
y = [1, 2, 3]
del y[1:], x["b"]
z = 1
del z
try:
    z
except NameError as error:
    record("gone", error is not None)
record(x, y)
""",
    "loops": """
out = []
for i, (k, v) in enumerate(sorted({"b": 2, "a": 1}.items())):
    if v == 2:
        continue
    out.append((i, k, v))
else:
    out.append("else")
for i in [1, 2, 3]:
    if i == 2:
        break
else:
    out.append("never")
for i in (x for x in (1, 2, 3, 4) if x % 2):
    for j in "ab":
        if j == "b":
            break
        out.append((i, j))
for a in zip([1, 2], "xy"):
    out.append(a)
for _ in []:
    pass
record(out, i, j, a)
""",
    "comprehensions": """
m = 3
rows = [[i * j for j in range(m) if j != i] for i in range(m)]
table = {k: v for k, v in zip("abc", range(3))}
unique = {x % 2 for x in range(5)}
total = sum(x * y for x in range(3) for y in range(x))
last = [w := x for x in range(4)][-1]
picked = [y for x in range(5) if (y := x * x) > 3]
record(rows, table, unique, total, last, w, picked, y)
""",
    "functions": """
add = lambda a, b=2, *c, d=4, **e: (a, b, c, d, e)
record(add(1), add(1, 3, 5, d=6, f=7), (lambda: m)() if (m := 9) else 0)
args, kwargs = [1, 2], {"d": 3}
record(add(*args, **kwargs), max(1, 2), min([3, 1]), abs(-2), bool([]), len("abc"), list(range(1, 6, 2)))
compose = lambda f, g: lambda x: f(g(x))
record(compose(lambda x: x + 1, lambda x: x * 2)(5))
""",
    "truth": """
record(None or [] or 0, 1 and "x", not [], not 1, 1 < 2 < 3 > 2, 1 < 5 < 3, 2 in [1, 2], 3 not in (1,), None is None)
record(1 if [] else 2, "a" if "b" else "c", (1 and 0) or "z", [] is not None, 1 == 1.0 != 2)
calls = []
false = lambda: calls.append("f") or False
true = lambda: calls.append("t") or True
record(false() and true(), true() or false(), false() or true(), 3 < (true() + 1) < true())
record(calls)
""",
    "exceptions": """
log = []
def_value = None
try:
    log.append("try")
    raise KeyError("k")
except (ValueError, KeyError) as error:
    log.append(repr(error))
else:
    log.append("else")
finally:
    log.append("finally")
try:
    value = 1
except ValueError:
    value = 2
else:
    value = 3
try:
    try:
        [][1]
    finally:
        log.append("inner")
except IndexError:
    log.append("outer")
try:
    raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
except* ValueError as group:
    log.append(len(group.exceptions))
except* TypeError:
    log.append("type")
record(log, value)
""",
    "managers": """
import contextlib, io
with contextlib.nullcontext(3) as three, contextlib.suppress(KeyError):
    {}["missing"]
with io.StringIO() as stream:
    stream.write("x")
    text = stream.getvalue()
with contextlib.ExitStack() as stack:
    stack.enter_context(contextlib.nullcontext())
record(three, text)
""",
    "match": """
def_out = []
for subject in (1, "s", [1, 2, 3], {"k": 5, "z": 6}, (0, 0), None, 2.5, box):
    match subject:
        case 1 | 2:
            found = "number"
        case str() as word if word == "s":
            found = word
        case [first, *rest] if rest and first:
            found = (first, rest)
        case {"k": inner, **others}:
            found = (inner, others)
        case (0, y):
            found = ("zero", y)
        case None:
            found = "none"
        case Box(value=v):
            found = ("box", v)
        case _:
            found = "other"
    def_out.append(found)
record(def_out)
""",
    "strings": """
name, width, value = "n", 6, 3.14159
record(f"{name!r:>{width}}|{value:.2f}|{value=:.1f}|{{}}", "a" "b", b"x" + b"y", f"{[i for i in range(2)]}")
record(rf"\\{name}")
record("%s-%d" % (name, width), name.upper(), "abc"[::-1], "abc"[-1], ..., 1_000, 0x1F, 1j * 1j)
""",
    "imports": """
import math, os.path as path
from collections import OrderedDict as Ordered, deque
record(math.floor(2.7), path.join("a", "b"), list(Ordered(a=1)), deque([1, 2])[1])
""",
    "conditions": """
kind = 3
if kind == 1:
    result = "one"
elif kind == 2:
    result = "two"
elif kind == 3:
    if box:
        result = "three"
    else:
        result = "never"
else:
    result = "many"
if result:
    pass
assert result, "message"
assert kind == 3
record(result)
""",
    "names": """
def_a = a = 1
a, b = a + 1, a
def_list = [a, b]
list_alias = def_list
list_alias.append(3)
type, id, locals_, use, at = 1, 2, 3, 4, 5
record(def_list, type + id, locals_ + use + at, [a for a in (9,)], a)
""",
    "unbound": """
if box:
    x = 1
else:
    y = 2
record(x)
try:
    record(y)
except NameError:
    record("unbound")
""",
}
PROGRAM = """
import tile_core.language as T
from tile_core.errors import DeviceValueAsNumberError

class Box:
    __match_args__ = ("value",)
    def __init__(self):
        self.value, self.other, self.items = 0, 0, {{}}

def plain(record, box):
{body}

@T.macro
def traced(record, box):
{body}

@T.prim_func
def kernel(A: T.Tensor((4,), "int32")):
    with T.Kernel(1):
        traced(recorded.append_all, Box())
"""


class Record:
    def __init__(self) -> None:
        self.values: list[str] = []

    def append_all(self, *values: Any) -> None:
        self.values += [repr(value) for value in values]


@pytest.mark.parametrize("name", BODIES)
def test_body(name: str) -> None:
    body = "\n".join("    " + line for line in BODIES[name].strip("\n").splitlines())
    text = PROGRAM.format(body=body)
    file = f"<plain {name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    recorded, expected = Record(), Record()
    scope: dict[str, Any] = {"__name__": "plain", "recorded": recorded}
    exec(compile(text, file, "exec"), scope)
    scope["plain"](expected.append_all, scope["Box"]())
    assert recorded.values == expected.values
    assert recorded.values
    assert isinstance(scope["kernel"], type(T.prim_func(_empty)))


def _empty(A: T.Tensor((4,), "int32")) -> None:
    pass


@pytest.mark.parametrize("function", [np.exp, torch.exp, torch.nn.functional.silu])
def test_functions_of_other_libraries_are_not_for_device_values(refused, function):
    with refused(DeviceValueAsNumberError, at="function(A[0])", naming=("T.exp",)):

        @T.prim_func
        def kernel(A: T.Tensor((8,), T.float32)):
            with T.Kernel(1, threads=32):
                A[1] = function(A[0])


@pytest.mark.parametrize("array", [np.zeros(8), torch.zeros(8)])
def test_arrays_of_other_libraries_are_not_indexed_by_device_values(refused, array):
    with refused(DeviceValueAsNumberError, at="A[i] = array[i]", naming=("pass",)):

        @T.prim_func
        def kernel(A: T.Tensor((8,), T.float32)):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(8):
                    A[i] = array[i]


def test_a_nest_binds_a_name_for_each_of_its_loops(refused):
    with refused(IndexCountError, at="A[i, 0] = 1", naming=("for i, j in",)):

        @T.prim_func
        def kernel(A: T.Tensor((8, 8), T.float32)):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(8, 8):
                    A[i, 0] = 1


def test_a_dict_is_not_looked_up_by_a_device_value(refused):
    table = {1: 2}
    with refused(DeviceValueAsNumberError, at="table[A[0]]", naming=("A[0]", "buffer")):

        @T.prim_func
        def kernel(A: T.Tensor((8,), T.int32)):
            with T.Kernel(1, threads=32):
                A[1] = table[A[0]]
