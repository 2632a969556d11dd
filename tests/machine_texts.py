"""Machine code as nvdisasm writes it, from instructions alone, changes of it, and the sanitizer's
rule for it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "sanitizer"))

import proofs
from machine import read


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


def rule(text: str) -> str | None:
    """Of the first write and the first read of shared memory."""
    code = read(disassembly(text))
    write, load = (
        next(at for at in code.ops if proofs.touches(code, at, how)) for how in (True, False)
    )
    return proofs.rule(code, write, load)
