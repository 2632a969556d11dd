"""tell : shows a warning, also where warnings are errors, so that no compilation fails because of
it."""

from __future__ import annotations

import warnings

from hexcute_core.errors import HexcuteWarning


def tell(message: str, kind: type[HexcuteWarning], stacklevel: int) -> None:
    """Warns as `warnings.warn` called in this place would."""
    try:
        warnings.warn(message, kind, stacklevel + 1)
    except kind as raised:
        warnings.showwarning(raised, kind, __file__, 0)
