"""Layouts and instructions from equations: anchors, propagation, shared memory, search, check."""

from hexcute_core.synthesis.only import Only, alternatives
from hexcute_core.synthesis.solution import CopyPlan, GemmPlan, Rejected, SharedLayout, Solution
from hexcute_core.synthesis.solve import synthesize

__all__ = [
    "CopyPlan", "GemmPlan", "Only", "Rejected", "SharedLayout", "Solution", "alternatives",
    "synthesize",
]  # fmt: skip
