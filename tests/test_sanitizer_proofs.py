"""What the rules of the sanitizer's runner say of machine code: ordered, or not known to be."""

from __future__ import annotations

import json
import re
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "sanitizer"))
sys.path.insert(0, str(Path(__file__).parent))

import again
import proofs
import reasons
from machine import Machine, Unread, read
from machine_texts import changed, disassembly, rule
from reasons import LOOKED_AT, explained

import hexcute_core as hx
from hexcute_core.toolchain.sass import sass
from hexcute_kernels.fp8.configs import ThinBlockwiseConfig
from hexcute_kernels.fp8.thin import thin_blockwise_gemm
from hexcute_kernels.tables import constants

# Some threads write, all meet, all read.
MET = """
@P0 BRA `(.L_x_0)
BAR.SYNC.DEFER_BLOCKING 0x2, 0x80
STS [R3+0x40], R24
.L_x_0:
BAR.SYNC.DEFER_BLOCKING 0x0
LDS.128 R8, [R3]
EXIT
"""

# The first role fills a slot, arrives at 0x100 and waits at 0x110; the other reads it.
TOLD = """
@P0 BRA `(.L_x_3)
.L_x_0:
SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [R5+URZ+0x110], R4
@!P1 BRA `(.L_x_0)
LDGSTS.E [R5], desc[UR24][R2.64], P0
ARRIVES.LDGSTSBAR.64.ARVCNT [UR33+0x100]
@P2 BRA `(.L_x_0)
EXIT
.L_x_3:
SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [UR5+0x100], R4
@!P1 BRA `(.L_x_3)
LDS R8, [R3]
@!P3 SYNCS.ARRIVE.TRANS64.A1T0 RZ, [R7+URZ+0x110], RZ
@P2 BRA `(.L_x_3)
EXIT
"""

# One block stores into the other, and arrives there; that one waits.
ENDED = """
@P0 BRA `(.L_x_0)
ST.E.128 [R2], R16
MEMBAR.ALL.GPU
SYNCS.ARRIVE.TRANS64.RED.A1T0 RZ, [UR4], RZ
EXIT
.L_x_0:
SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4+0x2000], R0
@P0 CCTL.IVALL
@!P0 BRA `(.L_x_0)
EXIT
"""


# What is loaded behind the last row is left out.
DROPPED = """
CS2R R6, SRZ
@P1 LDG.E.128 R8, desc[UR8][R18.64+0x204]
IMAD.WIDE R18, R41, 0x4, R34
FSEL R20, R8, RZ, !P4
FSEL R9, R9, RZ, !P4
FSEL R21, R10.reuse, RZ, !P4
FSEL R22, R11, RZ, !P4
FADD R9, R9, R20
MOV R8, R9
STS.64 [R3], R8
EXIT
"""


def test_what_is_in_order() -> None:
    assert rule(MET) == "met"
    assert rule(TOLD) == "told"


@pytest.mark.parametrize(
    ("pattern", "by"),
    [
        (r"BAR\S+ 0x0", "NOP"),
        (r"BAR\S+ 0x0", "BAR.SYNC.DEFER_BLOCKING 0x0, 0x80"),
        (r"BAR\S+ 0x0", "@P1 BAR.SYNC.DEFER_BLOCKING 0x0"),
        (r"BAR\S+ 0x0", "BAR.ARV 0x0"),
        (r"BAR\S+ 0x0", "@P1 EXIT\nBAR.SYNC.DEFER_BLOCKING 0x0"),
        (r"BAR\S+ 0x2, 0x80", "BAR.ARV R2, 0x80"),
        (r"EXIT", "@P1 BRA `(.L_x_0)\nEXIT"),
    ],
)
def test_threads_that_do_not_all_meet(pattern: str, by: str) -> None:
    assert rule(changed(MET, pattern, by)) is None


def test_accesses_on_one_side_of_a_barrier() -> None:
    code = read(disassembly(changed(MET, "EXIT", "STS [R3], R8\nEXIT")))
    early, loaded, late = (at for at, op in code.ops.items() if "[R3" in op)
    assert proofs.met(code, early, late)
    assert not proofs.met(code, loaded, late)


@pytest.mark.parametrize(
    ("pattern", "by"),
    [
        (r"ARRIVES\S+ .*", "NOP"),
        (r"@!P3 SYNCS.ARRIVE.*", "NOP"),
        (r"R7\+URZ\+0x110", "R7+URZ+0x120"),
        (r"UR5\+0x100", "UR5+0x108"),
        (r"(LDGSTS.*)\n(ARRIVES.*)", r"\2\n\1"),
        (r"(LDS .*)\n(@!P3 .*)", r"\2\n\1"),
    ],
)
def test_slots_that_are_touched_untold(pattern: str, by: str) -> None:
    assert rule(changed(TOLD, pattern, by)) is None


# The reader gives back the slot before when it has waited for the next, but for the first time.
LATER = changed(
    changed(TOLD, r"LDS R8, \[R3\]", "LDS R8, [R3]\n@!P4 BRA `(.L_x_9)"),
    r"(@!P3 .*)",
    r"\1\n.L_x_9:",
)


def test_a_slot_that_is_given_back_after_the_next_wait() -> None:
    assert rule(LATER) == "told"
    assert (
        rule(changed(LATER, r"LDS R8, \[R3\]\n", "").replace("L_x_9:\n", "L_x_9:\nLDS R8, [R3]\n"))
        is None
    )


def test_another_block_is_told_by_an_address_without_a_constant() -> None:
    away = changed(
        TOLD,
        r"SYNCS.ARRIVE.TRANS64.A1T0 RZ, \[R7\+URZ\+0x110\]",
        "SYNCS.ARRIVE.TRANS64.RED.A1T0 RZ, [R7+URZ]",
    )
    assert rule(away) == "told"
    assert rule(changed(away, r"(LDS .*)\n(@!P3 .*)", r"\2\n\1")) is None
    assert rule(away.replace(".RED", "")) is None


def test_a_copy_is_told_of_by_the_arrival_that_waits_for_copies() -> None:
    asked = "SYNCS.ARRIVE.TRANS64 RZ, [UR7+0x100], R2"
    assert rule(changed(TOLD, r"(LDGSTS\.E.*)", rf"{asked}\n\1")) == "told", "one for TMA's bytes"
    assert rule(changed(TOLD, r"ARRIVES\S+ .*", asked)) is None


def test_what_selects_leave_out() -> None:
    assert dropped(DROPPED)


@pytest.mark.parametrize(
    ("pattern", "by"),
    [
        (r"FSEL R22, R11, RZ, !P4", "FADD R22, R11, RZ"),
        (r"FSEL R22, R11, RZ, !P4", "@P2 MOV R11, RZ\nSTS [R3], R11"),
        (r"STS.64 \[R3\], R8", "STS.128 [R3], R8"),
        (r"STS.64 \[R3\], R8", "HGMMA.64x8x8.F32 R24, R4, gdesc[UR4]"),
        (r"R41, 0x4, R34", "R41, 0x4, R10"),
        (r"FSEL R20, R8, RZ, !P4", "LDG.E R20, desc[UR8][R8.64]"),
        (r"MOV R8, R9", "@P0 MOV R8, R9"),
    ],
)
def test_what_is_loaded_and_used(pattern: str, by: str) -> None:
    assert not dropped(changed(DROPPED, pattern, by))


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ("@P2 MOV R11, RZ\n@P2 STS [R3], R11", True),
        ("@P2 MOV R11, RZ\nNOP\n@P2 STS [R3], R11", True),
        ("@P2 MOV R11, RZ\n@!P2 STS [R3], R11", False),
        ("@P2 MOV R11, RZ\nISETP.GE P2, PT, R5, R6, PT\n@P2 STS [R3], R11", False),
        ("@P2 MOV R11, RZ\n.L_x_1:\n@P2 STS [R3], R11\n@P5 BRA `(.L_x_1)", False),
        ("R2UR UR8, R7", True),
        ("R2UR UR8, R11", False),
    ],
)
def test_a_register_that_is_filled_again_where_it_is_used(lines: str, left: bool) -> None:
    assert dropped(changed(DROPPED, r"FSEL R22, R11, RZ, !P4", lines)) == left


def dropped(text: str) -> bool:
    code = read(disassembly(text))
    return proofs.dropped(code, next(at for at, op in code.ops.items() if "R8" in op))


def test_a_slot_that_was_given_away_or_never_waited_for() -> None:
    late = changed(TOLD, r"(@!P3 .*)\n", "\\1\nLDS R9, [R3]\n")
    early = late.replace("(.L_x_3)\n.L_x_0:", "(.L_x_9)\n.L_x_0:")
    early = changed(early, "LDS R8", ".L_x_9:\nLDS R8")
    for text, held in ((late, True), (early, False)):
        code = read(disassembly(text))
        at = {op: at for at, op in code.ops.items()}
        write = at["LDGSTS.E [R5], desc[UR24][R2.64], P0"]
        assert proofs.told(code, write, at["LDS R8, [R3]"]) == held
        assert not proofs.told(code, write, at["LDS R9, [R3]"])


@pytest.mark.parametrize(
    ("pattern", "by"),
    [
        (r"SYNCS.ARRIVE.*", "NOP"),
        (r"MEMBAR.ALL.GPU", "MEMBAR.ALL.CTA"),
        (r"@P0 CCTL.IVALL", "NOP"),
        (r"MEMBAR.ALL.GPU", "@P1 EXIT\nMEMBAR.ALL.GPU"),
        (r"SYNCS.ARRIVE.*\n", "SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR4], RZ\n"),
        (r"SYNCS.ARRIVE.*\nEXIT", "EXIT"),
    ],
)
def test_blocks_that_end_too_early(pattern: str, by: str) -> None:
    store = 16
    assert proofs.ended(read(disassembly(ENDED)), store)
    assert not proofs.ended(read(disassembly(changed(ENDED, pattern, by))), store)


@pytest.mark.parametrize(
    "line", ["BRX R4 -0x10", "CALL.REL.NOINC `(.L_x_0)", "RET.REL.NODEC R4", "BRA `(.L_x_7)"]
)
def test_paths_that_the_text_does_not_show(line: str) -> None:
    with pytest.raises(Unread, match=line[:3]):
        read(disassembly(f".L_x_0:\n{line}\nEXIT"))


def test_nothing_follows_a_trap() -> None:
    text = "@P0 BRA `(.L_x_0)\nBPT.TRAP 0x1\n.L_x_0:\nEXIT"
    assert read(disassembly(text)).reach([16]) == set()
    assert read(disassembly(text.replace("BPT", "@P1 BPT"))).reach([16]) == {32}
    with pytest.raises(Unread, match="BPT.INT"):
        read(disassembly(text.replace("TRAP", "INT")))


@lru_cache(maxsize=1)
def thin() -> Any:
    config = ThinBlockwiseConfig(16, 64, 2, 1)
    return thin_blockwise_gemm(hx.f32).compile("sm_90", constants=constants(config))


def test_loads_that_are_left_out_can_be_taken_out() -> None:
    image = thin().built.cubin
    code = read(thin().sass())
    loads = offsets(code, "LDS")[:2]
    taken = again.without(image, "hexcute_thin_fp8_gemm", loads, code)
    assert len(taken) == len(image)
    after = read(sass(taken))
    never = [at for at, guard in after.predicated.items() if guard == "@!PT"]
    assert {at for at in never if at not in code.predicated} == set(loads)
    assert after.ops == code.ops, "nothing else is changed"
    assert again.without_dropped(image, "hexcute_thin_fp8_gemm") == again.without(
        image, "hexcute_thin_fp8_gemm", proofs.dropping(code), code
    )
    with pytest.raises(ValueError, match="no code of"):
        again.without(image, "another", [], code)


def offsets(code: Machine, name: str) -> list[int]:
    return [at for at, op in code.ops.items() if re.match(rf"{name}\b.*\[R", op)]


def sums(code: Machine) -> tuple[list[int], list[int]]:
    """What stores the sums, and what loads them: not the loads of scales before all meet."""
    met = max(at for at, op in code.ops.items() if re.match(r"BAR\.SYNC\S* 0x0", op))
    return offsets(code, "STS"), [at for at in offsets(code, "LDS") if at > met]


def test_machine_code_of_a_thin_product() -> None:
    """What its consumers leave in shared memory, all threads read."""
    text = thin().sass()
    code = read(text)
    stores, loads = sums(code)
    assert stores
    assert loads
    assert all(proofs.met(code, s, r) for s in stores for r in loads)
    without = read(re.sub(r"BAR\.SYNC\.DEFER_BLOCKING 0x0 ", "NOP ", text))
    assert not any(proofs.rule(without, s, r) for s in stores for r in loads)


def test_a_load_of_what_nothing_wrote_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = read(disassembly(DROPPED))
    monkeypatch.setattr(reasons, "_code", lambda image: code)
    lines = ["Uninitialized __global__ memory read of size 16 bytes", "at hexcute_combined+0x10",
             "by thread (96,0,0) in block (6,0,1)", "Address 0x7fcac683fae0"]  # fmt: skip
    image, combined = tmp_path / "digest.cubin", "hexcute_combined"
    assert (explained(lines, combined, image) or "").startswith("dropped: partial results")
    lines[1] = "at hexcute_combined+0x70"
    assert explained(lines, combined, image) is None, "no load"
    lines[1] = "at hexcute_combined+0x1000"
    assert explained(lines, combined, image) is None, "nothing is there"
    assert explained(["Warning: Error buffer overflow has been detected."], combined, image) is None


def test_accesses_that_were_followed_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = disassembly("STS [R3], R8\nLDS R8, [R3]\nEXIT")
    code = read(text)
    monkeypatch.setattr(reasons, "_code", lambda image: code)
    monkeypatch.setattr(reasons, "BY_HAND", tmp_path / "by_hand.json")
    row = {"kernel": "k", "code": code.digest, "accesses": ["0x0", "0x10"], "why": "one thread"}
    reasons.BY_HAND.write_text(json.dumps([row]))
    lines = [
        "Error: Race reported between Read access at k+0x10",
        "and Write access at k+0x0 [9 hazards]",
    ]
    for name, kernel, why in (("a", "k", "one thread"), ("b", "other", None)):
        reasons._by_hand.cache_clear()
        swapped = [line.replace(" k+", f" {kernel}+") for line in lines]
        assert explained(swapped, kernel, tmp_path / name) == why
    changed_code = read(text.replace("R8", "R9"))
    monkeypatch.setattr(reasons, "_code", lambda image: changed_code)
    assert explained(lines, "k", tmp_path / "c") is None, "other machine code"
    reasons._by_hand.cache_clear()


def test_every_row_by_hand_says_why() -> None:
    for row in json.loads(reasons.BY_HAND.read_text()):
        assert set(row) == {"kernel", "code", "accesses", "why"}
        assert len(row["why"]) > 40 and len(row["code"]) == 16 and len(row["accesses"]) > 1


def test_a_report_is_explained_by_what_was_launched(tmp_path: Path) -> None:
    (image := tmp_path / "digest.cubin").write_bytes(thin().built.cubin)
    code = read(thin().sass())
    store, load = (found[0] for found in sums(code))
    lines = [f"Error: Race reported between Read access at hexcute_thin_fp8_gemm+{load:#x}",
             f"and Write access at hexcute_thin_fp8_gemm+{store:#x} [480 hazards]"]  # fmt: skip
    assert (
        explained(lines, "hexcute_thin_fp8_gemm", image)
        == f"met: {LOOKED_AT['hexcute_thin_fp8_gemm', 'met']}"
    )
    swapped = [lines[0].replace("Read", "Write"), lines[1]]
    assert explained(swapped, "hexcute_thin_fp8_gemm", image) is None, "nothing is written there"
    unknown = [line.replace("hexcute_thin_fp8_gemm", "hexcute_new") for line in lines]
    assert explained(unknown, "hexcute_new", image) is None, "nobody looked at that kernel"
    assert explained(lines, "hexcute_new", image) is None, "another one ran"
    ended = ["Error: process didn't terminate successfully"]
    assert explained(ended, "hexcute_thin_fp8_gemm", image) is None
