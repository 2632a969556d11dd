"""The playground: one page for a browser, on which layouts are typed, composed and drawn.

Its algebra is `assets/algebra.js`, for layouts of whole numbers; each result is compared with the
table of its function before it is shown.
"""

from __future__ import annotations

from importlib.resources import files

__all__ = ["playground"]


def playground() -> str:
    """The page as HTML, which needs nothing beside itself."""
    assets = files("cute_layout") / "assets"
    page, algebra, program = (
        (assets / name).read_text(encoding="utf-8")
        for name in ("playground.html", "algebra.js", "playground.js")
    )
    return page.replace("/*ALGEBRA*/", algebra).replace("/*PLAYGROUND*/", program)
