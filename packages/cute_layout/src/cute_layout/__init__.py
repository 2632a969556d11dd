"""CuTe's layout algebra, exact: every operation returns the right function or says why it
cannot."""

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

__version__ = "0.1.0"

_LAZY = {
    "BankConflicts": "banks",
    "Mode": "partial",
    "PartialLayout": "partial",
    "TVLayout": "thread_value",
    "Unknown": "partial",
    "bank_conflicts": "banks",
    "choose_swizzle": "banks",
    "equivalent": "predicates",
    "is_bijective": "predicates",
    "is_injective": "predicates",
    "is_satisfiable": "unification",
    "is_surjective": "predicates",
    "materialize": "unification",
    "unify": "unification",
}


def __getattr__(name: str) -> object:
    """Load the less used names when first asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module 'cute_layout' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"cute_layout.{_LAZY[name]}"), name)
    globals()[name] = value
    return value
