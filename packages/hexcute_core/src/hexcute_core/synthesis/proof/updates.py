"""Proof that an instruction updates memory as a copy means it: by the words of its name alone."""

from __future__ import annotations

from hexcute_core.errors import VerifyError
from hexcute_core.synthesis.solution import CopyPlan
from hexcute_core.tile import Copy, TileProgram

_FAMILIES = ("red", "atom")


def check_update(plan: CopyPlan, op: Copy, program: TileProgram) -> None:
    """Raises VerifyError where a copy is carried by an update, an update by a copy, or by another
    update than it is."""
    family, *words = plan.row.name.split(".")
    update = op.update
    if update is None or family not in _FAMILIES:
        if update is not None or family in _FAMILIES:
            raise VerifyError(f"{plan.name} carries a copy that updates otherwise", op.span)
        return
    dtype, space = program.tensor(op.dst.tensor).dtype, plan.row.dst
    count = plan.row.bytes * 8 // dtype.bits
    meant = [space, update.op, dtype.name, *([f"v{count}"] if count > 1 else [])]
    meant += [] if update.order == "relaxed" else [update.order]
    meant += ["cta"] if update.scope == "block" and space == "global" else []
    silent = family == "red"
    needs_old = update.old is not None or update.op in ("exch", "cas")
    if words != meant or (silent and (needs_old or "acq" in update.order)):
        raise VerifyError(f"{plan.name} does not update by {update.op} as it is meant", op.span)
