"""The runner: a TileLang program in a process in which `tilelang` stands for this language.

python -m tile_core.compat.tilelang [--target T] [--execution native|emulate] script.py [arguments]
python -m tile_core.compat.tilelang [options] -m pytest [arguments]
python -m tile_core.compat.tilelang [options] -c "code"
"""

from __future__ import annotations

import argparse
import linecache
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from tile_core.compat.tilelang.devices import device_mode
from tile_core.compat.tilelang.finder import install
from tile_core.compat.tilelang.table import table, warn_once
from tile_core.errors.base import TileError
from tile_core.settings import CoreSettings

_CODE = "<tilelang -c>"
_ALREADY_IMPORTED = "ignore:Module already imported so cannot be rewritten:pytest.PytestAssertRewriteWarning"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options, and what is to be run with its own arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m tile_core.compat.tilelang",
        description="Run a TileLang program unchanged.",
        epilog="Everything after the script, module or code goes to the program.",
    )
    parser.add_argument("--target", help="compile every kernel for this target, whatever the program says")
    parser.add_argument("--execution", choices=("native", "emulate"), help="emulate: run the target's code on the host")
    parser.add_argument("-m", dest="module", action="store_true", help="what follows is a module, as for python -m")
    parser.add_argument("-c", dest="code", action="store_true", help="what follows is code, as for python -c")
    parser.add_argument("program", help="a script, a module or code")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the program's own arguments")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int | str | None:
    """Run; the exit status is the program's."""
    options = parse(arguments)
    set_environment(options.target, options.execution)
    install()
    # This process has imported the package whose plugin pytest finds, if the program runs pytest.
    os.environ["PYTEST_ADDOPTS"] = f"{os.environ.get('PYTEST_ADDOPTS', '')} -W '{_ALREADY_IMPORTED}'".strip()
    sys.argv = [options.program, *options.arguments]
    try:
        with device_mode():
            run(options)
    except SystemExit as ended:
        return ended.code
    except TileError as error:
        # The traceback first, as Python shows it; the error's own text ends it.
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def run(options: argparse.Namespace) -> None:
    """Run the program as `__main__`."""
    if options.module:
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(options.program, run_name="__main__", alter_sys=True)
    elif options.code:
        sys.path.insert(0, "")
        # Kernels are traced from their source, so the code is registered as one.
        linecache.cache[_CODE] = (len(options.program), None, options.program.splitlines(keepends=True), _CODE)
        sys.modules["__main__"].__dict__["__file__"] = _CODE
        exec(compile(options.program, _CODE, "exec", dont_inherit=True), sys.modules["__main__"].__dict__)  # noqa: S102
    else:
        sys.path.insert(0, str(Path(options.program).resolve().parent))
        runpy.run_path(options.program, run_name="__main__")


def set_environment(target: str | None = None, execution: str | None = None) -> None:
    """Options and TileLang's variables as ours, for this process and those that it starts. Ours win where both are set.

    Raises:
        TileError: a variable holds a value that is not accepted.
    """
    for name, variable in table().variables.items():
        value = os.environ.get(name, "")
        if not value or value == variable.ignore:
            continue
        if variable.to:
            flag = {"1": "0", "0": "1"}.get(value, value) if variable.value == "not" else value
            os.environ.setdefault(variable.to, flag)
        elif variable.why:
            warn_once(f"the variable {name} means nothing here: {variable.why}")
    for option, setting in ((target, CoreSettings.target), (execution, CoreSettings.execution)):
        if option is not None:
            os.environ[setting.variable] = option
