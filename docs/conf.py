"""Sphinx: the site of the documents. `make docs` builds it into build/docs."""

import re
from pathlib import Path

_PACKAGE = Path(__file__).parents[1] / "src/waypost/__init__.py"

project = "Waypost"
copyright = "the Waypost authors"  # noqa: A001, the name that Sphinx reads
release = re.search(r'__version__ = "([^"]+)"', _PACKAGE.read_text(encoding="utf-8"))[1]
version = release

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence"]
# Headings down to this level can be linked to, by the names that forges give them too.
myst_heading_anchors = 4
exclude_patterns = ["pictures"]
# Quotes are part of names and commands.
smartquotes = False

html_theme = "furo"
html_title = f"Waypost {release}"
html_static_path = ["site"]
html_css_files = ["waypost.css"]
html_show_sphinx = False
html_copy_source = False
html_permalinks_icon = "#"
# Blocks of requests are text to read: a method, a path, and JSON.
pygments_style = "friendly"
pygments_dark_style = "monokai"
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]
