"""Which mbarrier an instruction names, and slots of unrolled loops: the sanitizer's rule `told`,
and what breaks it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "sanitizer"))
sys.path.insert(0, str(Path(__file__).parent))

import proofs
from addresses import Name, names
from machine import Machine, read
from machine_texts import changed, disassembly

START = """
S2UR UR6, SR_CgaCtaId
UMOV UR4, 0x400
ULEA UR6, UR6, UR4, 0x18
"""

# A slot of one, filled twice by the first role: its mbarriers are F at 0x100 and E at 0x108.
UNROLLED = (
    START
    + """
@P5 BRA `(.L_x_3)
UIADD3 UR5, UR6, 0x108, URZ
.L_x_0:
SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [UR5], R4
@!P1 BRA `(.L_x_0)
STS [R5], R6
VOTEU.ALL UP0, P0
FADD R6, R6, R7
@!UP0 UIADD3 UR7, UR6, 0x100, URZ
@!P0 SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR7], RZ
.L_x_1:
SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [UR5], R8
@!P1 BRA `(.L_x_1)
STS [R5], R9
@P0 EXIT
MOV R10, UR6
VIADD R10, R10, 0x100
SYNCS.ARRIVE.TRANS64.A1T0 RZ, [R10+URZ], RZ
EXIT
.L_x_3:
SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [UR6+0x100], R4
@!P1 BRA `(.L_x_3)
LDS R8, [R3]
@!P3 SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR6+0x108], RZ
@P2 BRA `(.L_x_3)
EXIT
"""
)

# The first role goes round in a ring of two, F from 0x100 and E from 0x110, the other is unrolled.
RING = (
    START
    + """
@P5 BRA `(.L_x_3)
MOV R2, UR6
.L_x_0:
IMAD R16, R9, 0x8, R2
SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [R16+URZ+0x110], R4
@!P1 BRA `(.L_x_0)
STS [R5], R6
@!P0 SYNCS.ARRIVE.TRANS64.A1T0 RZ, [R16+URZ+0x100], RZ
@P2 BRA `(.L_x_0)
EXIT
.L_x_3:
UIADD3 UR5, UR6, 0x108, URZ
UIADD3 UR7, UR6, 0x118, URZ
SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [UR5], R4
@!P1 BRA `(.L_x_3)
LDS R8, [R3]
@!P3 SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR7], RZ
EXIT
"""
)


def code_of(text: str) -> Machine:
    return read(disassembly(text))


def rules(text: str) -> set[str | None]:
    """Of each write with each read."""
    code = code_of(text)
    writes, reads = (
        [at for at in code.ops if proofs.touches(code, at, how)] for how in (True, False)
    )
    return {proofs.rule(code, write, load) for write in writes for load in reads}


def test_addresses_are_followed_to_where_they_are_made() -> None:
    slot = [Name(True, at) for at in (0x108, 0x100, 0x108, 0x100, 0x100, 0x108)]
    assert list(names(code_of(UNROLLED)).values()) == slot
    assert list(names(code_of(RING)).values()) == [
        Name(False, 0x110), Name(False, 0x100), Name(True, 0x108), Name(True, 0x118)
    ]  # fmt: skip


def test_slots_of_unrolled_loops() -> None:
    assert rules(UNROLLED) == {"told"}
    assert rules(RING) == {"told"}


@pytest.mark.parametrize(
    ("pattern", "by"),
    [
        (r"0x108, URZ", "0x118, URZ"),
        (r"UR6\+0x108", "UR6+0x110"),
        (r"UR6\+0x100", "UR6+0x120"),
        (r"(STS \[R5\], R6)\n((.*\n)*?)(@!P0 SYNCS.*)", r"\2\4\n\1"),
        (r"(LDS .*)\n(@!P3 .*)", r"\2\n\1"),
        (r"SYNCS\S+ P1, \[UR5\], R8\n@!P1 BRA `\(.L_x_1\)", "NOP"),
        (r"@!P3 SYNCS.*", "NOP"),
    ],
)
def test_slots_of_unrolled_loops_that_are_touched_untold(pattern: str, by: str) -> None:
    assert None in rules(changed(UNROLLED, pattern, by))


@pytest.mark.parametrize(
    ("pattern", "by"),
    [
        (r"UR6, 0x108, URZ", "UR6, 0x120, URZ"),
        (r"UR6, 0x118, URZ", "UR6, 0x120, URZ"),
        (r"UR6, 0x118, URZ", "UR6, 0x108, URZ"),
        (r"(LDS .*)\n(@!P3 .*)", r"\2\n\1"),
        (r"(STS .*)\n(@!P0 .*)", r"\2\n\1"),
    ],
)
def test_slots_of_a_ring_that_are_touched_untold(pattern: str, by: str) -> None:
    assert rules(changed(RING, pattern, by)) == {None}


@pytest.mark.parametrize(
    ("pattern", "by"),
    [
        (r"FADD R6, R6, R7", "ISETP.NE.AND P0, PT, R6, R7, PT"),
        (r"FADD R6, R6, R7", "UISETP.NE.AND UP0, UPT, UR6, UR7, UPT"),
        (r"VOTEU.ALL", "VOTEU.ANY"),
        (r"VOTEU.ALL UP0, P0", "VOTEU.ALL UP0, P1"),
        (r"VOTEU.ALL UP0, P0", "@P4 BRA `(.L_x_5)\nVOTEU.ALL UP0, P0\n.L_x_5:"),
        (r"(@!UP0 .*)", "@P4 BRA `(.L_x_5)\n\\1\n.L_x_5:"),
        (r"(@!UP0 .*)", "\\1\nULDC UR7, c[0x0][0x210]"),
        (r"(@!UP0 .*)", "\\1\n@P4 R2UR UR7, R9"),
        (r"(@!UP0 .*)", "\\1\nULDC.64 UR6, c[0x0][0x210]"),
        (r"(@!P0 SYNCS)", r"@P0 SYNCS"),
        (r"0x18\n", "0x10\n"),
        (r"UMOV UR4, 0x400", "ULDC UR4, c[0x0][0x210]"),
    ],
)
def test_what_is_not_known_is_not_named(pattern: str, by: str) -> None:
    """The first arrival's address is filled under the warp's predicate, and used under a lane's."""
    code = code_of(changed(UNROLLED, pattern, by))
    first = next(at for at, op in code.ops.items() if op.startswith("SYNCS.ARRIVE"))
    assert not names(code)[first].exact


def test_a_vote_of_any_lane() -> None:
    text = changed(changed(UNROLLED, "VOTEU.ALL", "VOTEU.ANY"), "@!UP0", "@UP0")
    code = code_of(changed(text, "@!P0 SYNCS", "@P0 SYNCS"))
    assert list(names(code).values())[1] == Name(True, 0x100)
