"""Random programs mean in a kernel what they mean in Python.

One source is run twice: as it is, by Python, where `VAR` gives the number itself, and traced, where it makes a
variable. Values stay small, so that int32 does not wrap.
"""

from __future__ import annotations

import linecache
import random
from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T

HEAD = """
@macro
def collatz(x):
    y = VAR(0)
    steps = VAR(0)
    y = x % 50 + 1
    while y > 1 and steps < 9:
        y = y // 2 if y % 2 == 0 else 3 * y + 1
        steps += 1
    return steps

@macro
def mix(x, y=3):
    z = x * 2 - y
    return z % 997

@prim_func
def kernel(A: Ints):
    with Kernel(1, threads=1):
        x = VAR(1)
        y = VAR(2)
        z = VAR(-3)
        w = VAR(0)
        buf = LOCAL(4)
"""


class Writer:
    """Writes a random program. Every stored value is taken modulo 997."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.temporaries = 0
        self.budget = 24

    def text(self) -> str:
        self.block(2, ["x", "y", "z"], loops=0)
        for position, name in enumerate("xyz"):
            self.write(2, f"A[{position}] = {name}")
        return HEAD + "\n".join(self.lines) + "\n"

    def write(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def value(self, names: list[str], depth: int = 2) -> str:
        if depth == 0 or self.random.random() < 0.2:
            return self.random.choice([*names, *names, str(self.random.randint(-9, 9)), self.place(names)])
        a, b = self.value(names, depth - 1), self.value(names, depth - 1)
        divisor = self.random.choice([-7, -3, 2, 5])
        forms = [
            f"({a} + {b})",
            f"({a} - {b})",
            f"({a} * {b} % 997)",
            f"({a} // {divisor})",
            f"({a} % {divisor})",
            f"-({a})",
            f"({a} if {self.condition(names, depth - 1)} else {b})",
            f"MAX({a}, {b})",
            f"({a} and {b})",
            f"({a} or {b})",
            f"mix({a}, y={b})",
        ]
        return self.random.choice(forms)

    def index(self, names: list[str]) -> str:
        return f"{self.random.choice(names)} + {self.random.randint(0, 7)}"

    def condition(self, names: list[str], depth: int = 1) -> str:
        a, b, c = (self.value(names, depth) for _ in range(3))
        forms = [
            f"{a} < {b}",
            f"{a} <= {b} < {c}",
            f"{a} != {b} and {c} > 0",
            f"{a} == {b} or not {c}",
            f"not ({a} >= {b})",
            f"{a} % 3",
            "True and x > y",
        ]
        return self.random.choice(forms)

    def block(self, depth: int, names: list[str], loops: int) -> None:
        for _ in range(self.random.randint(1, 4)):
            self.statement(depth, names, loops)

    def statement(self, depth: int, names: list[str], loops: int) -> None:
        self.budget -= 1
        choices = [self.store, self.assign, self.augment, self.swap, self.temporary, self.exchange, self.increase]
        if self.budget > 0 and depth < 6:
            choices += [self.branch, self.branch, self.unrolled, self.call]
            if loops < 2:
                choices += [self.loop, self.loop, self.repeat]
        self.random.choice(choices)(depth, names, loops)

    def place(self, names: list[str]) -> str:
        buffer, size = self.random.choice([("A", 8), ("A", 8), ("buf", 4)])
        return f"{buffer}[({self.index(names)}) % {size}]"

    def store(self, depth: int, names: list[str], loops: int) -> None:
        self.write(depth, f"{self.place(names)} = {self.value(names)} % 997")

    def exchange(self, depth: int, names: list[str], loops: int) -> None:
        a, b = self.place(names), self.place(names)
        self.write(depth, f"{a}, {b} = {b}, {a}")

    def increase(self, depth: int, names: list[str], loops: int) -> None:
        place = self.place(["x", "y"])
        self.write(depth, f"{place} += {self.value(names, 1)}")
        self.write(depth, f"{place} %= 997")

    def assign(self, depth: int, names: list[str], loops: int) -> None:
        self.write(depth, f"{self.random.choice('xyz')} = {self.value(names)} % 997")

    def augment(self, depth: int, names: list[str], loops: int) -> None:
        name = self.random.choice("xyz")
        self.write(depth, f"{name} {self.random.choice(['+=', '-='])} {self.value(names, 1)}")
        self.write(depth, f"{name} %= 997")

    def swap(self, depth: int, names: list[str], loops: int) -> None:
        a, b = self.random.sample("xyz", 2)
        self.write(depth, f"{a}, {b} = {b}, {a}")

    def temporary(self, depth: int, names: list[str], loops: int) -> None:
        self.temporaries += 1
        name = f"t{self.temporaries}"
        self.write(depth, f"{name} = {self.value(names)} % 997")
        self.statement(depth, [*names, name], loops)
        self.write(depth, f"A[{self.random.randint(3, 7)}] = {name}")

    def call(self, depth: int, names: list[str], loops: int) -> None:
        self.write(depth, f"A[{self.random.randint(3, 7)}] = collatz({self.value(names, 1)})")

    def branch(self, depth: int, names: list[str], loops: int) -> None:
        self.write(depth, f"if {self.condition(names)}:")
        self.block(depth + 1, names, loops)
        if self.random.random() < 0.4:
            self.write(depth, f"elif {self.condition(names)}:")
            self.block(depth + 1, names, loops)
        if self.random.random() < 0.5:
            self.write(depth, "else:")
            self.block(depth + 1, names, loops)

    def unrolled(self, depth: int, names: list[str], loops: int) -> None:
        self.temporaries += 1
        name = f"k{self.temporaries}"
        self.write(depth, f"for {name} in [1, 4]:")
        self.write(depth + 1, f"if {name} == {self.random.choice([1, 4, 9])}:")
        self.write(depth + 2, self.random.choice(["continue", "break", "pass"]))
        self.block(depth + 1, [*names, name], loops)

    def leave(self, depth: int, names: list[str]) -> None:
        if self.random.random() < 0.6:
            self.write(depth, f"if {self.condition(names)}:")
            self.write(depth + 1, self.random.choice(["break", "continue"]))

    def loop(self, depth: int, names: list[str], loops: int) -> None:
        self.temporaries += 1
        name = f"i{self.temporaries}"
        bounds = self.random.choice(["4", "1, 5", "6, 0, -2", "0, 7, 3", "x % 4", "y % 3, 5", "3, 3"])
        self.write(depth, f"for {name} in range({bounds}):")
        self.leave(depth + 1, [*names, name])
        self.block(depth + 1, [*names, name], loops + 1)
        self.leave(depth + 1, [*names, name])

    def repeat(self, depth: int, names: list[str], loops: int) -> None:
        self.temporaries += 1
        name = f"w{self.temporaries}"
        self.write(depth, f"{name} = VAR({self.random.randint(0, 4)})")
        self.write(depth, f"while {name} > 0 and ({self.condition(names)} or {name} > 1):")
        self.write(depth + 1, f"{name} -= 1")
        self.leave(depth + 1, [*names, name])
        self.block(depth + 1, [*names, name], loops + 1)


class NoKernel:
    """`T.Kernel` of the run in Python."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def execute(text: str, file: str, scope: dict[str, Any]) -> Any:
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), scope)
    return scope["kernel"]


def in_python(text: str, seed: int, values: list[int]) -> list[int]:
    scope = {
        "macro": lambda f: f,
        "prim_func": lambda f: f,
        "Kernel": lambda *a, **k: NoKernel(),
        "VAR": lambda v: v,
        "LOCAL": lambda n: [0] * n,
        "MAX": max,
        "Ints": None,
    }
    array = list(values)
    execute(text, f"<python {seed}>", scope)(array)
    return [int(value) for value in array]


def local(extent: int) -> Any:
    buffer = T.alloc_local((extent,), "int32")
    T.clear(buffer)
    return buffer


def traced(text: str, seed: int) -> Any:
    scope = {
        "macro": T.macro,
        "prim_func": T.prim_func,
        "Kernel": T.Kernel,
        "VAR": lambda v: T.alloc_var("int32", init=v),
        "LOCAL": local,
        "MAX": T.max,
        "Ints": T.Tensor((8,), "int32"),
    }
    return execute(text, f"<program {seed}>", scope)


@pytest.mark.parametrize("seed", range(60))
def test_random_program(seed: int) -> None:
    text = Writer(seed).text()
    values = [random.Random(seed).randint(-50, 50) for _ in range(8)]
    expected = in_python(text, seed, values)
    a = torch.tensor(values, dtype=torch.int32)
    tl.compile(traced(text, seed), target="interpret")(a)
    assert a.tolist() == expected, text
