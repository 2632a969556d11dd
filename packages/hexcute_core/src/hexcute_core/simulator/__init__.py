"""Runs thread programs lane by lane on the CPU, and tile programs on whole numpy tiles beside it.

Instruction semantics are written from the PTX ISA manual, not from the compiler's tables, so a
run checks the tables too.
"""

from hexcute_core.simulator.counting import Access, Counters
from hexcute_core.simulator.findings import Finding
from hexcute_core.simulator.launch import simulate
from hexcute_core.simulator.oracle.interpreter import interpret
from hexcute_core.simulator.report import SimulationReport

__all__ = ["Access", "Counters", "Finding", "SimulationReport", "interpret", "simulate"]
