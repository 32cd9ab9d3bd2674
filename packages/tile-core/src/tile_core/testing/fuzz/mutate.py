"""Mutations of a program's syntax tree, each chosen from those that apply.

They change what a kernel author changes: statements are dropped, repeated, moved in and out of loops and branches;
names, numbers, dtypes, operators, loops and functions are exchanged for their like. Outside of kernels only numbers
change, because what stands there is not compiled.
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

DECORATORS = ("prim_func", "macro", "jit")
NUMBERS = (-1, 0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 32, 48, 64, 100)
FAR_NUMBERS = (-(2**31), 127, 128, 255, 256, 1000, 4096, 2**31 - 1, 2**31, 2**40, 0.5, -1.5, 1e30, 1e300)
DTYPES = (
    *("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", "bool", "float8_e4m3fn", "float8_e5m2", "int4", "float4_e2m1fn"),
)
# Names of the language that stand for one another: each mutation takes another of the same group.
GROUPS: tuple[tuple[str, ...], ...] = (
    ("Parallel", "serial", "unroll", "vectorized", "Pipelined", "grid"),
    ("alloc_shared", "alloc_fragment", "alloc_local"),
    ("reduce_sum", "reduce_max", "reduce_min", "reduce_absmax", "reduce_abssum", "reduce_bitand", "reduce_bitor"),
    ("max", "min", "pow", "truncdiv", "truncmod", "floordiv", "floormod", "fmod", "ceildiv", "bitwise_and"),
    ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "sigmoid", "abs", "floor", "ceil", "round", "erf", "sin"),
    ("if_then_else", "Select"),
    ("copy", "transpose", "atomic_add", "atomic_max", "atomic_min"),
    ("cumsum", "cummax"),
    ("clear", "fill"),
    ("any_of", "all_of"),
    ("infinity", "max_value", "min_value"),
    ("view", "reshape"),
)
KEYWORDS = ("dim", "clear", "reverse", "num_stages", "threads", "init", "transpose_A", "transpose_B", "clear_accum")
_BINARY: tuple[type[ast.operator], ...] = (
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow),
    *(ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr, ast.BitXor),
)
_COMPARE: tuple[type[ast.cmpop], ...] = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In)
Block = list[ast.stmt]


@dataclass
class Places:
    """Where a tree can be mutated. Blocks are lists of statements inside of kernels."""

    blocks: list[Block] = field(default_factory=list)
    nodes: list[ast.AST] = field(default_factory=list)
    host: list[ast.AST] = field(default_factory=list)

    def of(self, *kinds: type[ast.AST]) -> list[ast.AST]:
        """The nodes of these kinds in kernels."""
        return [node for node in self.nodes if isinstance(node, kinds)]


def places(tree: ast.Module) -> Places:
    """The places of a tree."""
    found = Places()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(_is_traced(each) for each in node.decorator_list):
            found.nodes += [inner for part in (node.args, *node.body) for inner in ast.walk(part)]
            found.blocks += _blocks(node)
    inside = {id(node) for node in found.nodes}
    found.host = [
        node
        for stmt in ast.walk(tree)
        if isinstance(stmt, ast.Assign | ast.For)
        for node in ast.walk(stmt.value if isinstance(stmt, ast.Assign) else stmt.iter)
        if isinstance(node, ast.Constant) and type(node.value) is int and id(node) not in inside
    ]
    return found


def _is_traced(decorator: ast.expr) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(target, ast.Attribute) and target.attr in DECORATORS


def _blocks(root: ast.AST) -> Iterator[Block]:
    for node in ast.walk(root):
        for name in ("body", "orelse"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block


def mutated(text: str, rng: random.Random) -> str:
    """`text` after one to four mutations."""
    tree = ast.parse(text)
    _shuffle_cases(tree, rng)
    wanted = rng.choices((1, 2, 3, 4), (5, 4, 2, 1))[0]
    kinds, weights = tuple(MUTATIONS), tuple(MUTATIONS.values())
    original = ast.dump(tree)
    while wanted > 0 or ast.dump(tree) == original:
        if rng.choices(kinds, weights)[0](places(tree), rng):
            wanted -= 1
    return ast.unparse(ast.fix_missing_locations(tree))


def _shuffle_cases(tree: ast.Module, rng: random.Random) -> None:
    """Host loops over tuples of cases begin with any of them, since only the first calls are observed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For) and isinstance(node.iter, ast.Tuple):
            rng.shuffle(node.iter.elts)


def _drop(at: Places, rng: random.Random) -> bool:
    block = rng.choice(at.blocks)
    block.pop(rng.randrange(len(block)))
    if not block:
        block.append(ast.Pass())
    return True


def _repeat(at: Places, rng: random.Random) -> bool:
    block = rng.choice(at.blocks)
    block.insert(rng.randrange(len(block) + 1), copy.deepcopy(rng.choice(block)))
    return True


def _swap(at: Places, rng: random.Random) -> bool:
    block = rng.choice(at.blocks)
    first, second = rng.randrange(len(block)), rng.randrange(len(block))
    block[first], block[second] = block[second], block[first]
    return first != second


def _move(at: Places, rng: random.Random) -> bool:
    """A statement goes to another block."""
    source, target = rng.choice(at.blocks), rng.choice(at.blocks)
    position = rng.randrange(len(source))
    stmt = source[position]
    if source is target or any(each is block for each in _blocks(stmt) for block in (target,)):
        return False
    source[position] = ast.Pass()
    target.insert(rng.randrange(len(target) + 1), stmt)
    return True


def _wrap(at: Places, rng: random.Random) -> bool:
    """Statements get a loop or a branch around them."""
    block = rng.choice(at.blocks)
    first = rng.randrange(len(block))
    last = rng.randrange(first, len(block)) + 1
    header = rng.choice(
        (
            f"for w in T.serial({rng.choice((0, 1, 2, 3))}): pass",
            "for w in range(2): pass",
            f"for w in T.Parallel({rng.choice((1, 2, 8))}): pass",
            "for w in T.unroll(2): pass",
            "for w in (0, 1): pass",
            f"for w in T.Pipelined(3, num_stages={rng.choice((0, 2))}): pass",
            f"if {_condition(at, rng)}: pass",
            f"if {_condition(at, rng)}: pass\nelse: A = A",
            f"while {_condition(at, rng)}: pass",
        )
    )
    outer = ast.parse(header).body[0]
    assert isinstance(outer, ast.For | ast.If | ast.While)
    outer.body = block[first:last]
    block[first:last] = [outer]
    return True


def _condition(at: Places, rng: random.Random) -> str:
    exprs = [node for node in at.of(ast.Compare, ast.Subscript, ast.Name) if isinstance(node, ast.expr)]
    chosen = ast.unparse(rng.choice(exprs)) if exprs else "True"
    return chosen if rng.random() < 0.5 else f"{chosen} > {rng.choice(NUMBERS)}"


def _unwrap(at: Places, rng: random.Random) -> bool:
    """A loop or a branch gives way to its body."""
    block = rng.choice(at.blocks)
    positions = [position for position, stmt in enumerate(block) if isinstance(stmt, ast.For | ast.If | ast.While)]
    if not positions:
        return False
    position = rng.choice(positions)
    stmt = block[position]
    assert isinstance(stmt, ast.For | ast.If | ast.While)
    block[position : position + 1] = stmt.body
    return True


def _leave(at: Places, rng: random.Random) -> bool:
    """A `break`, `continue` or `return` appears."""
    block = rng.choice(at.blocks)
    stmt: ast.stmt = rng.choice((ast.Break(), ast.Continue(), ast.Return()))
    if rng.random() < 0.5:
        stmt = ast.If(ast.parse(_condition(at, rng), mode="eval").body, [stmt], [])
    block.insert(rng.randrange(len(block) + 1), stmt)
    return True


def _number(at: Places, rng: random.Random) -> bool:
    found = [node for node in at.of(ast.Constant) if isinstance(node, ast.Constant) and _is_number(node.value)]
    if not found:
        return False
    chosen = rng.choice(found)
    old = chosen.value
    near = (old + 1, old - 1, old * 2, -old) if isinstance(old, int | float) else ()
    chosen.value = rng.choice((*NUMBERS, *near, *near, *near)) if rng.random() < 0.9 else rng.choice(FAR_NUMBERS)
    return chosen.value != old


def _host_number(at: Places, rng: random.Random) -> bool:
    found = [node for node in at.host if isinstance(node, ast.Constant)]
    if not found:
        return False
    chosen = rng.choice(found)
    assert isinstance(chosen.value, int)
    small = [number for number in NUMBERS if number >= 0]
    chosen.value = rng.choice((*small, chosen.value + 1, max(0, chosen.value - 1)))
    return True


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _dtype(at: Places, rng: random.Random) -> bool:
    found = [
        node
        for node in at.nodes
        if (isinstance(node, ast.Attribute) and node.attr in DTYPES)
        or (isinstance(node, ast.Constant) and node.value in DTYPES and isinstance(node.value, str))
    ]
    if not found:
        return False
    chosen = rng.choice(found)
    if isinstance(chosen, ast.Attribute):
        chosen.attr = rng.choice(DTYPES)
    else:
        assert isinstance(chosen, ast.Constant)
        chosen.value = rng.choice(DTYPES)
    return True


def _every_dtype(at: Places, rng: random.Random) -> bool:
    """One dtype becomes another everywhere."""
    found = [node for node in at.of(ast.Attribute) if isinstance(node, ast.Attribute) and node.attr in DTYPES]
    if not found:
        return False
    old, new = rng.choice(found).attr, rng.choice(DTYPES)
    for node in found:
        if node.attr == old:
            node.attr = new
    return True


def _rename(at: Places, rng: random.Random) -> bool:
    names = [node for node in at.of(ast.Name) if isinstance(node, ast.Name) and node.id != "T"]
    if not names:
        return False
    rng.choice(names).id = rng.choice(names).id
    return True


def _operator(at: Places, rng: random.Random) -> bool:
    found = at.of(ast.BinOp, ast.AugAssign, ast.Compare, ast.UnaryOp, ast.BoolOp)
    if not found:
        return False
    chosen = rng.choice(found)
    if isinstance(chosen, ast.BinOp | ast.AugAssign):
        chosen.op = rng.choice(_BINARY)()
    elif isinstance(chosen, ast.Compare):
        chosen.ops[rng.randrange(len(chosen.ops))] = rng.choice(_COMPARE)()
    elif isinstance(chosen, ast.UnaryOp):
        chosen.op = rng.choice((ast.USub(), ast.Not(), ast.Invert()))
    elif isinstance(chosen, ast.BoolOp):
        chosen.op = rng.choice((ast.And(), ast.Or()))
    return True


def _like(at: Places, rng: random.Random) -> bool:
    """A name of the language becomes another of its group."""
    pairs = [
        (node, group)
        for node in at.of(ast.Attribute)
        for group in GROUPS
        if isinstance(node, ast.Attribute) and node.attr in group
    ]
    if not pairs:
        return False
    node, group = rng.choice(pairs)
    assert isinstance(node, ast.Attribute)
    node.attr = rng.choice(group)
    return True


def _index(at: Places, rng: random.Random) -> bool:
    """One index of an access changes, or becomes a slice."""
    found = [node for node in at.of(ast.Subscript) if isinstance(node, ast.Subscript)]
    if not found:
        return False
    chosen = rng.choice(found)
    parts = list(chosen.slice.elts) if isinstance(chosen.slice, ast.Tuple) else [chosen.slice]
    if not parts:
        return False
    position = rng.randrange(len(parts))
    old = parts[position]
    shift = ast.Constant(rng.choice((-2, -1, 1, 2, 8)))
    if isinstance(old, ast.Slice):
        changed: ast.expr = rng.choice(
            (ast.Slice(old.lower, None), ast.Slice(None, old.upper), ast.Slice(), old.lower or ast.Constant(0))
        )
    else:
        changed = rng.choice(
            (
                ast.BinOp(old, ast.Add(), shift),
                ast.BinOp(old, ast.Mult(), shift),
                ast.Constant(rng.choice(NUMBERS)),
                ast.Slice(old, ast.BinOp(old, ast.Add(), ast.Constant(rng.choice(NUMBERS)))),
                ast.Slice(),
                rng.choice(parts),
            )
        )
    parts[position] = changed
    if rng.random() < 0.1:
        parts.pop(rng.randrange(len(parts)))
    chosen.slice = parts[0] if len(parts) == 1 else ast.Tuple(parts, ast.Load())
    return True


def _arguments(at: Places, rng: random.Random) -> bool:
    found = [node for node in at.of(ast.Call) if isinstance(node, ast.Call) and node.args]
    if not found:
        return False
    chosen = rng.choice(found)
    if rng.random() < 0.6 and len(chosen.args) > 1:
        rng.shuffle(chosen.args)
    elif rng.random() < 0.5:
        chosen.args.pop(rng.randrange(len(chosen.args)))
    else:
        chosen.args.append(copy.deepcopy(rng.choice(chosen.args)))
    return True


def _keyword(at: Places, rng: random.Random) -> bool:
    found = [node for node in at.of(ast.Call) if isinstance(node, ast.Call)]
    if not found:
        return False
    chosen = rng.choice(found)
    if chosen.keywords and rng.random() < 0.6:
        keyword = rng.choice(chosen.keywords)
        if rng.random() < 0.5:
            chosen.keywords.remove(keyword)
        else:
            keyword.value = ast.Constant(rng.choice((True, False, None, 0, 1, -1, 2, 3, 33, 64, "float16")))
        return True
    value = ast.Constant(rng.choice((True, False, 0, 1, 2, 64)))
    chosen.keywords.append(ast.keyword(rng.choice(KEYWORDS), value))
    return True


def _splice(at: Places, rng: random.Random) -> bool:
    """An expression becomes another one of the program."""
    exprs = [node for node in at.nodes if isinstance(node, ast.BinOp | ast.Subscript | ast.Name | ast.Call)]
    targets = [node for node in at.nodes if isinstance(node, ast.BinOp | ast.Assign | ast.Call | ast.If)]
    if not exprs or not targets:
        return False
    chosen, made = rng.choice(targets), copy.deepcopy(rng.choice(exprs))
    if hasattr(made, "ctx"):
        made.ctx = ast.Load()
    if isinstance(chosen, ast.BinOp):
        setattr(chosen, rng.choice(("left", "right")), made)
    elif isinstance(chosen, ast.Assign):
        chosen.value = made
    elif isinstance(chosen, ast.If):
        chosen.test = made
    elif isinstance(chosen, ast.Call) and chosen.args:
        chosen.args[rng.randrange(len(chosen.args))] = made
    return True


MUTATIONS: dict[Callable[[Places, random.Random], bool], int] = {
    _drop: 6,
    _repeat: 4,
    _swap: 5,
    _move: 6,
    _wrap: 8,
    _unwrap: 3,
    _leave: 2,
    _number: 10,
    _host_number: 6,
    _dtype: 8,
    _every_dtype: 4,
    _rename: 6,
    _operator: 8,
    _like: 8,
    _index: 8,
    _arguments: 4,
    _keyword: 4,
    _splice: 8,
}
"""Each mutation and how often it is tried. It says whether it changed anything."""
