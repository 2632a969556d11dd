"""Options of a call, checked before anything is done with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from hexcute_core.arch import arch
from hexcute_core.arch.registry import names
from hexcute_core.errors import OptionError, SourceSpan
from hexcute_core.thread.timeline import Timeline

FORMS = ("text", "json", "html")


def shown(value: object) -> str:
    """A value in an error's text, however it prints itself."""
    if value is None or isinstance(value, (bool, int, float, str)):
        text = repr(value) if not isinstance(value, int) or abs(value) < 2**64 else "a huge number"
        return text if len(text) < 60 else f"{text[:57]}..."
    return f"a {type(value).__name__}"


def target(name: str, value: object, span: SourceSpan | None = None) -> str:
    """`value` if it names a GPU that there is a table for."""
    if not isinstance(value, str) or value not in names():
        fix = f"use one of {', '.join(names())}"
        raise OptionError(f"{name} is {shown(value)}, which is no GPU", span, fix)
    return arch(value).name


def flags(span: SourceSpan | None = None, **values: object) -> None:
    """Refuses what is neither True nor False."""
    for name, value in values.items():
        if not isinstance(value, bool):
            fix = f"pass {name}=True or {name}=False"
            raise OptionError(f"{name} is {shown(value)}", span, fix)


def observer(value: object, span: SourceSpan | None = None) -> None:
    """Refuses a `trace` that cannot be called."""
    if value is not None and not callable(value):
        message = f"trace is {shown(value)}, which cannot be called"
        raise OptionError(message, span, "pass a function of a stage's name and its value")


def drawn(timeline: object, form: str, span: SourceSpan | None = None) -> None:
    """Refuses a timeline that is none, or that no page is to show."""
    if timeline is not None and (form != "html" or not isinstance(timeline, Timeline)):
        raise OptionError(
            f"timeline is {shown(timeline)}, and the form is {form}", span,
            'pass what kernel.timeline(...) gave, with form="html"',
        )  # fmt: skip


def mapping(name: str, value: object, span: SourceSpan | None = None) -> Mapping[str, object]:
    """`value` if it is a mapping from names, or an empty one for None."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise OptionError(
            f"{name} is {shown(value)}, expected a mapping from names", span,
            'pass a dict, such as {"BM": 64}',
        )  # fmt: skip
    return cast("Mapping[str, object]", value)


def narrowing(value: object, span: SourceSpan | None = None) -> Mapping[str, str]:
    """`only`, from operations to what carries them."""
    found = mapping("only", value, span)
    for operation, way in found.items():
        if not isinstance(way, str):
            raise OptionError(
                f"only[{operation!r}] is {shown(way)}, expected text", span,
                'write it as explain() does, such as {"copy ga -> sa": "cp.async.8"}',
            )  # fmt: skip
    return cast("Mapping[str, str]", found)


def listing(rejected: object, form: object) -> None:
    """Refuses what `explain` does not take."""
    if form not in FORMS if isinstance(form, str) else True:
        raise OptionError(f"form is {shown(form)}", fix=f"use one of {', '.join(FORMS)}")
    if rejected is not None and (type(rejected) is not int or rejected < 0):
        fix = "pass how many candidates to list, or None for all"
        raise OptionError(f"rejected is {shown(rejected)}", fix=fix)


