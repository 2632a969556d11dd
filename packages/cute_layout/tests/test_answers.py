"""An argument of another kind than a function takes is refused in the package's words; a failure of
the package itself is not."""

from __future__ import annotations

from typing import Any

import pytest

import cute_layout as cl
from cute_layout.answers import ANY, answers
from cute_layout.errors import LayoutError

LAYOUT = cl.Layout((4, 8), (8, 1))
TV = cl.TVLayout(cl.Layout((2, 2)), (2, 2))


class Kind:
    """Nothing that the algebra knows."""


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)
WRONG = [None, True, 1.5, 2**70, "a", b"a", [], {}, Kind(), Kind, ENDLESS, (Kind(),)]
WRONG.append(cl.Swizzle(3, 4, 3))

CALLS = {
    "is_injective": 1, "is_surjective": 1, "is_bijective": 1, "equivalent": 2, "offsets": 1,
    "cosize": 1, "inverse": 1, "left_inverse": 1, "right_inverse": 1, "from_linear_layout": 1,
    "to_linear_layout": 1, "materialize": 1, "is_satisfiable": 1, "unify": 2, "parse": 1,
    "draw": 1, "draw_tv": 1, "draw_axes": 2, "complement": 1, "size": 2, "crd2idx": 2,
    "idx2crd": 2, "crd2crd": 2, "Symbol": 1, "TVLayout": 2, "PartialLayout": 1, "Basis": 1,
    "LinearLayout": 2,
}  # fmt: skip
TILED = [name for name in cl.__all__ if name.endswith(("_divide", "_product"))]


@pytest.mark.parametrize("value", WRONG, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("name", [*CALLS, *TILED])
def test_a_wrong_argument_is_never_a_raw_error(name: str, value: Any) -> None:
    function = getattr(cl, name)
    calls = [(LAYOUT, value), (value, LAYOUT)] if name in TILED else [(value,) * CALLS[name]]
    for arguments in calls:
        try:
            function(*arguments)
        except LayoutError as error:
            assert str(error)


@pytest.mark.parametrize("call, text", [
    (lambda: cl.is_injective((4, 8)), "is_injective takes Layout or ComposedLayout as argument 1"),
    (lambda: cl.recast(LAYOUT, "a", 8), "recast takes int as argument 2, got str"),
    (lambda: cl.unify(LAYOUT), "unify takes PartialLayout as argument 1, got Layout"),
    (lambda: cl.Swizzle("a", 1, 2), "a swizzle is three ints, got 'a', 1, 2"),
    (lambda: cl.TVLayout((1, 2), (2, 2)), "TVLayout takes a layout, got tuple"),
    (lambda: LAYOUT["a"], "has no mode a"),
    (lambda: cl.crd2idx((1.5, "a"), (3, 4)), "made of ints, got tuple and tuple"),
    (lambda: cl.draw_axes(TV, 3), "drawn on matplotlib's axes, got int"),
    (lambda: cl.Expression(3, {}), "write Symbol"),
    (lambda: cl.offsets(3), "offsets are those of a layout, got int"),
])  # fmt: skip
def test_it_is_told_what_was_expected(call: Any, text: str) -> None:
    with pytest.raises(LayoutError) as caught:
        call()
    assert text in str(caught.value)


def test_a_failure_of_its_own_stays_what_it_is() -> None:
    @answers((int,), ANY)
    def broken(number: int, thing: object) -> int:
        return number // 0

    with pytest.raises(ZeroDivisionError):
        broken(3, "a")
    with pytest.raises(LayoutError, match="broken takes int as argument 1, got str"):
        broken("3", "a")  # type: ignore[arg-type]
