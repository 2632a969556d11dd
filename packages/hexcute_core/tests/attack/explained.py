"""explained(verdict) = why a planted mistake has no effect, where the proof says that it has none.

The proof needs no reason; whoever reads the log does.
"""

from __future__ import annotations

import re

from attack.verdict import Verdict

EXPLAINED: dict[str, str] = {
    r"(delete|move): .*fence\.mbarrier|move: .*mbarrier\.init":
        "the barrier is one that no engine uses: threads learn of it where the block, or the "
        "cluster, meets",
    r"move: .*wgmma\.fence .*to the front":
        "no thread touches a register of the product between the turns of its loop: one fence "
        "before the loop shows them all",
    r"(split_k|sent_by_tma): (fence\.proxy|cluster\.wait)":
        "a fence before which nothing was written that TMA or a product touches, or a wait that "
        "passes over it",
    r": pipelined_across: (cp\.async\.wait|bar\.sync)":
        "the compiler's own wait and barrier where memory changes hands: the author's last wait "
        "has left no group",
    r": scan: (cp\.async\.|bar\.sync)":
        "memory that nobody has used before, or that lanes of one warp use alone, or where the "
        "compiler has put a wait and a barrier of its own beside the author's",
    r": (helped_scan|thin_fp8): fence\.proxy":
        "a pipeline shows TMA and products what threads wrote: here threads alone read it",
    r": (helped_scan|fp8|thin_fp8|split_fp8): (bar\.warp\.sync|wgmma\.wait)":
        "lanes of a warp meet before one of them arrives for all: another ring, or a product "
        "that all four warps wait for, orders the same",
    r": thin_fp8: cp\.async\.wait":
        "the author's wait for copies whose arrival at the barrier has been waited for",
    r": fp8: wgmma\.fence":
        "what stands between writes registers that no product uses",
    r": fp8: (tma\.wait\.read|bar\.named\.sync)":
        "it keeps a tile from being written over that is still stored, and the block has one",
    r": split_fp8: cluster\.wait":
        "the wait before a block may end, behind the block's own store of its result",
    r": (bar\.named\.sync|wgmma\.wait)":
        "the barrier before a result is put: a warp group's wait is for the products of all its "
        "warps, and what was put there before has been read",
    r"(pingpong|taking_turns): bar\.named\.(arrive|sync)":
        "a turn that is passed on or taken a statement sooner or later: the slots that it "
        "orders are the same",
    r": mbarrier\.(arrive|wait|expect|init)":
        "the slot is filled once, or another ring keeps it from being filled too early",
}  # fmt: skip
"""Patterns of `kind: kernel: statement`, and why nothing happens there."""


def explained(verdict: Verdict) -> str:
    """The reason that holds, or that there is none."""
    text = f"{verdict.kind}: {verdict.detail}"
    return next((why for form, why in EXPLAINED.items() if re.search(form, text)), "not explained")
