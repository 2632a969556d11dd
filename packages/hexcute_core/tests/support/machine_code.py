"""Reading SASS."""

from __future__ import annotations

import re

_OPCODE = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", re.M)


def opcodes_of(sass: str) -> list[str]:
    """Every instruction with its modifiers, predicates aside, in order."""
    return _OPCODE.findall(sass)
