"""How Sphinx builds the documentation: Markdown through MyST, warnings are errors."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import api  # noqa: E402
import instructions  # noqa: E402

from cute_layout.playground import playground  # noqa: E402

project = "Hexcute"
author = "the Hexcute maintainers"
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "Hexcute"
html_static_path = ["static"]
html_css_files = ["wide.css"]
exclude_patterns = ["_build", "out"]

api.write(HERE / "reference")
instructions.write(HERE / "reference")
# Beside the pages, as a file of its own.
html_extra_path = ["extra"]
(HERE / "extra").mkdir(exist_ok=True)
(HERE / "extra" / "playground.html").write_text(playground(), encoding="utf-8")
