"""Links of the pages and READMEs lead somewhere: to a file that is there, a heading that it has."""

import html
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/*.md", "docs/tutorial/*.md", "packages/*/*.md", "bench/*.md")
    for page in ROOT.glob(pattern)
)
MADE = ("docs/playground.html", "docs/reference/")
"""Made by the build of the pages; what `docs/api.py` writes is checked by test_reference.py."""
FENCE = re.compile(r"^(`{3,}|:{3,}).*?^\1\s*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)|href=\"([^\"]+)\"|src=\"([^\"]+)\"")
DIRECTIVE = re.compile(r"^```\{(?:image|include|literalinclude)\} (\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.MULTILINE)
INCLUDE = re.compile(r"^```\{include\} (\S+)", re.MULTILINE)


def links(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    bare = CODE.sub("", FENCE.sub("", text))
    return [*(next(filter(None, found)) for found in LINK.findall(bare)), *DIRECTIVE.findall(text)]


def anchors(page: Path) -> set[str]:
    """The names that a page's headings have, as GitHub and MyST make them."""
    text = page.read_text(encoding="utf-8")
    for other in INCLUDE.findall(text):
        text += (page.parent / other).read_text(encoding="utf-8")
    seen: Counter[str] = Counter()
    names = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        plain = re.sub(r"[^\w\- ]", "", html.unescape(heading).lower()).replace(" ", "-")
        names.add(f"{plain}-{seen[plain]}" if seen[plain] else plain)
        seen[plain] += 1
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    wrong = []
    for link in links(page):
        if re.match(r"https?://", link):
            if not re.match(r"https://[\w.-]+\.[a-z]+(/\S*)?$", link):
                wrong.append(link)
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        made = target.is_relative_to(ROOT) and any(
            f"{target.relative_to(ROOT)}".startswith(known) for known in MADE
        )
        if made:
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    assert not wrong


def test_there_are_links_and_wrong_ones_would_be_found() -> None:
    assert sum(len(links(page)) for page in PAGES) > 100
    assert "a-kernel" in anchors(ROOT / "docs" / "language.md")
    assert "no-such-heading" not in anchors(ROOT / "docs" / "language.md")
    assert "cache" in anchors(ROOT / "docs" / "hexcute_core.md")
