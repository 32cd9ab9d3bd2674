"""Sphinx configuration. `nox -s docs` builds these pages with every warning an error."""

project = "tile"
author = "The tile authors"
copyright = "The tile authors"  # noqa: A001 - the name is Sphinx's
version = release = "0.1.0"

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "tile"
html_copy_source = False
html_show_sphinx = False
