"""How Sphinx builds the documentation: Markdown through MyST, warnings are errors."""

project = "Hexcute"
author = "the Hexcute maintainers"
extensions = ["myst_parser"]
myst_enable_extensions = ["dollarmath"]
html_theme = "alabaster"
exclude_patterns = ["_build", "out"]
