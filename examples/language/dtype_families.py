"""The data types: the families and sizes of all names, and conversions through a kernel.

    python examples/language/dtype_families.py [--target TARGET] [--figures DIR]

The table behind the language is data, `dtypes.yaml`. Its names and the names that the language exports are the same:
the difference is empty both ways. All codes of the 8-bit floats that torch has are then converted on the target, and
compared with torch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from harness import Options, draw, options

import tile_core as tl
import tile_core.language as T
from tile_core.dtypes import EXPORTED_NAMES, DType
from tile_core.dtypes.generate import load
from tile_core.errors import TileError

SMALL = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")


def names_of_the_table() -> set[str]:
    """Every name that `dtypes.yaml` says is exported: aliases, types, and their vectors."""
    data = load()
    found = set(data["aliases"])
    for name, entry in data["types"].items():
        if not entry.get("exported", True):
            continue
        vectors = entry.get("vectors", ())
        lanes = data["all_lanes"] if vectors == "all" else vectors
        found |= {name, *(f"{name}x{count}" for count in lanes)}
    return found


def table() -> None:
    exported = set(EXPORTED_NAMES)
    families: dict[str, list[DType]] = defaultdict(list)
    for name in EXPORTED_NAMES:
        families[DType(name).family].append(DType(name))
    print(f"{'family':<18}{'names':>6}  scalars (bits)")
    for family, members in families.items():
        scalars = sorted({each for each in members if each.lanes == 1}, key=lambda each: (each.bits, each.name))
        print(f"{family:<18}{len(members):>6}  {', '.join(f'{each.name} ({each.bits})' for each in scalars)}")
    missing, extra = names_of_the_table() - exported, exported - names_of_the_table()
    print(f"\n{len(exported)} names")
    print(f"in the table only: {sorted(missing) or 'none'}; exported only: {sorted(extra) or 'none'}")
    assert len(exported) == 173
    assert not missing
    assert not extra
    assert all(getattr(T, name) is DType(name) for name in exported)


def sizes() -> None:
    assert T.float16 == "float16"
    assert T.float16 == torch.float16
    assert (T.float32x4.bits, T.float32x4.lanes, T.float32x4.bytes) == (32, 4, 16)
    print("\nbytes of five values stored without gaps:")
    for name, expected in {"float4_e2m1fn": 3, "int4": 3, "float8_e4m3fn": 5, "float16": 10, "float32x4": 80}.items():
        print(f"  {name:<14} {DType(name).nbytes(5)}")
        assert DType(name).nbytes(5) == expected


def widened(dtype: str) -> Any:
    """All 256 codes of `dtype` as float32, and back: the second copy gives the codes of finite values again."""

    @T.prim_func
    def kernel(Codes: T.Tensor((256,), dtype), Wide: T.Tensor((256,), T.float32), Back: T.Tensor((256,), dtype)):
        with T.Kernel(1, threads=32):
            wide = T.alloc_fragment((256,), T.float32)
            T.copy(Codes, wide)
            T.copy(wide, Wide)
            T.copy(wide, Back)

    return kernel


def conversions(chosen: Options) -> None:
    print(f"\n{'type':<18}{'largest':>9}{'smallest':>12}  finite codes")
    finite: dict[str, list[float]] = {}
    for name in SMALL:
        dtype = DType(name)
        try:
            kernel = tl.compile(widened(name), target=chosen.target)
        except TileError as error:
            if error.kind == "invalid":
                raise
            print(f"{name:<18}refused on {chosen.target.kind} ({error.code})")
            continue
        codes = torch.arange(256).to(torch.uint8).view(dtype.torch).to(kernel.device)
        wide, back = torch.zeros(256, device=kernel.device), torch.zeros_like(codes)
        kernel(codes, wide, back)
        assert torch.equal(wide.nan_to_num(nan=-1.0), codes.float().nan_to_num(nan=-1.0))
        kept = wide.isfinite()
        assert torch.equal(back.view(torch.uint8)[kept], codes.view(torch.uint8)[kept])
        # Conversion to a narrow float saturates: infinity gives the largest finite value.
        assert bool((back.float()[wide.isinf()].abs() == dtype.max).all())
        finite[name] = sorted(wide[wide.isfinite()].tolist())
        form = dtype.float_format
        assert form is not None
        assert finite[name][-1] == dtype.max
        print(f"{name:<18}{dtype.max:>9g}{form.smallest:>12g}  {len(finite[name])} of 256")
    if finite:
        draw(chosen.figures / "dtype_families.png", (8, 2.6), lambda axes: paint(axes, finite))


def paint(axes: Any, finite: dict[str, list[float]]) -> None:
    for height, values in enumerate(finite.values()):
        positive = [value for value in values if value > 0]
        axes.plot(positive, [height] * len(positive), "|", markersize=14)
        axes.text(positive[-1] * 1.3, height, f"{positive[-1]:g}", va="center", fontsize=8)
    axes.set_xscale("log", base=2)
    axes.set_yticks(range(len(finite)), list(finite), fontsize=8)
    axes.set(ylim=(len(finite) - 0.4, -0.6), xlim=(2.0**-18, 2.0**19))
    axes.set_title("positive finite values of the 8-bit floats", fontsize=10)


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = options(__doc__, arguments)
    table()
    sizes()
    conversions(chosen)


if __name__ == "__main__":
    main()
