"""What this backend uses of CANN: the toolkit's compiler and linker as programs, its runtime through ctypes.

Nothing has to be built against CANN. The runtime that torch_npu has loaded is the one that `ASCEND_HOME_PATH` names.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tile_ascend.errors import MissingCannError

COMPILER, LINKER, RUNTIME = "bisheng", "ld.lld", "libascendcl.so"
_HOMES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
_DEFAULT_HOMES = ("/usr/local/Ascend/cann", "/usr/local/Ascend/ascend-toolkit/latest")
_REMEDY = 'source the toolkit\'s set_env.sh, or run on the host: execution="emulate"'


def homes() -> Iterator[Path]:
    """Where a toolkit may be: what the environment names, then the default places."""
    named = (os.environ[name] for name in _HOMES if name in os.environ)
    return (path for path in map(Path, (*named, *_DEFAULT_HOMES)) if path.is_dir())


def program(name: str) -> str:
    """The path of a program of the toolkit.

    Raises:
        MissingCannError: it is not to be found.
    """
    for home in homes():
        places = (home / "bin", *home.glob("*-linux/ccec_compiler/bin"), home / "compiler/ccec_compiler/bin")
        if found := shutil.which(name, path=os.pathsep.join(map(str, places))):
            return found
    raise MissingCannError(f"{name} of the CANN toolkit was not found", remedy=_REMEDY)


def includes() -> tuple[str, ...]:
    """The folders of headers that a kernel's prelude reads from."""
    parts = ("asc", "asc/include", "asc/include/c_api", "asc/include/simt_api", "include")
    folders = (
        folder for home in homes() for base in (home, *home.glob("*-linux")) for folder in (base / p for p in parts)
    )
    return tuple(str(folder) for folder in folders if folder.is_dir())


@functools.cache
def runtime() -> ctypes.CDLL:
    """The library of the runtime.

    Raises:
        MissingCannError: it is not to be found, or cannot be loaded.
    """
    for place in (*(str(home / "lib64" / RUNTIME) for home in homes()), RUNTIME):
        try:
            return ctypes.CDLL(place)
        except OSError:
            continue
    raise MissingCannError(f"{RUNTIME} of CANN was not found", remedy=_REMEDY)
