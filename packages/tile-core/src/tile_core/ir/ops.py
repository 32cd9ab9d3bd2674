"""Registration of tile ops with TVM, so that a call to one is an ordinary, printable `Call` node."""

from __future__ import annotations

import functools

from tvm import ir, tirx
from tvm.ir import _ffi_api


@functools.cache
def tile_op(name: str, *, pure: bool = False) -> ir.Op:
    """The TVM operator called `name`, registered on first use.

    `pure` marks an expression that may be moved or dropped; everything else is opaque to TVM's passes.
    """
    if name not in ir.Op.list_op_names():
        _ffi_api.RegisterOp(name, name)
        op = ir.Op.get(name)
        effect = tirx.CallEffectKind.Pure if pure else tirx.CallEffectKind.Opaque
        op.set_attr("TCallEffectKind", effect.value)
        op.set_attr("TScriptPrinterName", name)
    return ir.Op.get(name)
