"""The proof takes nothing from the solver: what hardware does is stated twice, and a solver with a
wrong table is found out."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest
import role_kernels as rk

import hexcute_core as hx
import hexcute_core.synthesis
from cute_layout import Layout, Swizzle
from hexcute_core import f16, f32
from hexcute_core.arch import arch
from hexcute_core.errors import HexcuteError, VerifyError
from hexcute_core.synthesis import operands, shared, synthesize
from hexcute_core.synthesis.proof.check import check

FOLDER = Path(hexcute_core.synthesis.__file__).parent
PROOF = sorted((FOLDER / "proof").glob("*.py"))
SYNTHESIS = "hexcute_core.synthesis"


def imported(file):
    """The modules that a source imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("file", PROOF, ids=lambda f: f.name)
def test_the_proof_imports_nothing_of_the_solver(file):
    own = (f"{SYNTHESIS}.proof", f"{SYNTHESIS}.solution")
    for module in imported(file):
        if module.startswith(SYNTHESIS):
            assert any(module == name or module.startswith(f"{name}.") for name in own), module
        assert not module.startswith("cute_layout"), module


def test_a_solution_imports_nothing_of_the_solver():
    found = [m for m in imported(FOLDER / "solution.py") if m.startswith(SYNTHESIS)]
    assert found == []
    assert len(PROOF) >= 3


m, n, k = hx.dims("m n k")


@hx.kernel(cache=False)
def along_m(a: f16[k, m], b: f16[k, n], c: f32[m, n]):
    """c = a^T b, operands contiguous along M and N."""
    hx.attrs.cuda.grid_dim = 1
    ga = hx.global_view(a, ((128, 64), (1, m)))
    gb = hx.global_view(b, ((64, 64), (1, n)))
    sa, sb = hx.shared_tensor(f16, (128, 64, 2)), hx.shared_tensor(f16, (64, 64, 2))
    pipe = hx.pipeline(2)
    with hx.warp_groups_producer(), pipe.produce() as s:
        hx.copy(ga, sa[:, :, s])
        hx.copy(gb, sb[:, :, s])
    with hx.warp_groups_consumer(2):
        rc = hx.register_tensor(f32, (128, 64))
        hx.fill(rc, 0.0)
        with pipe.consume() as s:
            hx.gemm(rc, sa[:, :, s], sb[:, :, s])
        hx.copy(rc, hx.global_view(c, ((128, 64), (n, 1))))


PROGRAMS = {
    "along k": rk.consuming.compile("sm_90", GROUPS=2).tile,
    "along m": along_m.compile("sm_90").tile,
}


def solved(name):
    """A gemm of TMA and wgmma, solved anew."""
    return synthesize(PROGRAMS[name], arch("sm_90"))


def with_shared(solution, name, **changes):
    layout = replace(solution.shared[name], **changes)
    return replace(solution, shared={**solution.shared, name: layout})


def with_first(solution, plans, **changes):
    """The solution with its first plan of a kind changed."""
    found = dict(getattr(solution, plans))
    key = next(iter(found))
    found[key] = replace(found[key], **{n: f(found[key]) for n, f in changes.items()})
    return replace(solution, **{plans: found})


MISTAKES = {
    "no swizzle": lambda s: with_shared(s, "sa", swizzle=None),
    "half a swizzle": lambda s: with_shared(s, "sa", swizzle=Swizzle(2, 3, 3)),
    "a swizzle of other rows": lambda s: with_shared(s, "sb", swizzle=Swizzle(3, 3, 4)),
    "a swizzle of other units": lambda s: with_shared(s, "sb", swizzle=Swizzle(3, 2, 3)),
    "a buffer stored by TMA without its swizzle": lambda s: with_shared(s, "sc", swizzle=None),
    "an operand by columns": lambda s: with_shared(
        s, "sb", layout=Layout(s.shared["sb"].layout.shape, (1, 64, 4096))
    ),
    "a narrower span of an operand": lambda s: with_first(s, "operands", span=lambda o: 64),
    "an operand along M": lambda s: with_first(s, "operands", major=lambda o: "m"),
    "a narrower span of a box": lambda s: with_first(s, "bulk", span=lambda p: 32),
    "a box that is too small": lambda s: with_first(
        s, "bulk", box=lambda p: (p.box[0] // 2, *p.box[1:])
    ),
    "a store for a load": lambda s: with_first(s, "bulk", name=lambda p: "tma.store"),
    "warp groups the other way": lambda s: with_first(
        s, "wgmmas", groups=lambda p: p.groups[::-1]
    ),
    "a repetition too few": lambda s: with_first(
        s, "wgmmas", repeats=lambda p: (*p.repeats[:2], p.repeats[2] - 1)
    ),
    "registers in another order": lambda s: with_first(
        s, "wgmmas", c_pieces=lambda p: p.c_pieces[::-1]
    ),
    "no plan for a gemm": lambda s: replace(s, wgmmas={}),
    "no plan for copies": lambda s: replace(s, copies={}),
    "no plan for boxes": lambda s: replace(s, bulk={}),
}


@pytest.fixture(scope="module")
def solution():
    found = solved("along k")
    check(found)
    return found


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_what_hardware_reads_is_found(solution, name):
    with pytest.raises(VerifyError) as caught:
        check(MISTAKES[name](solution))
    assert caught.value.span is not None


@pytest.mark.parametrize(("major", "span"), [("k", 128), ("m", 64), ("m", 16)])
def test_operands_along_m_are_proved_by_their_own_rule(major, span):
    found = solved("along m")
    assert {operand.major for operand in found.operands.values()} == {"m"}
    check(found)
    with pytest.raises(VerifyError):
        check(with_first(found, "operands", major=lambda o: major, span=lambda o: span))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("wrong", [Swizzle(3, 3, 4), Swizzle(2, 3, 3), Swizzle(3, 2, 3), None])
def test_a_solver_with_a_wrong_swizzle_is_found_out(monkeypatch, name, wrong):
    """All that the solver makes agrees with its table, which has a fault."""
    monkeypatch.setattr(shared, "swizzle_of", lambda span, bits: wrong)
    with pytest.raises(VerifyError):
        check(solved(name))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_solver_with_wrong_core_matrices_is_found_out(monkeypatch, name):
    right = operands.demand

    def wrong(plan, bits):
        first, *others = right(plan, bits)
        return (first, *(o._replace(stride=2 * o.stride, size=o.size // 2) for o in others))

    monkeypatch.setattr(shared, "demand", wrong)
    with pytest.raises(HexcuteError):
        check(solved(name))
