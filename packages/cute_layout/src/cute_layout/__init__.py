"""CuTe's layout algebra, exact: every operation returns the right function or says why it cannot.

The names used in every program are imported at once, the others when first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cute_layout.basis import Basis, E
from cute_layout.coalesce import coalesce, filter, filter_zeros
from cute_layout.complement import complement
from cute_layout.composed import ComposedLayout, parse
from cute_layout.composition import composition
from cute_layout.divide import flat_divide, logical_divide, tiled_divide, zipped_divide
from cute_layout.errors import (
    CongruenceError,
    DivisibilityError,
    DomainError,
    LayoutError,
    NotInjectiveError,
    ParseError,
    UnificationError,
    UnsupportedError,
)
from cute_layout.inverse import inverse, left_inverse, right_inverse
from cute_layout.layout import Layout
from cute_layout.linearize import delinearize, identity, linearize
from cute_layout.measure import cosize, depth, flatten, rank, size, slice_and_offset
from cute_layout.swizzle import Swizzle
from cute_layout.table import offsets
from cute_layout.trees import compatible, congruent, crd2crd, crd2idx, idx2crd

if TYPE_CHECKING:
    from cute_layout.banks import (
        BankConflicts,
        bank_conflicts,
        choose_swizzle,
    )
    from cute_layout.common import (
        max_common_layout,
        max_common_vector,
        nullspace,
    )
    from cute_layout.drawing import (
        draw,
        draw_axes,
        draw_tv,
    )
    from cute_layout.grid import (
        Cell,
        Grid,
    )
    from cute_layout.linear import (
        LinearLayout,
        from_linear_layout,
        to_linear_layout,
    )
    from cute_layout.multiply import (
        blocked_product,
        flat_product,
        logical_product,
        raked_product,
        tile_to_shape,
        tiled_product,
        zipped_product,
    )
    from cute_layout.partial import (
        Mode,
        PartialLayout,
        Unknown,
    )
    from cute_layout.predicates import (
        equivalent,
        is_bijective,
        is_injective,
        is_surjective,
    )
    from cute_layout.recasting import (
        recast,
    )
    from cute_layout.symbolic import (
        Expression,
        Symbol,
    )
    from cute_layout.thread_value import (
        TVLayout,
    )
    from cute_layout.unification import (
        is_satisfiable,
        materialize,
        unify,
    )

__version__ = "0.1.0"

__all__ = [
    "bank_conflicts",
    "BankConflicts",
    "Basis",
    "blocked_product",
    "Cell",
    "choose_swizzle",
    "coalesce",
    "compatible",
    "complement",
    "ComposedLayout",
    "composition",
    "CongruenceError",
    "congruent",
    "cosize",
    "crd2crd",
    "crd2idx",
    "delinearize",
    "depth",
    "DivisibilityError",
    "DomainError",
    "draw",
    "draw_axes",
    "draw_tv",
    "E",
    "equivalent",
    "Expression",
    "filter",
    "filter_zeros",
    "flat_divide",
    "flat_product",
    "flatten",
    "from_linear_layout",
    "Grid",
    "identity",
    "idx2crd",
    "inverse",
    "is_bijective",
    "is_injective",
    "is_satisfiable",
    "is_surjective",
    "Layout",
    "LayoutError",
    "left_inverse",
    "linearize",
    "LinearLayout",
    "logical_divide",
    "logical_product",
    "materialize",
    "max_common_layout",
    "max_common_vector",
    "Mode",
    "NotInjectiveError",
    "nullspace",
    "offsets",
    "parse",
    "ParseError",
    "PartialLayout",
    "raked_product",
    "rank",
    "recast",
    "right_inverse",
    "size",
    "slice_and_offset",
    "Swizzle",
    "Symbol",
    "tile_to_shape",
    "tiled_divide",
    "tiled_product",
    "to_linear_layout",
    "TVLayout",
    "UnificationError",
    "unify",
    "Unknown",
    "UnsupportedError",
    "zipped_divide",
    "zipped_product",
]

_LAZY = {
    "BankConflicts": "banks",
    "Cell": "grid",
    "Expression": "symbolic",
    "Grid": "grid",
    "LinearLayout": "linear",
    "Mode": "partial",
    "PartialLayout": "partial",
    "Symbol": "symbolic",
    "TVLayout": "thread_value",
    "Unknown": "partial",
    "bank_conflicts": "banks",
    "blocked_product": "multiply",
    "choose_swizzle": "banks",
    "draw": "drawing",
    "draw_axes": "drawing",
    "draw_tv": "drawing",
    "equivalent": "predicates",
    "flat_product": "multiply",
    "from_linear_layout": "linear",
    "is_bijective": "predicates",
    "is_injective": "predicates",
    "is_satisfiable": "unification",
    "is_surjective": "predicates",
    "logical_product": "multiply",
    "materialize": "unification",
    "max_common_layout": "common",
    "max_common_vector": "common",
    "nullspace": "common",
    "raked_product": "multiply",
    "recast": "recasting",
    "tile_to_shape": "multiply",
    "tiled_product": "multiply",
    "to_linear_layout": "linear",
    "unify": "unification",
    "zipped_product": "multiply",
}


def __getattr__(name: str) -> object:
    """Load the less used names when first asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module 'cute_layout' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"cute_layout.{_LAZY[name]}"), name)
    globals()[name] = value
    return value
