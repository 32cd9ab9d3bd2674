"""Where the inputs of a measurement come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from tile_core.errors.autotune import AutotuneOptionError

if TYPE_CHECKING:
    from tile_core.autotune.profile import Profile
    from tile_core.jit.kernel import JITKernel

_given: ContextVar[tuple[Any, ...] | None] = ContextVar("tile_autotune_inputs", default=None)


@contextmanager
def set_autotune_inputs(*tensors: Any) -> Iterator[None]:
    """Within the block, candidates are measured on copies of these inputs, given one by one or as one list.

    >>> with set_autotune_inputs([1, 2]):
    ...     get_autotune_inputs()
    [1, 2]
    """
    one = len(tensors) == 1 and isinstance(tensors[0], list | tuple)
    token = _given.set(tuple(tensors[0] if one else tensors))
    try:
        yield
    finally:
        _given.reset(token)


def get_autotune_inputs() -> list[Any] | None:
    """The inputs of the innermost `set_autotune_inputs`, `None` outside of any."""
    found = _given.get()
    return None if found is None else list(found)


class Supply:
    """Makes inputs for kernels, the same for all of one tuning where they are kept."""

    def __init__(self, profile: Profile, call: Sequence[Any] | None) -> None:
        self._profile = profile
        self._fixed = get_autotune_inputs() or (None if call is None else list(call))
        self._kept: dict[str, list[Any]] = {}

    def inputs(self, kernel: JITKernel) -> list[Any]:
        """Inputs for `kernel`; whoever gets them may not write to them.

        They are those of `set_autotune_inputs`, else of `supply_prog`, else of the call that is being tuned, else made
        from the kernel's parameters.

        Raises:
            ProfilerError: there is no value for a parameter.
            AutotuneOptionError: `supply_prog` returned no list of inputs.
        """
        signature = str(kernel.signature)
        if self._profile.cache_input_tensors and signature in self._kept:
            return self._kept[signature]
        made = self._make(kernel)
        if self._profile.cache_input_tensors:
            self._kept[signature] = made
        return made

    def _make(self, kernel: JITKernel) -> list[Any]:
        from tile_core.errors.runtime import ProfilerError

        supply = self._profile.supply_prog
        if supply is not None and get_autotune_inputs() is None:
            params = [param for position, param in enumerate(kernel.params) if position not in kernel.out_idx]
            made = supply(params)
            if not isinstance(made, list | tuple):
                raise AutotuneOptionError(
                    f"supply_prog returned {type(made).__name__}, expected a list of inputs",
                    remedy="return a list with one value for each argument of the kernel",
                )
            return list(made)
        if self._fixed is not None:
            return self._fixed
        try:
            return kernel.get_profiler(self._profile.supply_type).inputs()
        except ProfilerError as error:
            error.remedy = "give the inputs with `supply_prog=` or `with set_autotune_inputs(...)`"
            raise
