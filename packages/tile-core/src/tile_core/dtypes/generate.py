"""Makes `_table.py`, `_declared.pyi` and the documentation page from `dtypes.yaml`.

The table is data; importing it must not cost a YAML parse (20 ms) in every process. Run after changing `dtypes.yaml`:

    python -m tile_core.dtypes.generate
    python -m tile_core.dtypes.generate --docs docs/language/dtypes.md
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from tile_core.dtypes import exported

HERE = Path(__file__).parent
FIELDS = ("family", "kind", "code", "bits", "format", "lanes", "torch", "numpy", "tvm", "exported")


def load() -> dict[str, Any]:
    """`dtypes.yaml` as it is."""
    data: dict[str, Any] = yaml.safe_load((HERE / "dtypes.yaml").read_text(encoding="utf-8"))
    return data


def rows(data: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """One tuple a type, in the order of `FIELDS`, defaults filled in."""
    return {name: _row(name, entry, tuple(data["all_lanes"])) for name, entry in data["types"].items()}


def _row(name: str, entry: Mapping[str, Any], all_lanes: tuple[int, ...]) -> tuple[Any, ...]:
    vectors = entry.get("vectors", ())
    values = {
        **entry,
        "format": tuple(entry["format"]) if "format" in entry else None,
        "lanes": all_lanes if vectors == "all" else tuple(vectors),
        "torch": entry.get("torch"),
        "numpy": entry.get("numpy"),
        "tvm": entry.get("tvm", name),
        "exported": entry.get("exported", True),
    }
    return tuple(values[field] for field in FIELDS)


def table_source(data: Mapping[str, Any]) -> str:
    """The text of `_table.py`."""
    lines = [
        '"""Generated from dtypes.yaml by `python -m tile_core.dtypes.generate`; change that file, not this one."""',
        "",
        "# fmt: off",
        "# ruff: noqa: E501",
        "from __future__ import annotations",
        "",
        "from typing import Any",
        "",
        f"# {', '.join(FIELDS)}",
        "ROWS: dict[str, tuple[Any, ...]] = {",
        *(f"    {name!r}: {row!r}," for name, row in rows(data).items()),
        "}",
    ]
    for key in ("aliases", "string_aliases", "hints"):
        lines += ["", f"{key.upper()}: dict[str, str] = {dict(data[key])!r}"]
    return "\n".join(lines) + "\n"


def declarations(names: Iterable[str]) -> str:
    """The text of `_declared.pyi`: the exported names, for type checkers and editors."""
    head = [
        "# Generated from dtypes.yaml by `python -m tile_core.dtypes.generate`; change that file, not this one.",
        "# ruff: noqa: A001",
        "from tile_core.dtypes.dtype import DType",
        "",
    ]
    return "\n".join([*head, *(f"{name}: DType" for name in names)]) + "\n"


def main(arguments: list[str] | None = None) -> None:
    """Write `_table.py` and `_declared.pyi`, or with `--docs FILE` the page made from the table as it was imported."""
    parser = argparse.ArgumentParser(prog="python -m tile_core.dtypes.generate", description=__doc__)
    parser.add_argument("--docs", type=Path, help="write the documentation page here instead of the table")
    options = parser.parse_args(arguments)
    if options.docs is None:
        data = load()
        (HERE / "_table.py").write_text(table_source(data), encoding="utf-8")
        (HERE / "_declared.pyi").write_text(declarations(exported(data["aliases"], rows(data))), encoding="utf-8")
        return
    from tile_core.dtypes.document import page

    options.docs.parent.mkdir(parents=True, exist_ok=True)
    options.docs.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
