"""Angles of rotary embedding, float32.

    angle = place * base^(-pair / pairs)

Stretched (YaRN, as DeepSeek has it), pairs that turn slowly do so `stretch` times slower still:
those that turn less than `slow` times within the `original` places wholly, those of more than
`fast` turns not, those between by a ramp.
"""

from __future__ import annotations

import math
from typing import Any

FAST, SLOW = 32.0, 1.0


def angles(
    places: int, pairs: int, base: float, device: Any, stretch: float = 1.0, original: int = 0
) -> tuple[Any, Any]:
    """Cosines and sines (places, pairs)."""
    import torch

    pair = torch.arange(pairs, dtype=torch.float32, device=device)
    speed = base ** (-pair / pairs)
    if stretch != 1.0:
        first, last = (
            pairs * math.log(original / (turns * 2.0 * math.pi)) / math.log(base)
            for turns in (FAST, SLOW)
        )
        first, last = max(math.floor(first), 0), min(math.ceil(last), 2 * pairs - 1)
        ramp = ((pair - first) / max(last - first, 1e-3)).clamp(0.0, 1.0)
        speed = speed / stretch * ramp + speed * (1.0 - ramp)
    place = torch.arange(places, dtype=torch.float32, device=device)
    angle = place[:, None] * speed[None, :]
    return angle.cos(), angle.sin()


def stretched_scale(width: int, stretch: float) -> float:
    """Of the scores of heads `width` wide under such angles: m^2 / sqrt(width) with
    m = 1 + 0.1 log(stretch)."""
    factor = 1.0 + 0.1 * math.log(stretch) if stretch > 1.0 else 1.0
    return factor * factor / math.sqrt(width)
