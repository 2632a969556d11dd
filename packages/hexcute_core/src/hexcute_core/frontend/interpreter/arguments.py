"""Arguments that a function does not take: what is wrong with a call, and how it is written.

A keyword that the function does not have is named before an argument that is missing, since it
most often is that argument under another name.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping, Sequence

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def misfit(
    signature: inspect.Signature, name: str, args: Sequence[object], kwargs: Mapping[str, object]
) -> tuple[str, str] | None:
    """(what is wrong, the fix) where `signature` does not take the arguments, else None."""
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        parameters = signature.parameters.values()
        written = f"call {name}({', '.join(str(p).split(':')[0] for p in parameters)})"
        unknown = _unknown(signature, kwargs)
        if unknown is None:
            return str(error), written
        meant = _meant(signature, unknown, len(args), kwargs)
        instead = f"write {meant}= for {unknown}=: " if meant is not None else ""
        return f"it has no argument `{unknown}`", instead + written
    return None


def _unknown(signature: inspect.Signature, kwargs: Mapping[str, object]) -> str | None:
    """The first keyword that the signature does not have."""
    parameters = signature.parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return None
    named = [p.name for p in parameters.values() if p.kind in _BY_NAME]
    return next((key for key in kwargs if key not in named), None)


def _meant(
    signature: inspect.Signature, unknown: str, given: int, kwargs: Mapping[str, object]
) -> str | None:
    """The free parameter spelled most like `unknown`, else the first that has to be given."""
    free = [
        p
        for at, p in enumerate(signature.parameters.values())
        if p.kind in _BY_NAME
        and p.name not in kwargs
        and (p.kind is p.KEYWORD_ONLY or at >= given)
    ]
    close = difflib.get_close_matches(unknown, [p.name for p in free], 1)
    required = [p.name for p in free if p.default is p.empty]
    return next(iter([*close, *required]), None)
