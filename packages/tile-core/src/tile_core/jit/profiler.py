"""Timing a kernel, and comparing it to a reference. `timing.py` holds the clocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Protocol

from tile_core.dtypes import DType, as_dtype
from tile_core.errors.runtime import ProfilerError, ResultMismatchError
from tile_core.jit.signature import Signature, TensorParam
from tile_core.jit.timing import ReturnMode, check_mode, measure, summarize


class TensorSupplyType(IntEnum):
    """What inputs are filled with. `Auto`: small integers for integer dtypes, standard normal values for floats."""

    Integer = 1
    Uniform = 2
    Normal = 3
    Randn = 4
    Zero = 5
    One = 6
    Auto = 7


class Timed(Protocol):
    """What a profiler asks of a kernel; `JITKernel` is one."""

    @property
    def name(self) -> str:
        """The kernel's name."""
        ...

    @property
    def signature(self) -> Signature:
        """Its parameters."""
        ...

    @property
    def out_idx(self) -> tuple[int, ...]:
        """The positions of the parameters that a call returns."""
        ...

    @property
    def device(self) -> Any:
        """Where its tensors live."""
        ...

    def __call__(self, *arguments: Any) -> Any:
        """Run it."""
        ...


class Profiler:
    """Times one kernel and compares its results. Inputs are made from the kernel's parameters unless they are given."""

    def __init__(self, kernel: Timed, supply_type: TensorSupplyType = TensorSupplyType.Auto) -> None:
        self.kernel = kernel
        self.supply_type = supply_type

    def inputs(self, seed: int = 0, sizes: Mapping[str, int] | None = None) -> list[Any]:
        """Fresh inputs as torch tensors, one for each parameter that is not an output; the same for the same seed.

        `sizes` gives the symbols of shapes their values.

        Raises:
            ProfilerError: a parameter is a scalar, or has an extent whose symbols are not in `sizes`.
        """
        import torch

        generator = torch.Generator().manual_seed(seed)
        params = self.kernel.signature.params
        return [
            self._input(torch, param, generator, sizes or {})
            for position, param in enumerate(params)
            if position not in self.kernel.out_idx
        ]

    def _input(self, torch: Any, param: Any, generator: Any, sizes: Mapping[str, int]) -> Any:
        shape = [extent.value(sizes) for extent in param.shape] if isinstance(param, TensorParam) else [None]
        if None in shape:
            raise ProfilerError(
                f"the profiler cannot choose a value for `{param}`", remedy="give the inputs with `input_tensors=`"
            )
        if param.per_storage > 1 and shape:
            shape[-1] = int(shape[-1] or 0) // param.per_storage
        dtype = as_dtype(param.dtype)
        made = values(torch, self.supply_type, dtype, shape, generator)
        return made.to(dtype.torch).to(self.kernel.device)

    def do_bench(
        self,
        func: Callable[..., Any] | None = None,
        warmup: float = 25,
        rep: float = 100,
        n_warmup: int = 0,
        n_repeat: int = 0,
        input_tensors: Sequence[Any] | None = None,
        quantiles: Sequence[float] | None = None,
        return_mode: ReturnMode = "median",
        sizes: Mapping[str, int] | None = None,
    ) -> float | list[float]:
        """Milliseconds of one call.

        Args:
            func: what to time with the inputs; by default the kernel.
            warmup: milliseconds to spend before measuring.
            rep: milliseconds to spend measuring.
            n_warmup: a number of calls instead of `warmup`, where it is not 0.
            n_repeat: a number of calls instead of `rep`, where it is not 0.
            input_tensors: the inputs; by default those of `inputs()`.
            quantiles: return these quantiles, each from 0 to 1, instead of one summary.
            return_mode: "median", "mean", "min" or "max" of the calls' times.
            sizes: the values of symbols, for `inputs()`.

        Raises:
            ProfilerError: inputs cannot be made, an option is not known, or there is no clock for the kernel's device.
        """
        check_mode(return_mode)
        run = self.kernel if func is None else func
        tensors = self.inputs(sizes=sizes) if input_tensors is None else list(input_tensors)
        times = measure(
            lambda: run(*tensors),
            self.kernel.device,
            warmup=warmup,
            rep=rep,
            n_warmup=n_warmup,
            n_repeat=n_repeat,
        )
        return summarize(times, return_mode, quantiles)

    def run_once(self, func: Callable[..., Any] | None = None) -> Any:
        """One call with default inputs."""
        return (self.kernel if func is None else func)(*self.inputs())

    def assert_allclose(
        self,
        reference: Callable[..., Any],
        input_tensors: Sequence[Any] | None = None,
        atol: float = 1e-2,
        rtol: float = 1e-2,
        max_mismatched_ratio: float = 0.01,
    ) -> None:
        """Compare the kernel's outputs to `reference(*inputs)`.

        Without outputs of its own, the kernel's written parameters are compared: with what the reference returns, or,
        where it returns nothing, with what it left in its copies. NaN and infinities must stand at the same places.

        Raises:
            ResultMismatchError: more than `max_mismatched_ratio` of the elements of an output differ by more than
                `atol + rtol * abs(expected)`.
        """
        tensors = self.inputs() if input_tensors is None else list(input_tensors)
        copies = [copied(tensor) for tensor in tensors]
        actual, expected = self.kernel(*tensors), reference(*copies)
        if not self.kernel.out_idx:
            params = self.kernel.signature.params
            written = [at for at, param in enumerate(params) if isinstance(param, TensorParam) and param.written]
            actual = [tensors[at] for at in written]
            expected = [copies[at] for at in written] if expected is None else expected
        pairs = list(zip(listed(actual), listed(expected), strict=True))
        for order, (got, wanted) in enumerate(pairs):
            compare(order, got, wanted, atol, rtol, max_mismatched_ratio)

    def assert_consistent(self, repeat: int = 10) -> None:
        """Call the kernel several times on the same inputs; every result must have the same bytes.

        Raises:
            ResultMismatchError: two calls differ.
        """
        first = [_bytes(output) for output in self._outputs()]
        for _ in range(repeat - 1):
            if [_bytes(output) for output in self._outputs()] != first:
                raise ResultMismatchError(
                    f"two calls of {self.kernel.name} on the same inputs gave different results",
                    remedy="return tensors of the outputs' shapes from the reference",
                )

    def _outputs(self) -> list[Any]:
        tensors = self.inputs()
        result = self.kernel(*tensors)
        return listed(result) if self.kernel.out_idx else tensors


def values(torch: Any, supply: TensorSupplyType, dtype: DType, shape: Sequence[Any], generator: Any) -> Any:
    """A tensor of the shape, in a dtype of torch's choice, that `supply` fills."""
    auto = TensorSupplyType.Randn if dtype.is_float else TensorSupplyType.Integer
    kind = auto if supply is TensorSupplyType.Auto else supply
    if kind is TensorSupplyType.Integer:
        low = 0 if dtype.is_unsigned or dtype.is_bool else -2
        return torch.randint(low, 2 if dtype.is_bool else 3, shape, generator=generator)
    if kind is TensorSupplyType.Uniform:
        return torch.rand(shape, generator=generator) * 2 - 1
    if kind in (TensorSupplyType.Normal, TensorSupplyType.Randn):
        return torch.randn(shape, generator=generator)
    return torch.full(shape, 0 if kind is TensorSupplyType.Zero else 1)


def copied(value: Any) -> Any:
    """A copy of a tensor; a scalar itself."""
    return value.clone() if hasattr(value, "clone") else value.copy() if hasattr(value, "copy") else value


def listed(result: Any) -> list[Any]:
    """One result as a list, several as they are."""
    return list(result) if isinstance(result, list | tuple) else [result]


def _bytes(tensor: Any) -> bytes:
    import torch

    flat = torch.as_tensor(tensor).detach().cpu().contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).numpy().tobytes()) if flat.numel() else b""


def compare(order: int, actual: Any, expected: Any, atol: float, rtol: float, allowed: float) -> None:
    """Compare one output to what a reference gave.

    Raises:
        ResultMismatchError: another shape, or more than the share `allowed` of the elements differs.
    """
    import torch

    got = torch.as_tensor(actual).double()
    wanted = torch.as_tensor(expected).to(got.device).double()
    if got.shape != wanted.shape:
        raise ResultMismatchError(
            f"output {order} has shape {list(got.shape)}, the reference's has {list(wanted.shape)}",
            remedy="correct the kernel, or allow more: rtol=, atol=, max_mismatched_ratio=",
        )
    wrong = ~torch.isclose(got, wanted, rtol=rtol, atol=atol, equal_nan=True)
    ratio = float(wrong.double().mean()) if wrong.numel() else 0.0
    if ratio > allowed:
        worst = int((got - wanted).abs().nan_to_num(nan=float("inf")).mul(wrong).argmax())
        place = [int(index) for index in torch.unravel_index(torch.tensor(worst), got.shape)]
        raise ResultMismatchError(
            f"output {order}: {ratio:.2%} of the elements differ; at {place} it is {got.reshape(-1)[worst]:g}, "
            f"expected {wanted.reshape(-1)[worst]:g}",
            remedy='look for a race: target="interpret" and TILE_EMULATE_CHECK=1 find them',
        )
