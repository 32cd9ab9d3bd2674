"""Runs TileLang programs unchanged: `python -m tile_core.compat.tilelang script.py`.

In that process, and nowhere else, `import tilelang` and its modules stand for this language. Nothing is installed and
nothing on disk is shadowed: `finder.py` answers the imports, `names.yaml` says what each module's names are, and
`modules/` holds them, each a thin layer over what tile-core has anyway.
"""
