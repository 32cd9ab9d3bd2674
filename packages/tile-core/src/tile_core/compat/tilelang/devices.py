"""Tensors of programs that name a device which this machine lacks, or which their kernels do not run on here.

Where kernels run on the host (`--target cpu`, `--execution emulate`), everything that asks torch for the program's
device gets memory of the host. A move between the two becomes a copy, as it would be. Where kernels are for a device
that is absent, asking for it says how to go on.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tile_core.compat.tilelang.host_device import answers
from tile_core.compat.tilelang.options import overriding_target
from tile_core.compat.tilelang.table import table
from tile_core.errors.compat import CompatDeviceError
from tile_core.settings import settings

REMEDY = (
    "run the program with `--target cpu` (TILE_TARGET=cpu), which compiles every kernel for the CPU, or with "
    "`--execution emulate` (TILE_EXECUTION=emulate), which runs the device's code on the host"
)


def device_mode() -> AbstractContextManager[Any]:
    """What a program runs in. It holds for the thread that enters it."""
    try:
        import torch
    except ImportError:
        return nullcontext()
    device = table().device
    if runs_on_host():
        return _mode(torch, device, redirects=True)
    module: Any = getattr(torch, device)
    return nullcontext() if module.is_available() else _mode(torch, device, redirects=False)


def runs_on_host() -> bool:
    """Whether the kernels of programs for the device run on the host, by the runner's options."""
    if settings.execution == "emulate":
        return True
    if not overriding_target():
        return False
    from tile_core.plugins.manager import backend, resolve
    from tile_core.targets.select import select_target

    target = select_target(None)
    facts = resolve(backend(target.backend).capabilities)(target).facts
    return bool(facts.get("device", "cpu") == "cpu")


def absent(what: str) -> CompatDeviceError:
    """The error for a program that asks for the device."""
    return CompatDeviceError(
        f"the program asks for the device {table().device!r} ({what}), which torch does not have here", remedy=REMEDY
    )


def _mode(torch: Any, device: str, *, redirects: bool) -> AbstractContextManager[Any]:
    from torch.overrides import TorchFunctionMode

    tensor = torch.Tensor
    move = getattr(tensor, device)

    def names_device(value: object) -> bool:
        if isinstance(value, torch.device):
            return bool(value.type == device)
        return isinstance(value, str) and value.partition(":")[0] == device

    def moved(source: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """A copy, as between two memories, of the dtype that the call asks for."""
        dtypes = [value for value in (*arguments, keywords.get("dtype")) if isinstance(value, torch.dtype)]
        layout = {name: value for name, value in keywords.items() if name == "memory_format" and value is not None}
        return source.to(dtypes[0] if dtypes else source.dtype, copy=True, **layout)

    class DeviceMode(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
        """Answers every function of torch that names the device."""

        def __torch_function__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            keywords = kwargs or {}
            to_device = func is move or names_device(keywords.get("device"))
            to_device = to_device or (func is tensor.to and any(map(names_device, args[1:])))
            if not to_device:
                # A copy on the device is a copy here too, also of a tensor that is on the host already.
                return args[0].clone() if redirects and func is tensor.cpu else func(*args, **keywords)
            if not redirects:
                raise absent(getattr(func, "__name__", str(func)))
            if func is move:
                return args[0].clone()
            if func is tensor.to:
                return moved(args[0], args[1:], keywords)
            return func(*args, **{**keywords, "device": "cpu", **_unpinned(keywords)})

        def __enter__(self) -> Any:
            self._kept = _replace(getattr(torch, device), redirects)
            return super().__enter__()  # type: ignore[no-untyped-call, unused-ignore]

        def __exit__(self, *error: object) -> None:
            super().__exit__(*error)  # type: ignore[no-untyped-call, unused-ignore]
            for name, value in self._kept.items():
                setattr(getattr(torch, device), name, value)

    return DeviceMode()


def _unpinned(keywords: dict[str, Any]) -> dict[str, Any]:
    return {"pin_memory": False} if "pin_memory" in keywords else {}


def _replace(module: Any, redirects: bool) -> dict[str, Any]:
    """Let the device's own functions of torch answer for the host, or say that it is absent; what they were before."""

    def refuse(*_arguments: Any, **_keywords: Any) -> None:
        raise absent(f"a function of torch.{table().device}")

    new = {"_lazy_init": refuse, **(answers() if redirects else {})}
    old = {name: getattr(module, name) for name in new}
    for name, value in new.items():
        setattr(module, name, value)
    return old
