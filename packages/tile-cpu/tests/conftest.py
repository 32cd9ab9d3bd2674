from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(scope="session")
def build() -> Callable[..., Any]:
    """Compile hand-written TIR for this machine with TVM's own passes: `build(func) -> callable`."""
    import tvm
    from tvm import tirx

    from tile_cpu.llvm.features import host_target
    from tile_cpu.passes.simplify_indices import simplify_indices

    mcpu, mattr = host_target()
    options = {"kind": "llvm", "mcpu": mcpu, "mattr": list(mattr)}
    target = tvm.target.Target(options, host=options)
    transform = tirx.transform
    passes = [
        transform.FlattenBuffer(),
        simplify_indices(),
        transform.VectorizeLoop(True),
        transform.StorageRewrite(),
        transform.UnrollLoop(),
        transform.AnnotateEntryFunc(),
        transform.SplitHostDevice(),
        transform.MakePackedAPI(),
        transform.BF16StorageLegalize(),
        transform.LowerTVMBuiltin(),
        transform.LowerIntrin(),
    ]

    def compiled(func: tirx.PrimFunc) -> Any:
        func = func.with_attr("global_symbol", "main").with_attr("tirx.noalias", True).with_attr("target", target)
        module = tvm.ir.transform.Sequential(passes)(tvm.IRModule({"main": func}))
        built = tvm.get_global_func("target.build.llvm")(module, target)
        function = built["main"]
        compiled.module = built  # type: ignore[attr-defined]
        return function

    return compiled
