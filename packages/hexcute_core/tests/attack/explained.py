"""explained(verdict) = why a planted mistake has no effect, where the proof says that it has none.

The proof needs no reason; whoever reads the log does.
"""

from __future__ import annotations

import re

from attack.verdict import Verdict

EXPLAINED: dict[str, str] = {
    r"move: .*(fence\.mbarrier|mbarrier\.init)":
        "the barrier is one that no engine uses: threads learn of it where the block, or the "
        "cluster, meets",
    r"move: .*wgmma\.fence .*to the front":
        "no thread touches a register of the product between the turns of its loop: one fence "
        "before the loop shows them all",
    r"(split_k|sent_by_tma): (fence\.proxy|cluster\.wait)":
        "a fence before which nothing was written that TMA or a product touches, or a wait that "
        "passes over it",
    r"pipelined_across: (cp\.async\.wait|bar\.sync)":
        "the compiler's own wait and barrier where memory changes hands: the author's last wait "
        "has left no group",
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
