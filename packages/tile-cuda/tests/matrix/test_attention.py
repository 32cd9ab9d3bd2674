"""The attention of `examples/attention.py` by matrix instructions: fragments stay in registers, copies run ahead."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import tile_core as tl
from tile_core.testing.scripts import load_script
from tile_cuda.target import device_architecture

EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "attention.py"
# batch, heads, sequence, dim, options
SHAPES: list[tuple[int, int, int, int, dict[str, Any]]] = [
    (1, 2, 256, 64, {}),
    (1, 2, 200, 64, {"causal": True}),
    (2, 4, 70, 128, {"groups": 2, "block": (64, 64), "threads": 128}),
    (1, 1, 300, 64, {"causal": True, "block": (128, 64), "dtype": "bfloat16"}),
    (1, 1, 1, 64, {"block": (64, 64), "threads": 128}),
    (1, 1, 300, 64, {"causal": True, "window": 90, "block": (128, 64)}),
    (1, 2, 200, 64, {"causal": True, "window": 1, "block": (64, 64), "threads": 128}),
]
# The same, and the blocks that run at a time: few walk over tiles, in turns of which some have no tile.
WALKS: list[tuple[int, int, int, int, dict[str, Any], int]] = [
    (1, 3, 300, 64, {"block": (64, 64), "threads": 128}, 2),
    (1, 3, 300, 64, {"causal": True, "block": (64, 64), "threads": 128}, 2),
    (2, 4, 70, 64, {"causal": True, "groups": 2, "block": (64, 64), "threads": 128}, 3),
    # So many tiles that blocks ask a counter for the next one.
    (1, 8, 130, 64, {"block": (64, 64), "threads": 128}, 3),
    (2, 9, 70, 64, {"causal": True, "groups": 3, "block": (64, 64), "threads": 128}, 2),
]


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return load_script(EXAMPLE)


def check(
    example: ModuleType,
    shape: tuple[int, int, int, int, dict[str, Any]],
    arch: str,
    device: str,
    blocks: int | bool = True,
) -> None:
    batch, heads, sequence, dim, options = shape
    dtype = getattr(torch, options.get("dtype", "float16"))
    groups = options.get("groups", 1)
    torch.manual_seed(1)
    q = torch.randn(batch, sequence, heads, dim).to(dtype)
    k, v = (torch.randn(batch, sequence, heads // groups, dim).to(dtype) for _ in range(2))
    out = torch.full_like(q, float("nan"), device=device)
    execution = "emulate" if device == "cpu" else "native"
    configs = {"tile.emulate_check": device == "cpu", "tile.persistent": blocks}
    kernel = tl.compile(
        example.attention(batch, heads, sequence, dim, **options),
        target={"kind": "cuda", "arch": arch},
        execution=execution,
        pass_configs=configs,
    )
    lse = torch.full((batch, heads, sequence), float("nan"), device=device)
    kernel(q.to(device), k.to(device), v.to(device), out, lse)
    assert kernel.report()["fragments_in_shared"] == []
    assert bool(kernel.report().get("persistent_blocks")) == (blocks is not True)
    if arch == "sm_90":
        assert "ldmatrix" in kernel.get_kernel_source()
    expected = example.reference(q, k, v, causal=options.get("causal", False), window=options.get("window"))
    tolerance = 1e-2 if dtype == torch.bfloat16 else 2e-3
    torch.testing.assert_close(out.cpu().float(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_emulated_with_warpgroups(example: ModuleType, shape: tuple[int, int, int, int, dict[str, Any]]) -> None:
    check(example, shape, "sm_90", "cpu")


def test_emulated_at_odd_addresses(example: ModuleType) -> None:
    """The threads copy past fragments that fill their registers: a few units at a time, in loops."""
    torch.manual_seed(3)
    shape = (1, 200, 1, 128)
    q, k, v, out = (torch.randn(1 + 200 * 128).half()[1:].view(shape) for _ in range(4))
    lse = torch.empty(1, 1, 200)
    kernel = tl.compile(
        example.attention(1, 1, 200, 128, causal=True),
        target={"kind": "cuda", "arch": "sm_90"},
        execution="emulate",
        pass_configs={"tile.emulate_check": True},
    )
    spare = kernel.get_kernel_source().split('extern "C" __global__')[-1]
    assert "#pragma unroll 1\n" in spare
    kernel(q, k, v, out, lse)
    expected = example.reference(q, k, v, causal=True)
    torch.testing.assert_close(out.float(), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("shape", WALKS, ids=str)
def test_emulated_walks(example: ModuleType, shape: tuple[int, int, int, int, dict[str, Any], int]) -> None:
    check(example, shape[:5], "sm_90", "cpu", shape[5])


@pytest.mark.parametrize("shape", SHAPES[1:3], ids=str)
def test_emulated_with_warps(example: ModuleType, shape: tuple[int, int, int, int, dict[str, Any]]) -> None:
    check(example, shape, "sm_80", "cpu")


# Of causal attention: options, and the rows that some poisoned key of theirs or of their block's reaches.
HIDDEN: list[tuple[dict[str, Any], range]] = [
    ({"window": 40, "block": (64, 64)}, range(64, 192)),
    ({"window": 33, "block": (32, 64)}, range(96, 160)),
    ({"block": (32, 128)}, range(96, 200)),
]
POISONED = 100
TARGETS: list[Any] = ["interpret", "cpu", {"kind": "cuda", "arch": "sm_80"}, {"kind": "cuda", "arch": "sm_90"}]


def check_hidden(example: ModuleType, target: Any, options: dict[str, Any], reached: range) -> None:
    """A key that is not finite, and is seen by rows from its own on."""
    native, sequence, dim = target == "native", 200, 32
    dtype = torch.float16 if native or isinstance(target, dict) else torch.float32
    torch.manual_seed(8)
    q, k, v = (torch.randn(1, sequence, 1, dim).to(dtype) for _ in range(3))
    expected = example.reference(q, k, v, causal=True, window=options.get("window"))
    k[:, POISONED], v[:, POISONED] = float("nan"), float("inf")
    device = "cuda" if native else "cpu"
    out = torch.full_like(q, float("nan"), device=device)
    lse = torch.full((1, 1, sequence), float("nan"), device=device)
    program = example.attention(
        1, 1, sequence, dim, str(dtype).removeprefix("torch."), causal=True, threads=2 * options["block"][0], **options
    )
    kernel = tl.compile(
        program,
        target="cuda" if native else target,
        execution="emulate" if isinstance(target, dict) else None,
        pass_configs={"tile.emulate_check": True} if isinstance(target, dict) else {},
    )
    kernel(q.to(device), k.to(device), v.to(device), out, lse)
    clean = torch.tensor([row not in reached for row in range(sequence)])
    torch.testing.assert_close(out[:, clean].cpu().float(), expected[:, clean], rtol=2e-3, atol=2e-3)
    last = min(POISONED + options.get("window", sequence), sequence)
    assert torch.isnan(out[:, POISONED:last]).all()


@pytest.mark.parametrize(
    ("target", "hidden"),
    [
        *((target, HIDDEN[0]) for target in TARGETS),
        *((target, case) for target in TARGETS[1::2] for case in HIDDEN[1:]),
    ],
    ids=str,
)
def test_keys_that_no_row_of_a_block_sees(
    example: ModuleType, target: Any, hidden: tuple[dict[str, Any], range]
) -> None:
    check_hidden(example, target, *hidden)


@pytest.mark.device
@pytest.mark.parametrize(("options", "reached"), HIDDEN, ids=str)
def test_keys_that_no_row_of_a_block_sees_on_the_device(
    example: ModuleType, options: dict[str, Any], reached: range
) -> None:
    if device_architecture()[0] is None:
        pytest.skip(device_architecture()[1])
    check_hidden(example, "native", options, reached)


@pytest.mark.device
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_on_the_device(example: ModuleType, shape: tuple[int, int, int, int, dict[str, Any]]) -> None:
    found, reason = device_architecture()
    if found is None:
        pytest.skip(reason)
    check(example, shape, found, "cuda")


@pytest.mark.device
@pytest.mark.parametrize(
    "shape", [*WALKS, (4, 32, 256, 128, {}, 100), (4, 32, 256, 128, {"causal": True}, 60)], ids=str
)
def test_walks_on_the_device(example: ModuleType, shape: tuple[int, int, int, int, dict[str, Any], int]) -> None:
    found, reason = device_architecture()
    if found is None:
        pytest.skip(reason)
    check(example, shape[:5], found, "cuda", shape[5])
