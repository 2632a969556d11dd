"""What a block stores into another's shared memory: the sanitizer's rule `sent`, and what breaks
it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "sanitizer"))
sys.path.insert(0, str(Path(__file__).parent))

import proofs
from machine import read
from machine_texts import changed, disassembly

# Threads store into another block and meet; one arrives there. What comes is read behind a wait.
SENT = """
@P0 BRA `(.L_x_0)
ST.E.128 [R2], R16
.L_x_0:
BAR.SYNC.DEFER_BLOCKING 0x2, 0x80
@!P1 MEMBAR.ALL.GPU
@!P1 SYNCS.ARRIVE.TRANS64.RED.A1T0 RZ, [UR5], RZ
.L_x_1:
SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR7], R7
@P0 CCTL.IVALL
@!P0 BRA `(.L_x_1)
LDS.128 R4, [R2+UR4+0x18000]
EXIT
"""


def test_what_is_waited_for_is_in_order() -> None:
    assert (rule_of_sent(SENT), proofs.sent(read(disassembly(SENT)), 16)) == ("sent", True)


def rule_of_sent(text: str) -> str | None:
    """Of the store to another block and the load, in either order."""
    code = read(disassembly(text))
    store = next(at for at in code.ops if proofs.stores_anywhere(code, at))
    load = next(at for at in code.ops if proofs.touches(code, at, False))
    assert proofs.rule(code, store, load) == proofs.rule(code, load, store)
    return proofs.rule(code, store, load)


@pytest.mark.parametrize(
    ("pattern", "by"),
    [
        (r"BAR\S+ 0x2, 0x80", "NOP"),
        (r"BAR\S+ 0x2, 0x80", "BAR.ARV 0x2, 0x80"),
        (r"BAR\S+ 0x2, 0x80", "@P2 BAR.SYNC.DEFER_BLOCKING 0x2, 0x80"),
        (r"BAR\S+ 0x2, 0x80", "@P2 EXIT\nBAR.SYNC.DEFER_BLOCKING 0x2, 0x80"),
        (r"@!P1 MEMBAR\S+", "NOP"),
        (r"@!P1 SYNCS\.ARRIVE\S+ RZ, \[UR5\], RZ", "NOP"),
        (r"SYNCS\.PHASECHK.*", "NOP"),
        (r"@P0 CCTL\.IVALL", "NOP"),
        (r"\.L_x_1:", "@P3 BRA `(.L_x_2)\n.L_x_1:"),
        (r"LDS\.128.*", ""),
        (r"EXIT", "@P3 BRA `(.L_x_0)\nST.E.128 [R2], R16\n@P3 BRA `(.L_x_3)\nEXIT"),
        (r"ST\.E\.128", ".L_x_4:\n@P3 BRA `(.L_x_4)\nST.E.128"),
    ],
)
def test_what_is_sent_and_not_waited_for(pattern: str, by: str) -> None:
    text = changed(SENT, pattern, by)
    if "L_x_2" in by:
        text = text.replace("LDS", ".L_x_2:\nLDS")
    if "L_x_3" in by:
        text = text.replace("ST.E.128 [R2], R16\n.L_x_0", ".L_x_3:\nST.E.128 [R2], R16\n.L_x_0")
    if "LDS" not in text:
        assert proofs.sent(read(disassembly(text)), 16), "what is not read needs no order"
        return
    assert (rule_of_sent(text) is None) == ("L_x_4" not in by)
