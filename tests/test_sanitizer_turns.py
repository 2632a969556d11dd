"""Slots handed over by named barriers: the sanitizer's rule `handed`, and what breaks it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "sanitizer"))
sys.path.insert(0, str(Path(__file__).parent))

from machine_texts import changed, rule

# The first role writes and arrives at 0xf, and from its second round on waits at 0xe before; the
# other waits at 0xf, reads, and arrives at 0xe but in its last round.
TURNS = """
BAR.SYNC.DEFER_BLOCKING 0x0
@P5 BRA `(.L_x_1)
HFMA2.MMA R32, -RZ, RZ, 0, 0
.L_x_0:
ISETP.NE.AND P0, PT, R32.reuse, RZ, PT
VIADD R32, R32, 0x1
@P0 BAR.SYNC.DEFER_BLOCKING 0xe, 0x100
STS.128 [R6], R8
BAR.ARV 0xf, 0x100
@P2 BRA `(.L_x_0)
EXIT
.L_x_1:
BAR.SYNC.DEFER_BLOCKING 0xf, 0x100
LDS.128 R20, [R0]
@!P3 BAR.ARV 0xe, 0x100
@P4 BRA `(.L_x_1)
EXIT
"""


@pytest.mark.parametrize(
    ("pattern", "by"),
    [
        ("", ""),
        (r"HFMA2.MMA R32, -RZ, RZ, 0, 0", "MOV R32, RZ"),
        (r"VIADD R32, R32, 0x1", "IADD3 R32, R32, 0x1, RZ"),
        (r"@!P3 BAR", "BAR"),
        (r"@P0 BAR(.*)", r"@P0 BAR\1" + "\nBAR.SYNC.DEFER_BLOCKING 0x2, 0x80"),
    ],
)
def test_what_is_handed_over(pattern: str, by: str) -> None:
    assert rule(changed(TURNS, pattern, by) if pattern else TURNS) == "handed"


@pytest.mark.parametrize(
    ("pattern", "by"),
    [
        # An arrival or a wait that is not there, of another barrier, or on the wrong side.
        (r"BAR.ARV 0xf, 0x100", "NOP"),
        (r"@!P3 BAR.ARV 0xe, 0x100", "NOP"),
        (r"@P0 BAR.SYNC.DEFER_BLOCKING 0xe, 0x100", "NOP"),
        (r"BAR.SYNC.DEFER_BLOCKING 0xf, 0x100", "NOP"),
        (r"BAR.ARV 0xf", "BAR.ARV 0xd"),
        (r"BAR.ARV 0xe", "BAR.ARV 0xd"),
        (r"BAR.SYNC.DEFER_BLOCKING 0xf", "BAR.ARV 0xf"),
        (r"(STS.*)\n(BAR.*)", r"\2\n\1"),
        (r"(LDS.*)\n(@!P3.*)", r"\2\n\1"),
        (r"(@P0 BAR.*)\n(STS.*)", r"\2\n\1"),
        (r"(BAR.*0xf, 0x100)\n(LDS.*)", r"\2\n\1"),
        # Twice in a round, or past the wait.
        (r"(BAR.ARV 0xf.*)", r"\1\n\1"),
        (r"(@!P3 BAR.*)", r"\1\n\1"),
        (r"(@P0 BAR.*)", "@P6 BRA `(.L_x_5)\n\\1\n.L_x_5:"),
        # A wait that may be passed by in a later round.
        (r"@P0 BAR", "@!P0 BAR"),
        (r"@P0 BAR", "@P1 BAR"),
        (r"VIADD R32, R32, 0x1", "VIADD R32, R32, -0x1"),
        (r"VIADD R32, R32, 0x1", "@P1 VIADD R32, R32, 0x1"),
        (r"VIADD R32, R32, 0x1", "VIADD R32, R31, 0x1"),
        (r"VIADD R32, R32, 0x1", "NOP"),
        (r"(@P2 BRA .*)", "@P1 MOV R32, RZ\n\\1"),
        (r"(VIADD R32, R32, 0x1)", "\\1\n@P1 MOV R32, R31"),
        (r"(@P0 BAR.*)", "ISETP.GT.AND P0, PT, R5, RZ, PT\n\\1"),
        (r"ISETP.NE.AND P0", "@P1 ISETP.NE.AND P0"),
        (r"HFMA2.MMA R32, -RZ, RZ, 0, 0", "HFMA2.MMA R32, -RZ, RZ, 0, 5.9604644775390625e-08"),
        (r"HFMA2.MMA R32, -RZ, RZ, 0, 0", "@P1 MOV R32, RZ"),
        # A copy that goes on by itself, a barrier that is not known, roles that are one.
        (r"STS.128 \[R6\], R8", "LDGSTS.E.128 [R6], desc[UR8][R8.64]"),
        (r"(BAR.ARV 0xf.*)", "\\1\nBAR.SYNC R5, 0x100"),
        (r"@P2 BRA `\(.L_x_0\)\nEXIT", "@P2 BRA `(.L_x_0)"),
        # Both begin without a wait.
        (
            r"BAR.SYNC.DEFER_BLOCKING 0xf, 0x100",
            "ISETP.NE.AND P0, PT, R32, RZ, PT\n@P0 BAR.SYNC.DEFER_BLOCKING 0xf, 0x100",
        ),
    ],
)
def test_what_is_touched_out_of_turn(pattern: str, by: str) -> None:
    assert rule(changed(TURNS, pattern, by)) is None
