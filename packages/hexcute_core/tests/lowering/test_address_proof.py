"""The proof of lowered addresses: right programs pass, planted faults of the lowering do not."""

from dataclasses import replace

import pytest

import hexcute_core as hx
from hexcute_core import f16, i16
from hexcute_core.arch import arch
from hexcute_core.driver.pipeline import Compilation, Request
from hexcute_core.driver.proof import AddressProof, prove
from hexcute_core.errors import VerifyError
from hexcute_core.lowering import copy, global_address, lower
from hexcute_core.lowering.global_address import GlobalAddress
from hexcute_core.lowering.shared_address import SharedAddress
from hexcute_core.scalar import Binary, Const, Var, add, compare, mul
from hexcute_core.scalar.visit import rebuild
from hexcute_core.thread import For, GlobalPtr, If, Prim, Regs, SharedPtr
from hexcute_core.tile.facts import Bounds
from hexcute_core.tile.promise import Promise
from hexcute_kernels.gemm.pipelined import pipelined_gemm
from hexcute_kernels.gemm.simple import simple_gemm

b, m, n = hx.dims("b m n")


@hx.kernel(cache=False)
def sub_modes(a: i16[24], out: i16[24, 12]):
    """Twelve rows in digits of 6 and 2, of which a thread holds four: 4 + 2 needs a carry."""
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(i16, (12, 24))
    hx.copy(hx.global_view(a, (((6, 2), 24), ((2, 1), 0))), r)
    hx.copy(r, hx.global_view(out, ((12, 24), (1, 12))))


@hx.kernel(cache=False)
def before(a: f16[m, n], out: f16[m, n]):
    """The rows before a block's own, which the first block does not have."""
    hx.attrs.cuda.grid_dim = hx.cdiv(n, 64), hx.cdiv(m, 16)
    hx.attrs.cuda.block_dim = 64
    x, y = hx.blockIdx.x * 64, hx.blockIdx.y * 16
    r = hx.register_tensor(f16, (16, 64))
    hx.copy(hx.global_view(a[y - 3 :, x:], ((16, 64), (n, 1))), r)
    hx.copy(r, hx.global_view(out[y:, x:], ((16, 64), (n, 1))))


@hx.kernel(cache=False)
def turned(a: f16[m, n], out: f16[n, m]):
    """Through swizzled shared memory, the rows of one side the columns of the other."""
    hx.attrs.cuda.grid_dim = hx.cdiv(n, 64), hx.cdiv(m, 64)
    hx.attrs.cuda.block_dim = 128
    x, y = hx.blockIdx.x * 64, hx.blockIdx.y * 64
    s = hx.shared_tensor(f16, (64, 64))
    r = hx.register_tensor(f16, (64, 64))
    hx.copy(hx.global_view(a[y:, x:], ((64, 64), (n, 1))), s)
    hx.cp_async_wait(0)
    hx.syncthreads()
    hx.copy(s, r)
    hx.copy(r, hx.global_view(out[x:, y:], ((64, 64), (1, m))))


@hx.kernel(cache=False)
def overhanging(a: f16[m, 8], out: f16[m, 8]):
    """229 rows on 128 threads: two rounds, the second for 101 of them."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 229)
    hx.attrs.cuda.block_dim = 128
    y = hx.blockIdx.x * 229
    r = hx.register_tensor(f16, (229, 8))
    hx.copy(hx.global_view(a[y:, :], ((229, 8), (8, 1))), r)
    hx.copy(r, hx.global_view(out[y:, :], ((229, 8), (8, 1))))


@hx.kernel(cache=False)
def deep(a: f16[b, m, n], out: f16[b, m, n]):
    """Matrices of a stack, as far apart as a product of two extents, which may need 64 bits."""
    hx.attrs.cuda.grid_dim = hx.cdiv(n, 32), hx.cdiv(m, 32), b
    hx.attrs.cuda.block_dim = 32
    x, y, z = hx.blockIdx.x * 32, hx.blockIdx.y * 32, hx.blockIdx.z
    r = hx.register_tensor(f16, (32, 32))
    hx.copy(hx.global_view(a[z, y:, x:], ((32, 32), (n, 1))), r)
    hx.copy(r, hx.global_view(out[z, y:, x:], ((32, 32), (n, 1))))


KERNELS = {k.definition.fn.__name__: k for k in (sub_modes, before, turned, overhanging, deep)}


def solved(kernel, wide=False):
    request = Request(kernel.definition, {}, Promise(wide=wide), arch("sm_80"), "sm_80")
    return Compilation(request).solution


def proved(solution):
    return prove(solution, lower(solution, arch("sm_80")))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_what_is_lowered_right_is_proved(name, wide):
    solution = solved(KERNELS[name], wide)
    found = proved(solution)
    assert set(found.proved) == set(solution.copies) and not found.left


@pytest.mark.parametrize("kernel", [simple_gemm, pipelined_gemm(f16)])
def test_every_copy_of_a_product_is_proved(kernel):
    told = {}
    compiled = kernel.compile("sm_80", verify=True, trace=told.setdefault)
    assert compiled.thread is told["lowering"]
    assert isinstance(told["proof"], AddressProof)
    assert set(told["proof"].proved) == set(compiled.solution.copies)


def no_carry(patch):
    patch.setattr(GlobalAddress, "_carries", lambda *_: False)


def no_lower_bound(patch):
    whole = global_address._inside
    patch.setattr(global_address, "_inside", lambda c, e, known: whole(c, e, Bounds(0, known.high)))


def no_upper_bound(patch):
    whole = global_address._inside

    def inside(coordinate, extent, known):
        return whole(coordinate, Const(1, extent.dtype), Bounds(known.low, 0))

    patch.setattr(global_address, "_inside", inside)


def no_swizzle(patch):
    patch.setattr(SharedAddress, "_swizzled", lambda self, e: e)


def other_swizzle(patch):
    whole = SharedAddress._swizzled

    def swizzled(self, e):
        swizzle = self._layout.swizzle
        if swizzle is None or isinstance(e, Const):
            return whole(self, e)
        return Binary("xor", e, Binary("and", e, Const(16, e.dtype), e.dtype), e.dtype)

    patch.setattr(SharedAddress, "_swizzled", swizzled)


def no_edge(patch):
    patch.setattr(copy, "inside", lambda *_: None)


def narrow_strides(patch):
    patch.setattr(global_address.dtypes, "i64", hx.i32)


FAULTS = [
    (sub_modes, no_carry, False),
    (before, no_lower_bound, False),
    (before, no_upper_bound, False),
    (turned, no_upper_bound, False),
    (turned, no_swizzle, False),
    (turned, other_swizzle, False),
    (overhanging, no_edge, False),
    (deep, narrow_strides, True),
]


@pytest.mark.parametrize("kernel, fault, wide", FAULTS, ids=lambda x: getattr(x, "__name__", None))
def test_a_fault_of_the_lowering_is_refused(kernel, fault, wide, monkeypatch):
    solution = solved(kernel, wide)
    fault(monkeypatch)
    with pytest.raises(VerifyError, match="the lowering of copy") as refused:
        proved(solution)
    assert refused.value.span is not None


def changed(stmts, op, change):
    """A program's statements with the calls of one copy changed."""
    for s in stmts:
        match s:
            case Prim() if s.op == op:
                yield change(s)
            case For():
                yield replace(s, body=tuple(changed(s.body, op, change)))
            case If():
                then, other = (tuple(changed(x, op, change)) for x in (s.then, s.otherwise))
                yield replace(s, then=then, otherwise=other)
            case _:
                yield s


def each(kind, make):
    """A change of every operand of a kind."""

    def change(prim):
        found = tuple(make(o) if isinstance(o, kind) else o for o in prim.operands)
        return replace(prim, operands=found)

    return change


def strides_doubled(e):
    """Every number that something is multiplied by, doubled."""
    e = rebuild(e, strides_doubled)
    return mul(e, 2) if isinstance(e, Binary) and e.op == "mul" else e


def unguarded(prim):
    *operands, last = prim.operands
    if isinstance(last, (Regs, GlobalPtr, SharedPtr)):
        return prim
    return replace(prim, operands=(*operands, Const(True, hx.boolean)))


def fewer(prim):
    *operands, last = prim.operands
    if isinstance(last, (Regs, GlobalPtr, SharedPtr)):
        return prim
    low = compare("lt", Var("threadIdx.x", hx.i32), 7)
    return replace(prim, operands=(*operands, low))


CHANGES = {
    "element": each(GlobalPtr, lambda o: replace(o, offset=add(o.offset, 1))),
    "stride": each(GlobalPtr, lambda o: replace(o, offset=strides_doubled(o.offset))),
    "thread": each(GlobalPtr, lambda o: replace(o, offset=add(o.offset, Var("threadIdx.x")))),
    "tensor": each(GlobalPtr, lambda o: replace(o, param="out" if o.param == "a" else "a")),
    "byte": each(SharedPtr, lambda o: replace(o, offset=mul(o.offset, 2))),
    "register": each(Regs, lambda o: replace(o, offset=add(o.offset, int(o.array == "r")))),
    "pieces": each(Regs, lambda o: replace(o, pieces=o.pieces + (1,) * (o.array == "r"))),
    "predicate": unguarded,
    "too few": fewer,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", KERNELS)
def test_a_changed_access_is_refused(name, change):
    solution = solved(KERNELS[name])
    lowered, made = lower(solution, arch("sm_80")), 0
    for op in solution.copies:
        body = tuple(changed(lowered.body, op, CHANGES[change]))
        if body == lowered.body:
            continue
        made += 1
        with pytest.raises(VerifyError):
            prove(solution, replace(lowered, body=body))
    assert made or change in ("byte", "stride", "predicate")


def test_a_copy_that_is_not_lowered_is_refused():
    solution = solved(before)
    lowered = lower(solution, arch("sm_80"))
    op = next(iter(solution.copies))
    body = tuple(changed(lowered.body, op, lambda prim: replace(prim, op=None)))
    with pytest.raises(VerifyError, match="nothing was lowered of copy"):
        prove(solution, replace(lowered, body=body))


def test_what_is_not_covered_is_said():
    @hx.kernel(cache=False)
    def boxes(a: f16[m, n], out: f16[m, n]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 128
        s = hx.shared_tensor(f16, (64, 64))
        r = hx.register_tensor(f16, (64, 64))
        hx.copy(hx.global_view(a, ((64, 64), (n, 1))), r)
        hx.copy(r, s)
        hx.syncthreads()
        hx.copy(s, hx.global_view(out, ((64, 64), (n, 1))))

    told = {}
    compiled = boxes.compile("sm_90", verify=True, trace=told.setdefault)
    assert compiled.thread is told["lowering"] and len(compiled.solution.bulk) == 1
    found = told["proof"]
    assert [why for _, why in found.left] == ["the boxes of TMA"]
    assert "addresses of 2 copies proved\nnot covered: copy s -> " in str(found)
    assert "the boxes of TMA" in str(found)
