"""explained(fault) = why a planted mistake is not seen, where that is known."""

from __future__ import annotations

import re

from attack.verdict import Verdict

EXPLAINED: dict[str, str] = {}
"""Patterns of `kind: kernel: statement`, and why nothing is seen there."""


def explained(fault: Verdict) -> str:
    """The reason that holds for a fault, or that there is none."""
    text = f"{fault.kind}: {fault.detail}"
    return next((why for form, why in EXPLAINED.items() if re.search(form, text)), "not explained")
