"""Keys of calls: equal exactly when the calls differ in data alone; addresses in the tensors'
order, each asked for once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from hexcute_kernels.calls import UNKNOWN, make_reader
from hexcute_kernels.schema import parse


@dataclass
class Tensor:
    """What a reader asks of a tensor, and how often it asked for the address."""

    address: int = 64
    shape: tuple[int, ...] = (4, 8)
    strides: tuple[int, ...] = (8, 1)
    dtype: str = "f16"
    ordinal: int = 0
    requires_grad: bool = False
    asked: Counter[str] = field(default_factory=Counter)

    def data_ptr(self) -> int:
        self.asked["address"] += 1
        return self.address

    def stride(self) -> tuple[int, ...]:
        return self.strides

    def is_contiguous(self) -> bool:
        return self.strides == (8, 1)

    def get_device(self) -> int:
        return self.ordinal


class Stranger(Tensor):
    """A class that no call was prepared with."""


PARAMETERS = parse("f(Tensor a, Tensor? b, Tensor c, float scale=1.0, bool on=False) -> Tensor")
READ = make_reader(PARAMETERS.parameters, 0, {Tensor})
INTO = make_reader(PARAMETERS.parameters, 2, {Tensor})


def read(
    a: Any = None, b: Any = None, scale: Any = 1.0, on: Any = False, **named: Any
) -> tuple[tuple[Any, ...], list[int]]:
    given = {"variant": None, "config": None, **named}
    return READ((a or Tensor(), b, Tensor(256), scale, on), **given)


def test_other_data_of_the_same_kind_gives_the_same_key() -> None:
    assert read(Tensor(64))[0] == read(Tensor(160))[0]
    assert read(b=Tensor(64))[0] == read(b=Tensor(160))[0]


@pytest.mark.parametrize(
    "other",
    [
        {"a": Tensor(shape=(8, 8))},
        {"a": Tensor(strides=(16, 1))},
        {"a": Tensor(strides=(1, 4))},
        {"a": Tensor(dtype="bf16")},
        {"a": Tensor(ordinal=1)},
        {"a": Tensor(address=66)},
        {"b": Tensor()},
        {"scale": 2.0},
        {"scale": 1},
        {"scale": True},
        {"on": 0},
        {"on": True},
        {"variant": "mma"},
        {"config": (1, 2)},
    ],
)
def test_whatever_a_plan_looks_at_is_in_the_key(other: dict[str, Any]) -> None:
    assert read(**other)[0] != read()[0]
    assert len({read(**other)[0], read()[0]}) == 2


def test_gradients_count_only_where_they_are_recorded() -> None:
    torch = pytest.importorskip("torch")
    with torch.no_grad():
        assert read(Tensor(requires_grad=True))[0] == read()[0]
    assert read(Tensor(requires_grad=True))[0] != read()[0]


def test_addresses_come_in_order_without_what_is_left_out() -> None:
    assert read(Tensor(64))[1] == [64, 256]
    assert read(Tensor(64), Tensor(128))[1] == [64, 128, 256]
    outs = (Tensor(512), Tensor(1024))
    for b, middle in ((None, []), (Tensor(128), [128])):
        args = (Tensor(64), b, Tensor(256), 1.0, False)
        assert INTO(args, outs, None, None)[1] == [64, *middle, 256, 512, 1024]
    assert outs[0].asked["address"] == 2 and args[0].asked["address"] == 1


@pytest.mark.parametrize("a", [Stranger(), None, "text", 3, []])
def test_what_no_call_was_prepared_with_is_never_looked_up(a: Any) -> None:
    with pytest.raises(UNKNOWN):
        READ((a, None, Tensor(), 1.0, False), None, None)
    with pytest.raises(UNKNOWN):
        INTO((Tensor(), None, Tensor(), 1.0, False), (Tensor(),), None, None)
    with pytest.raises(UNKNOWN):
        READ((Tensor(), None, Tensor(), Tensor(), False), None, None)
    with pytest.raises(UNKNOWN):
        READ((Tensor(),), None, None)
