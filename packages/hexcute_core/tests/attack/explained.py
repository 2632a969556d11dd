"""explained(fault) = why a planted mistake is not seen, where that is known."""

from __future__ import annotations

import re

from attack.verdict import Verdict

EXPLAINED: dict[str, str] = {
    r"move: .*(fence\.mbarrier|mbarrier\.init)":
        "the barrier is one that no engine uses: threads learn of it where the block, or the "
        "cluster, meets",
    r"move: .*wgmma\.fence .*to the front":
        "no thread writes a register of the product between the turns of its loop: one fence "
        "before the loop shows them all",
    r"(split_k|sent_by_tma): (fence\.proxy|cluster\.wait)":
        "a fence of the compiler before which nothing was written that TMA or a product "
        "touches, or a wait that passes over it",
    r"pipelined_across: (cp\.async\.wait|bar\.sync)":
        "the compiler's own wait and barrier where memory changes hands: the author's last wait "
        "has left no group",
    r"(one_group|two_groups|converting|in_rows|chained|taking_turns): "
    r"(bar\.named\.sync|wgmma\.wait)":
        "the barrier before a result is put: on these sizes the last product reads another slot "
        "than it is put into, a warp group knows its own products, and no result was put there "
        "before",
    r"(pingpong|taking_turns): bar\.named\.(arrive|sync)":
        "a turn that is passed on or taken a statement sooner or later: the slots that it "
        "orders are the same",
    r"(pingpong|taking_turns): tma\.wait\.read":
        "on these sizes a warp group puts one result: none before it is still being read",
    r"(chained|two_pipelines|taking_turns|converting): mbarrier\.(arrive|wait|expect|init)":
        "on these sizes the slot is not filled again: nobody waits for it to be free",
}  # fmt: skip
"""Patterns of `kind: kernel: statement`, and why nothing is seen there."""


def explained(fault: Verdict) -> str:
    """The reason that holds for a fault, or that there is none."""
    text = f"{fault.kind}: {fault.detail}"
    return next((why for form, why in EXPLAINED.items() if re.search(form, text)), "not explained")
