"""cute_layout beside tensor-layouts: the same layout operations, same process, in turns.

`python -m hexcute_bench.layout_algebra [--csv FILE]` needs tensor-layouts installed and no GPU.
Each row first checks that both libraries give the same function, then times them in alternating
rounds; the ratio is the median over the rounds, theirs over ours.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import importlib
import importlib.metadata
import platform
import statistics
import sys
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cute_layout as ours
from hexcute_bench.environment import commit

ROUNDS = 9
ROUND_SECONDS = 0.02


@dataclass(frozen=True)
class Operation:
    """One row: both sides of an operation, and the least ratio it must reach."""

    name: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    agree: Callable[[Any, Any], bool]
    required: float = 2.0


@dataclass(frozen=True)
class Row:
    """What came of one operation; times in microseconds per call."""

    name: str
    ours_us: float
    theirs_us: float
    ratio: float
    required: float

    @property
    def holds(self) -> bool:
        return self.ratio >= self.required


def same_values(mine: Any, other: Any) -> bool:
    """Whether both results are one function of the index."""
    return mine.size == _size(other) and all(mine(i) == other(i) for i in range(mine.size))


def _size(other: Any) -> int:
    total = 1
    for extent in ours.flatten(other.shape if isinstance(other.shape, tuple) else (other.shape,)):
        total *= extent
    return total


def operations(peer: Any, analysis: Any) -> list[Operation]:
    """The rows; inputs are made here, so only the operation itself is timed."""

    def both(shape: Any, stride: Any = None) -> tuple[ours.Layout, Any]:
        pair = (shape,) if stride is None else (shape, stride)
        return ours.Layout(*pair), peer.Layout(*pair)

    g, g2 = both(((4, 8), (2, 2, 2)), ((32, 1), (16, 8, 256)))
    q, q2 = both(((8, 4), (2, 4)), ((4, 64), (32, 1)))
    c, c2 = both((2, 4, 8), (8, 1, 64))
    tile, tile2 = both((128, 128))
    mma_c, mma_c2 = both(((4, 8), (2, 2)), ((32, 1), (16, 8)))
    eight, eight2 = both((2,) * 8, (1, 2, 4, 16, 32, 64, 256, 512))
    points, points2 = both(((8, 16), (16, 8)), ((1, 128), (8, 2048)))
    rows, rows2 = both((32, 8), (64, 1))
    smem, smem2 = both((16, 16), (16, 1))
    mma_a, mma_a2 = both(((4, 8), (2, 2, 2)), ((32, 1), (16, 8, 128)))
    flat = ours.Layout(2048)

    def conflict_ways(mine: Any, other: Any) -> bool:
        return bool(mine.wavefronts == other["max_ways"])

    return [
        Operation(
            "composition, ldmatrix example",
            lambda: ours.composition(g, q),
            lambda: peer.compose(g2, q2),
            same_values,
        ),
        Operation(
            "complement of (2,4,8):(8,1,64)",
            lambda: ours.complement(c, 1024),
            lambda: peer.complement(c2, 1024),
            same_values,
        ),
        Operation(
            "logical_divide of 128x128 by (32,64)",
            lambda: ours.logical_divide(tile, (32, 64)),
            lambda: peer.logical_divide(tile2, (32, 64)),
            same_values,
        ),
        Operation(
            "right_inverse of the mma C layout",
            lambda: ours.right_inverse(mma_c),
            lambda: peer.right_inverse(mma_c2),
            same_values,
        ),
        Operation(
            "coalesce of rank 8",
            lambda: ours.coalesce(eight),
            lambda: peer.coalesce(eight2),
            same_values,
        ),
        Operation(
            "offsets over 16384 points",
            lambda: ours.offsets(points),
            lambda: [points2(i) for i in range(16384)],
            lambda mine, other: bool(mine == other),
            required=50.0,
        ),
        Operation(
            "bank check of 32 threads x 16 bytes",
            lambda: ours.bank_conflicts(flat, rows, 16),
            lambda: analysis.bank_conflicts(rows2, element_bytes=2),
            conflict_ways,
        ),
        Operation(
            "TV composition of m16n8k16 A",
            lambda: ours.composition(smem, mma_a),
            lambda: peer.compose(smem2, mma_a2),
            same_values,
        ),
    ]


def measure(operation: Operation, rounds: int = ROUNDS, seconds: float = ROUND_SECONDS) -> Row:
    """Check that both agree, then time them in turns.

    Raises:
        DisagreementError: the two libraries give different functions.
    """
    if not operation.agree(operation.ours(), operation.theirs()):
        raise DisagreementError(operation.name)
    mine, other = timeit.Timer(operation.ours), timeit.Timer(operation.theirs)
    counts = [max(1, int(seconds / max(timer.timeit(3) / 3, 1e-9))) for timer in (mine, other)]
    pairs = [
        (mine.timeit(counts[0]) / counts[0], other.timeit(counts[1]) / counts[1])
        for _ in range(rounds)
    ]
    return Row(
        operation.name,
        statistics.median(a for a, _ in pairs) * 1e6,
        statistics.median(b for _, b in pairs) * 1e6,
        statistics.median(b / a for a, b in pairs),
        operation.required,
    )


class DisagreementError(ValueError):
    """The two libraries give different functions, so there is nothing to time."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name}: the two libraries give different functions")


def write(rows: list[Row], path: Path) -> None:
    """One CSV row an operation, with where and when it was measured."""
    facts = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "tensor_layouts": importlib.metadata.version("tensor-layouts"),
        "cute_layout": ours.__version__,
        "commit": commit(),
        "date": datetime.date.today().isoformat(),
    }
    with path.open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["operation", "ours_us", "theirs_us", "ratio", "required", *facts])
        for row in rows:
            times = [f"{row.ours_us:.2f}", f"{row.theirs_us:.2f}", f"{row.ratio:.2f}"]
            writer.writerow([row.name, *times, f"{row.required:g}", *facts.values()])


def main(arguments: list[str] | None = None) -> int:
    """The command line: 0 if every row reaches the ratio it must."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csv", type=Path, help="also write the rows to this file")
    options = parser.parse_args(arguments)
    peer = importlib.import_module("tensor_layouts")
    analysis = importlib.import_module("tensor_layouts.analysis")
    rows = [measure(operation) for operation in operations(peer, analysis)]
    for row in rows:
        verdict = "ok" if row.holds else f"below {row.required:g}x"
        print(
            f"{row.name:38} {row.ours_us:9.2f} us  peer {row.theirs_us:10.2f} us  "
            f"{row.ratio:7.2f}x  {verdict}"
        )
    if options.csv is not None:
        write(rows, options.csv)
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
