"""What the runner of compute-sanitizer reads out of a log."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "sanitizer"))

from logs import kinds, read

LOG = """========= COMPUTE-SANITIZER
============================= test session starts ==============================
packages/a/tests/test_x.py::test_one[f16-(1, 2)] PASSED [  3%]
packages/a/tests/test_x.py::test_two ========= Error: Race reported between Read access at k+0x13e0
=========     and Write access at k+0xa30 [1792 hazards]
=========     and Write access at k+0xa40 [1792 hazards]
=========     Saved host backtrace up to driver entry point at error
=========         Host Frame: launch in launching.py:117
=========
========= Error: Race reported between Read access at k+0x14e0
=========     and Write access at k+0xa30 [8 hazards]
PASSED [  6%]
packages/a/tests/test_x.py::test_three FAILED [  9%]
packages/a/tests/test_x.py::test_four[a b]
========= Invalid __global__ read of size 4 bytes
=========     at k+0x20
SKIPPED (no two GPUs) [100%]

=================================== FAILURES ===================================
=============================== warnings summary ===============================
=========================== short test summary info ============================
========= 2 passed, 1 failed, 1 skipped, 184 deselected in 392.43s (0:06:32) ==========
========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)
========= ERROR SUMMARY: 0 errors
"""


def test_tests_and_reports_of_a_log() -> None:
    outcome = read(LOG.splitlines(keepends=True))
    name = "packages/a/tests/test_x.py::"
    assert outcome.tests == {
        "passed": [f"{name}test_one[f16-(1, 2)]", f"{name}test_two"],
        "failed": [f"{name}test_three"],
        "skipped": [f"{name}test_four[a b]"],
    }
    race = "Error: Race reported between Read access at k"
    assert outcome.reports == [
        (f"{name}test_two", [f"{race}+0x13e0", "and Write access at k+0xa30 [1792 hazards]",
                             "and Write access at k+0xa40 [1792 hazards]"]),
        (f"{name}test_two", [f"{race}+0x14e0", "and Write access at k+0xa30 [8 hazards]"]),
        (f"{name}test_four[a b]", ["Invalid __global__ read of size 4 bytes", "at k+0x20"]),
    ]  # fmt: skip
    assert kinds(outcome.reports) == {race: 2, "Invalid __global__ read of size 4 bytes": 1}


def test_a_process_that_the_tool_never_saw() -> None:
    alone = "collecting ... ========= Error: No attachable process found. tool timed-out.\n"
    outcome = read((alone + LOG).splitlines(keepends=True))
    assert (outcome.tests, outcome.reports, outcome.alone) == ({}, [], 1)
    outcome.add(outcome)
    assert outcome.alone == 2
