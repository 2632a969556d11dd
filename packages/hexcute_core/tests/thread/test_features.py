"""One table says what a GPU has, and each primitive what it needs, before it is translated."""

from __future__ import annotations

import pytest

from hexcute_core.arch import arch, names
from hexcute_core.arch.features import TARGETS, capability_of, features, first_with
from hexcute_core.backend import emit
from hexcute_core.dtypes import i32
from hexcute_core.errors import BackendError
from hexcute_core.runtime.devices import runnable, runs_on
from hexcute_core.scalar import Const
from hexcute_core.thread import PRIMS, Prim, ThreadProgram
from hexcute_core.thread.prims_sm90 import HOPPER
from hexcute_core.thread.spec import Matrices, Product, Update
from hexcute_core.toolchain import TARGETS as CODES


def program(*body: Prim) -> ThreadProgram:
    one = Const(1, i32)
    return ThreadProgram("k", (), (one, one, one), 128, 0, body)


def test_every_table_is_of_a_target_and_agrees_with_it() -> None:
    assert list(names()) == list(TARGETS) == list(CODES)
    for name, target in TARGETS.items():
        table = arch(name)
        assert table.capability == target.capability == capability_of(target.code)
        assert bool(table.wgmmas) == ("wgmma" in table.features)
        assert (table.bulk is not None) == ("tma" in table.features)
        assert any(row.a_dtype.name.startswith("f8") for row in table.mmas) <= (
            "fp8" in table.features
        )
        assert runs_on(target.code, target.capability)
        assert runnable(target.capability) == name


def test_a_later_gpu_has_tma_and_no_wgmma() -> None:
    assert "wgmma" not in features((10, 0))
    assert {"tma", "clusters", "setmaxnreg", "fp8"} <= features((10, 0))
    assert first_with("wgmma") == first_with("tma") == "sm_90"


@pytest.mark.parametrize("name, target", [
    ("wgmma.commit", "sm_100"), ("wgmma.fence", "sm_100"), ("tma.commit", "sm_89"),
    ("cluster.arrive", "sm_80"),
])  # fmt: skip
def test_a_primitive_is_refused_where_the_target_lacks_its_feature(name: str, target: str) -> None:
    refused = f"{name} needs sm_90, the target is {target}"
    with pytest.raises(BackendError, match=refused) as caught:
        emit(program(Prim(name, ())), target)
    assert caught.value.fix == 'compile with target="sm_90"'


def test_a_primitive_of_later_gpus_is_translated_for_them() -> None:
    assert "cp.async.bulk.commit_group" in emit(program(Prim("tma.commit", ())), "sm_100").text


def test_rows_say_what_their_names_do() -> None:
    """What verifier and code generator read of a row is what its name is written from."""
    for name, spec in PRIMS.items():
        words = name.split(".")
        match spec.what:
            case Product() as p:
                shape = f"{p.m}x{p.n}x{p.k}"
                expected = [words[0], shape, p.c.name, p.a.name, p.b.name]
                assert words == expected + ([p.majors] if p.majors else [])
            case Update() as u:
                family = "atom" if u.returns else "red"
                assert words[:4] == [family, u.space, u.op, u.dtype.name]
                assert (u.width > 1) == (f"v{u.width}" in words)
                assert u.order == next((w for w in words if w in ORDERS), "relaxed")
                assert spec.bytes == u.width * u.dtype.bits // 8
            case Matrices() as m:
                assert words[1:] == [f"x{m.count}", *(["trans"] if m.turned else [])]
            case None:
                assert words[0] not in ("mma", "red", "atom", "ldmatrix", "stmatrix")
        assert (name in HOPPER) <= (spec.needs in ("tma", "clusters", "setmaxnreg", "wgmma"))


ORDERS = ("relaxed", "acquire", "release", "acq_rel")
