"""C++ names for the variables of a kernel: legal, unique in a function, the same every time."""

from __future__ import annotations

import re
from typing import Any

_WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
    char32_t class compl concept const consteval constexpr constinit const_cast continue co_await
    co_return co_yield decltype default delete do double dynamic_cast else enum explicit export
    extern false float for friend goto if inline int long mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires
    return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename union unsigned using virtual void volatile
    wchar_t while xor xor_eq threadIdx blockIdx blockDim gridDim warpSize half min max abs llabs
    exp expf exp2 exp2f log logf log2 log2f sqrt sqrtf rsqrt rsqrtf tanh tanhf sin sinf cos cosf erf
    erff floor floorf ceil ceilf fabs fabsf fmin fminf fmax fmaxf pow powf trunc truncf fmod fmodf
"""
SHORTEST_MACRO = 3
_RESERVED = frozenset(_WORDS.split())


def identifier(name: str) -> str:
    """`name` as a C++ identifier that is no keyword, no macro and no function the text calls.

    The compiler's macros, such as NULL, have no lower-case letter; the language's own begin with
    an underscore and a capital.
    """
    text = re.sub(r"\W", "_", name, flags=re.ASCII)
    if not text or text[0].isdigit():
        text = "v" + text
    macro = len(text) >= SHORTEST_MACRO and text == text.upper()
    taken = text in _RESERVED or re.match(r"hx_|__|_[A-Z]", text)
    return text + "_" if macro or taken else text


class Names:
    """Stands in for hidet's namer: one name a variable object, numbered where hints repeat."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._names: dict[int, tuple[Any, str]] = {}

    def clear(self) -> None:
        """Forgets all names; called at the start of each function."""
        self._taken.clear()
        self._names.clear()

    def get_name(self, var: Any, hint: str | None = None) -> str:
        """The name of `var`; a variable with a fixed name keeps it."""
        if hint is None and var.name is not None:
            return str(var.name)
        known = self._names.get(id(var))
        if known is not None:
            return known[1]
        base = identifier(hint or var.hint or "v")
        name, count = base, 0
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        # The variable is kept with its name, so that its id stays its own.
        self._names[id(var)] = (var, name)
        return name
