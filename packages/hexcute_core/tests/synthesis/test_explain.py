"""explain(): text against goldens, JSON against the solution, HTML well formed."""

import json
from html.parser import HTMLParser

import goldens
import pytest
import tile_builder
from plain_kernels import register_gemm, softmax, staged_gemm

import hexcute_core as hx
from hexcute_core import f32
from hexcute_core.arch import arch
from hexcute_core.frontend import define, trace
from hexcute_core.scalar import Var
from hexcute_core.synthesis import synthesize
from hexcute_core.synthesis.explain.explanation import explanation
from hexcute_core.synthesis.explain.page import explain_html
from hexcute_core.synthesis.explain.text import explain_json, explain_text
from hexcute_core.synthesis.timeline import block_clocks
from hexcute_core.tile.promise import Promise

KERNELS = {f.__name__: f for f in (register_gemm, staged_gemm, softmax)}


def solved(name, target="sm_80", aligned=True):
    definition = define(KERNELS[name])
    promise = Promise()
    if aligned:
        multiples = tuple((s.name, 8) for s in definition.symbols)
        promise = Promise(multiples, frozenset(p.name for p in definition.params))
    return synthesize(trace(definition, {}, promise), arch(target))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("aligned", [True, False])
def test_text(name, aligned, update_goldens):
    text = explain_text(solved(name, aligned=aligned), arch("sm_80"))
    case = "aligned" if aligned else "unaligned"
    placed = goldens.within(KERNELS[name], text)
    goldens.same(f"explain_{name}_sm80_{case}.txt", placed, update_goldens)


def test_text_may_list_every_candidate_that_lost():
    solution = solved("staged_gemm")
    whole = explain_text(solution, arch("sm_80"), None)
    assert "more" not in whole.splitlines()[-1]
    assert len(whole.splitlines()) > len(explain_text(solution, arch("sm_80"), 2).splitlines())


def test_json_says_what_the_solution_is():
    solution = solved("staged_gemm")
    page = json.loads(explain_json(solution, arch("sm_80")))
    assert page["kernel"] == "staged_gemm" and page["target"] == "sm_80" and page["threads"] == 128
    shared = {t["name"]: t["layout"] for t in page["tensors"] if t["space"] == "shared"}
    assert shared == {name: str(layout) for name, layout in solution.shared.items()}
    copies = [o for o in page["operations"] if o["kind"] == "copy"]
    assert [o["bytes"] for o in copies] == [p.row.bytes for _, p in sorted(solution.copies.items())]
    assert page["clocks"] == pytest.approx(sum(o["clocks"] for o in page["operations"]))
    assert page["clocks"] == pytest.approx(sum(page["clocks_by_kind"].values()))
    assert all(r["reason"] for r in page["rejected"]) and page["rejected"]


class _Tags(HTMLParser):
    """Checks that tags close in order."""

    VOID = {"meta", "path", "rect", "line", "circle", "br", "use", "input"}

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], set()

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.add(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_html_is_one_page_with_tables_and_a_program():
    solution = solved("staged_gemm")
    page = explain_html(solution, arch("sm_80"))
    tags = _Tags()
    tags.feed(page)
    assert not tags.open
    assert {"table", "section", "script"} <= tags.seen
    assert "http" not in page.replace("http://www.w3.org", ""), "the page stands alone"
    for plan in solution.copies.values():
        assert plan.name in page
    assert "banks of shared memory" in page


def test_a_page_without_shared_memory_says_so():
    assert "No copy goes through shared memory." in explain_html(solved("softmax"), arch("sm_80"))


def test_every_candidate_that_lost_has_a_reason():
    for name in KERNELS:
        found = explanation(solved(name, aligned=False), arch("sm_80"))
        assert all(r.reason and r.candidate for r in found.rejected)


def test_a_block_takes_less_than_its_work_and_more_than_its_busiest_unit():
    found = explanation(solved("staged_gemm"), arch("sm_80"))
    assert found.clocks_by_kind["gemm"] < found.estimate


def test_the_estimate_grows_with_the_loop_by_its_steady_state():
    def clocks(trips):
        b = tile_builder.TileBuilder(threads=128)
        a, c = b.tile("a", f32, 64, 64), b.tile("c", f32, 64, 64)
        r, total = b.register("r", f32, 64, 64), b.register("t", f32, 64, 64)
        b.fill(total, 0.0, f32)
        with b.loop("i", trips):
            b.copy(a, r)
            b.map(total, Var("$0", f32) + Var("$1", f32), total, r)
        b.copy(total, c)
        return block_clocks(synthesize(b.program(), arch("sm_80")))

    first, second = clocks(20) - clocks(10), clocks(40) - clocks(20)
    assert first > 0 and second == pytest.approx(2 * first)


def test_the_estimate_takes_no_number_for_one_that_is_read_or_behind_a_condition():
    """A divisor that memory holds, and one that the first block has only where it is not zero."""
    n = hx.dim("n")

    @hx.kernel
    def rounds(t: hx.i32[n], x: hx.f32[n], *, READ: bool = True):
        hx.attrs.cuda.grid_dim, hx.attrs.cuda.block_dim = 4, 128
        r = hx.register_tensor(hx.f32, (128,))
        hx.fill(r, 0.0)
        many = t[0] if READ else hx.blockIdx.x
        if many > 0:
            for i in range(n // many):
                hx.copy(r, hx.global_view(x[i * 128 :], ((128,), (1,))))

    for read in (True, False):
        assert "a block alone takes" in rounds.compile("sm_80", READ=read).explain()
