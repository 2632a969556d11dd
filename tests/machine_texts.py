"""Machine code as nvdisasm writes it, from instructions alone, and changes of it."""

from __future__ import annotations

import re


def disassembly(text: str) -> str:
    """Instructions, 16 bytes each, as nvdisasm writes them."""
    lines, at = [], 0
    for line in text.strip().splitlines():
        lines.append(line if line.endswith(":") else f"        /*{at:04x}*/  {line} ;")
        at += 0 if line.endswith(":") else 16
    return "\n".join(lines)


def changed(text: str, pattern: str, by: str) -> str:
    assert len(re.findall(pattern, text)) == 1, pattern
    return re.sub(pattern, by, text)
