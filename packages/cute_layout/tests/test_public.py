"""The public names, their documentation and its examples, and the library's own rules."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil

import pycute_suite
import pytest

import cute_layout

NAMES = [
    "Layout",
    "parse",
    "offsets",
    "size",
    "cosize",
    "rank",
    "depth",
    "flatten",
    "congruent",
    "compatible",
    "crd2idx",
    "idx2crd",
    "crd2crd",
    "coalesce",
    "filter_zeros",
    "filter",
    "composition",
    "complement",
    "right_inverse",
    "left_inverse",
    "inverse",
    "logical_divide",
    "zipped_divide",
    "tiled_divide",
    "flat_divide",
    "logical_product",
    "zipped_product",
    "tiled_product",
    "flat_product",
    "blocked_product",
    "raked_product",
    "tile_to_shape",
    "max_common_layout",
    "max_common_vector",
    "nullspace",
    "recast",
    "E",
    "linearize",
    "Swizzle",
    "ComposedLayout",
    "TVLayout",
    "PartialLayout",
    "unify",
    "materialize",
    "bank_conflicts",
    "choose_swizzle",
    "equivalent",
    "to_linear_layout",
    "from_linear_layout",
    "is_injective",
    "is_surjective",
    "is_bijective",
    "draw",
    "draw_tv",
    "LayoutError",
    "CongruenceError",
    "DivisibilityError",
    "NotInjectiveError",
    "DomainError",
    "UnificationError",
    "UnsupportedError",
]

MODULES = [module.name for module in pkgutil.iter_modules(cute_layout.__path__)]


@pytest.mark.parametrize("name", NAMES)
def test_name_is_public_and_documented(name: str) -> None:
    value = getattr(cute_layout, name)
    assert name in cute_layout.__all__ and inspect.getdoc(value)


def test_all_names_load_and_others_do_not() -> None:
    assert all(hasattr(cute_layout, name) for name in cute_layout.__all__)
    assert len(set(cute_layout.__all__)) == len(cute_layout.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        cute_layout.nonsense  # noqa: B018


@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module: str) -> None:
    found = doctest.testmod(importlib.import_module(f"cute_layout.{module}"))
    assert found.failed == 0


def test_examples_exist() -> None:
    functions = [getattr(cute_layout, name) for name in NAMES]
    algebra = [f for f in functions if inspect.isfunction(f)]
    without = [f.__name__ for f in algebra if ">>>" not in (f.__doc__ or "")]
    assert without == []


def test_errors_are_value_errors_with_a_witness() -> None:
    kinds = [getattr(cute_layout, name) for name in NAMES if name.endswith("Error")]
    assert all(issubclass(kind, cute_layout.LayoutError) for kind in kinds)
    assert issubclass(cute_layout.LayoutError, ValueError)
    error = cute_layout.DomainError("no", witness="i=5: A(B(i))=8, R(i)=7")
    assert error.witness in str(error) and cute_layout.LayoutError("no").witness == ""


def test_the_pycute_shim() -> None:
    module = pycute_suite.shim()
    assert module.shape_div(((3, 4), 6), 36) == ((1, 1), 2)
    assert module.inner_product(((2, 3), 4), ((2, 1), 2)) == 15
    assert isinstance(3, module.Integer) and not isinstance(True, module.Integer)
    assert set(cute_layout.__all__) < set(module.__all__)
