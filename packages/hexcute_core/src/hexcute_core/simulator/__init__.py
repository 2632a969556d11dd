"""Runs thread programs lane by lane on the CPU, and tile programs on whole numpy tiles beside it.

Instruction semantics are written from the PTX ISA manual, not from the compiler's tables, so a
run checks the tables too.
"""

from hexcute_core.simulator.counting import Counters
from hexcute_core.simulator.launch import SimulationReport, simulate
from hexcute_core.simulator.oracle import interpret

__all__ = ["Counters", "SimulationReport", "interpret", "simulate"]
