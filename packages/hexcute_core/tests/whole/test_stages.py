"""Every stage of three kernels as text: what a change of the compiler does shows in its diff."""

from __future__ import annotations

from typing import Any

import goldens
import plain_kernels
import pytest
import role_kernels

import hexcute_core as hx
from hexcute_core.backend import emit
from hexcute_core.thread.printer import show_program as show_thread
from hexcute_core.tile.printer import show_program as show_tile

KERNELS: dict[str, tuple[Any, str, dict[str, int]]] = {
    "softmax": (hx.kernel(plain_kernels.softmax, cache=False), "sm_80", {}),
    "staged_gemm": (hx.kernel(plain_kernels.staged_gemm, cache=False), "sm_80", {}),
    "consuming": (role_kernels.consuming, "sm_90", {"STAGES": 2, "GROUPS": 1}),
}
STAGES = {
    "tile": lambda compiled: show_tile(compiled.tile),
    "thread": lambda compiled: show_thread(compiled.thread),
    "cuda": lambda compiled: emit(compiled.thread, compiled.code).text,
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_says_what_it_said(name: str, stage: str, update_goldens: bool) -> None:
    """No text has a line number: none changes where a line is written above a kernel."""
    kernel, target, constants = KERNELS[name]
    text = STAGES[stage](kernel.compile(target, **constants))
    assert ".py:" not in text
    goldens.same(f"{name}_{target}_{stage}.txt", text.rstrip("\n") + "\n", update_goldens)
