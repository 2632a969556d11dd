"""A mypy plugin: in a kernel's signature `x: f16[m, k]` is a tensor and `n: i32` a number.

To mypy an element type is a variable and no type. Write `plugins = hexcute_core.mypy_plugin` into
its configuration. What tiles and numbers of a kernel become is left to the compiler's own errors.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.plugin import AnalyzeTypeContext, Plugin
from mypy.types import AnyType, Type, TypeOfAny

from hexcute_core.dtypes import ALL

MODULE = "hexcute_core.dtypes"
TENSOR = "hexcute_core.frontend.language.params.Param"


class ElementTypes(Plugin):
    """Gives annotations by element types their meaning."""

    def get_type_analyze_hook(self, fullname: str) -> Callable[[AnalyzeTypeContext], Type] | None:
        """The meaning of `fullname` as a type, where it is an element type."""
        module, _, name = fullname.rpartition(".")
        return _meaning if module == MODULE and name in NAMES else None


NAMES = frozenset("boolean" if dtype.name == "bool" else dtype.name for dtype in ALL)


def _meaning(ctx: AnalyzeTypeContext) -> Type:
    if ctx.type.args:
        tensor: Type = ctx.api.named_type(TENSOR, [])
        return tensor
    return AnyType(TypeOfAny.explicit)


def plugin(version: str) -> type[Plugin]:
    """What mypy asks for."""
    return ElementTypes
