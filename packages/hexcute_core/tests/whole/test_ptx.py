"""hx.ptx: instructions of the author's own, in machine code, and by their meaning in simulation."""

import linecache
import re
from pathlib import Path

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import boolean, f16, f32, i32, i64, u8, u32
from hexcute_core.errors import FrontendError, SimulationError
from hexcute_core.frontend import define, trace
from hexcute_core.tile.promise import Promise

m = hx.dim("m")


@hx.kernel
def counted(x: u32[m], y: i32[m], z: f32[m]):
    """y is the number of ones in x, z = 2 z + 1."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 32)
    hx.attrs.cuda.block_dim = 32
    first = hx.blockIdx.x * 32
    r, c, f = (hx.register_tensor(t, (32,)) for t in (u32, i32, f32))
    hx.copy(hx.global_view(x[first:], ((32,), (1,))), r)
    hx.copy(hx.global_view(z[first:], ((32,), (1,))), f)
    for (i,) in hx.elements(c):
        a = r[i]
        b = a - ((a >> 1) & 0x55555555)
        d = (b & 0x33333333) + ((b >> 2) & 0x33333333)
        ones = (((d + (d >> 4)) & 0x0F0F0F0F) * 0x01010101) >> 24
        c[i] = hx.ptx("popc.b32 %0, %1;", a, dtype=i32, meaning=hx.cast(ones, i32))
        f[i] = hx.ptx("fma.rn.f32 %0, %1, %2, %3;", f[i], 2.0, 1.0, dtype=f32,
                      meaning=f[i] * 2.0 + 1.0)  # fmt: skip
    hx.copy(c, hx.global_view(y[first:], ((32,), (1,))))
    hx.copy(f, hx.global_view(z[first:], ((32,), (1,))))


@hx.kernel
def slept(x: i32[32]):
    """Nanoseconds that nobody sees, and the lane's number by two percents."""
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(i32, (32,))
    hx.ptx("nanosleep.u32 %0;", 20)
    for (i,) in hx.elements(r):
        r[i] = hx.ptx("mov.u32 %0, %%laneid;", dtype=i32, meaning=hx.threadIdx.x % 32)
    hx.copy(r, hx.global_view(x, ((32,), (1,))))


@hx.kernel
def doubled(x: f16[64]):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(f16, (64,))
    hx.copy(hx.global_view(x, ((64,), (1,))), r)
    for (i,) in hx.elements(r):
        r[i] = hx.ptx("add.f16 %0, %1, %1;", r[i], dtype=f16, meaning=r[i] + r[i])
    hx.copy(r, hx.global_view(x, ((64,), (1,))))


@hx.kernel
def silent(x: i32[32]):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(i32, (32,))
    for (i,) in hx.elements(r):
        r[i] = hx.ptx("brev.b32 %0, %1;", i, dtype=i32)
    hx.copy(r, hx.global_view(x, ((32,), (1,))))


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_instructions_are_in_the_machine_code(target: str) -> None:
    for kernel, words in (
        (counted, ("popc.b32", "fma.rn.f32")), (slept, ("nanosleep.u32", "%laneid")),
        (doubled, ("add.f16",)), (silent, ("brev.b32",)),
    ):  # fmt: skip
        text = kernel.compile(target, verify=True).ptx()
        assert all(word in text for word in words), text


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_their_meaning_is_simulated(target: str) -> None:
    x = np.random.default_rng(0).integers(0, 2**32, 70, dtype=np.uint32)
    y, z = np.zeros(70, np.int32), np.arange(70, dtype=np.float32)
    counted.simulate(x, y, z, target=target, compare=True)
    assert y.tolist() == [int(v).bit_count() for v in x]
    assert np.array_equal(z, 2 * np.arange(70) + 1)
    half = np.arange(64, dtype=np.float16)
    doubled.simulate(half, target=target, compare=True)
    assert np.array_equal(half, 2 * np.arange(64))


@pytest.mark.gpu
def test_a_gpu_runs_them() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(70, device="cuda").to(torch.int32).view(torch.uint32)
    y, z = torch.zeros(70, dtype=torch.int32, device="cuda"), torch.arange(70.0, device="cuda")
    counted(x, y, z)
    assert y.tolist() == [v.bit_count() for v in range(70)]
    assert torch.equal(z, 2 * torch.arange(70.0, device="cuda") + 1)
    half = torch.arange(64, device="cuda").half()
    doubled(half)
    assert torch.equal(half, 2 * torch.arange(64, device="cuda").half())
    lanes = torch.zeros(32, dtype=torch.int32, device="cuda")
    slept(lanes)
    assert lanes.tolist() == list(range(32))


def test_without_a_meaning_simulating_ends_there() -> None:
    with pytest.raises(SimulationError, match="no meaning for the instructions `brev") as caught:
        silent.simulate(np.zeros(32, np.int32))
    assert caught.value.fix == (
        "say what they compute, hx.ptx(..., meaning=expression), or run it on a GPU"
    )
    span = caught.value.span
    assert "hx.ptx(" in linecache.getline(span.file, span.line)
    with pytest.raises(SimulationError, match="nanosleep"):
        slept.simulate(np.zeros(32, np.int32))


def few(x: i32[m], n: i32):
    hx.ptx("add.s32 %0, %1, %2;", n, dtype=i32)


def many(x: i32[m], n: i32):
    hx.ptx("brev.b32 %0, %1;", n, n, dtype=i32)


def register(x: i32[m], n: i32):
    hx.ptx("mov.u32 %0, %laneid;", dtype=i32)


def text(x: i32[m], n: i32):
    hx.ptx('mov.u32 %0, "a";', dtype=i32)


def tile(x: i32[m], n: i32):
    hx.ptx("brev.b32 %0, %1;", hx.register_tensor(i32, (4,)), dtype=i32)


def bytes_(x: i32[m], n: i32):
    hx.ptx("brev.b32 %0, %1;", n, dtype=u8)


def other(x: i32[m], n: i32):
    hx.ptx("brev.b32 %0, %1;", n, dtype=i32, meaning=hx.cast(n, i64))


def effect(x: i32[m], n: i32):
    hx.ptx("nanosleep.u32 %0;", n, meaning=n)


def condition(x: i32[m], n: i32):
    hx.ptx("brev.b32 %0, %1;", n > 3, dtype=i32)


DECLARE = "declare each operand by an argument, the result by dtype="
REFUSED = {
    few: ("does not name the operands %0 to %1, each of them", DECLARE),
    many: ("does not name the operands %0 to %2, each of them", DECLARE),
    register: ("does not name the operands", DECLARE),
    text: ("hx.ptx takes the text of instructions", "write hx.ptx("),
    tile: ("hx.ptx takes scalars", "pass elements of the tile inside"),
    bytes_: ("hx.ptx gives u8, for which PTX has no registers", "use one of f16, bf16"),
    condition: ("hx.ptx takes bool, for which PTX has no registers", "and hx.cast or bits of an"),
    other: ("hx.ptx gives i32, its meaning is of i64", "write meaning=hx.cast(..., i32)"),
    effect: ("without dtype= has no value", "leave meaning= out, or ask for the result by dtype="),
}


@pytest.mark.parametrize("body", REFUSED, ids=lambda body: body.__name__)
def test_operands_that_are_none_are_refused_where_they_stand(body: object) -> None:
    with pytest.raises(FrontendError) as caught:
        trace(define(body), {}, Promise())
    message, fix = REFUSED[body]
    assert message in caught.value.message and fix in str(caught.value.fix)
    assert "hx.ptx(" in linecache.getline(caught.value.span.file, caught.value.span.line)


DOCS = Path(__file__).parents[4] / "docs" / "language.md"
ROW = re.compile(r"^\| (`.*`) \| floats of one type", re.MULTILINE)


FUNCTIONS = re.findall(r"`(\w+)`", ROW.findall(DOCS.read_text(encoding="utf-8"))[0])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_the_page_lists_are_there(name: str) -> None:
    assert len(FUNCTIONS) == 18
    count = {"fma": 3, "atan2": 2}.get(name, 1)
    kind = boolean if name.startswith("is") else f32

    @hx.kernel(cache=False)
    def called(x: f32[32]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(f32, (32,))
        hx.copy(hx.global_view(x, ((32,), (1,))), r)
        for (i,) in hx.elements(r):
            r[i] = hx.cast(hx.primitive(name, *[r[i]] * count, dtype=kind), f32)
        hx.copy(r, hx.global_view(x, ((32,), (1,))))

    assert called.compile("sm_80").source()


@pytest.mark.parametrize("name", ["activemask", "syncwarp", "fence_acq_rel_cta",
                                  "fence_acq_rel_gpu", "fence_acq_rel_sys"])  # fmt: skip
def test_statements_that_the_page_lists_are_there(name: str) -> None:
    @hx.kernel(cache=False)
    def called(x: i32[32]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        hx.primitive(name)

    assert name in called.compile("sm_80").source()
    assert f"`{name}`" in DOCS.read_text(encoding="utf-8")
