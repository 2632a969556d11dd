"""Measurements as a CSV, a row per configuration; the CSV -> the table module that ships, anew.

Of the shapes in one bucket the configuration is taken that loses least against each one's best, and
of variants that were measured there the fastest.
"""

from __future__ import annotations

import ast
import csv
import io
import math
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from hexcute_core.errors import TunerError
from hexcute_core.tuner import Outcome, Report
from hexcute_kernels.buckets import Bucket
from hexcute_kernels.gpus import Gpu
from hexcute_kernels.tuning import OperatorBench

COLUMNS = (
    "operator", "gpu", "target", "variant", "sizes", "status", "us", "low", "high", "rounds",
    "clocks", "config", "version", "reason",
)  # fmt: skip
_SAME = ("operator", "gpu", "variant", "sizes")
WIDTH = 100
Row = Mapping[str, str]


def rows_of(bench: OperatorBench, report: Report) -> list[Row]:
    """What a run found, the fastest first."""
    return [_row(bench, report.task.version, outcome) for outcome in report.outcomes]


def _row(bench: OperatorBench, version: str, outcome: Outcome) -> Row:
    samples = sorted(outcome.samples)
    timed = outcome.us is not None
    values = (
        bench.operator, bench.gpu.name, bench.gpu.target, bench.variant, bench.sizes,
        outcome.status, f"{outcome.us:.3f}" if timed else "",
        f"{samples[0]:.3f}" if timed else "", f"{samples[-1]:.3f}" if timed else "",
        str(len(samples)), "" if outcome.clocks is None else f"{outcome.clocks:.0f}",
        repr(outcome.config), version, outcome.reason,
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


def read_csv(path: Path) -> list[Row]:
    """The rows of a file; none where there is no file. Raises TunerError for another file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise TunerError(f"{path}: it is no CSV of tuning runs", fix="name another file")
        return list(reader)


def write_csv(path: Path, found: Sequence[Row]) -> list[Row]:
    """Puts measurements into a file, in the place of those of the same sizes; all that it holds."""
    again = {tuple(row[name] for name in _SAME) for row in found}
    kept = [row for row in read_csv(path) if tuple(row[name] for name in _SAME) not in again]
    rows = [*kept, *found]
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())
    return rows


def write_text(path: Path, text: str) -> None:
    """Writes a file, all of it or nothing. Raises TunerError."""
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        aside.write_text(text, encoding="utf-8")
        os.replace(aside, path)
    except OSError as error:
        raise TunerError(f"{path}: it cannot be written: {error.strerror or error}") from None


def config_of(text: str, kind: type) -> Any:
    """The configuration whose repr is `text`: calls of dataclasses of `kind`'s module on plain
    values, and nothing else. Raises TunerError."""
    known = vars(sys.modules[kind.__module__])

    def made(node: ast.expr) -> Any:
        match node:
            case ast.Call(func=ast.Name(id=name), args=[], keywords=fields) if (
                isinstance(known.get(name), type) and is_dataclass(known[name])
            ):
                return known[name](**{str(f.arg): made(f.value) for f in fields})
            case _:
                return ast.literal_eval(node)

    try:
        found = made(ast.parse(text, mode="eval").body)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        found = None
    if not isinstance(found, kind) or repr(found) != text:
        raise TunerError(f"{text:.80} is no {kind.__name__}", fix="tune for these sizes again")
    return found


def table_text(rows: Iterable[Row], source: str) -> str:
    """The module of the rows of one operator on one GPU, from the CSV called `source`.

    Raises TunerError where there are none, or of several.
    """
    rows = list(rows)
    operators = {(row["operator"], row["gpu"]) for row in rows}
    if len(operators) != 1:
        raise TunerError(
            f"{source} holds rows of {len(operators)} operators and GPUs, expected those of one"
        )
    ((operator, gpu),) = operators
    kinds: set[type] = set()
    variants = []
    chosen = {
        variant: _chosen([row for row in rows if row["variant"] == variant])
        for variant in dict.fromkeys(row["variant"] for row in rows)
    }
    for variant, found in chosen.items():
        lines = [f'    "{variant}": (']
        for bucket, times, config in found:
            others = [t for c in chosen.values() for b, t, _ in c if b == bucket]
            if any(_slower(times, other) for other in others):
                continue
            kinds |= _kinds(config)
            told = "; ".join(f"{sizes}: {us:.2f} us" for sizes, us in times.items())
            lines += [f"        # {line}" for line in textwrap.wrap(told, WIDTH - 10)]
            lines += _written(bucket, config)
        variants += [*lines, "    ),"]
    names: dict[str, list[str]] = {}
    for kind in sorted(kinds, key=lambda kind: (kind.__module__, kind.__name__)):
        names.setdefault(kind.__module__, []).append(kind.__name__)
    imports = [f"from {module} import {', '.join(known)}" for module, known in names.items()]
    text = "\n".join(
        [
            f'"""Configurations of {operator} on an {gpu.upper()}, as measured.',
            "",
            f"Written by `python -m hexcute_kernels tune {operator}` from {source}.",
            '"""',
            "",
            "from __future__ import annotations",
            "",
            "from collections.abc import Mapping",
            "from typing import Any",
            "",
            *imports,
            "from hexcute_kernels.tables import Row",
            "",
            "ROWS: Mapping[str, tuple[Row[Any], ...]] = {",
            *variants,
            "}",
            "",
        ]
    )
    return text


def _kinds(config: Any) -> set[type]:
    inside = (value for value in vars(config).values() if is_dataclass(value))
    return {type(config)}.union(*(_kinds(value) for value in inside))


def _slower(times: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """Whether a variant is slower than another one in the mean of the sizes that both have."""
    return math.fsum(math.log(times[s] / other[s]) for s in times if s in other) > 0


def _chosen(rows: Sequence[Row]) -> list[tuple[Bucket, dict[str, float], Any]]:
    """Every bucket with its configuration and that one's microseconds at the sizes which were
    measured, the smallest numbers first."""
    buckets: dict[str, tuple[Bucket, dict[str, dict[str, float]], type]] = {}
    for row in rows:
        gpu = Gpu(row["gpu"], row["target"])
        bench = OperatorBench(row["operator"], row["sizes"], row["variant"], gpu)
        bucket, kind = bench.bucket, bench.configs.kind
        _, times, _ = buckets.setdefault(bucket.text, (bucket, {}, kind))
        times.setdefault(row["sizes"], {})
        if row["status"] == "timed":
            times[row["sizes"]][row["config"]] = float(row["us"])
    found = []
    for bucket, times, kind in buckets.values():
        measured = {sizes: us for sizes, us in times.items() if us}
        # Where no configuration was timed at all of the sizes, the last sizes decide.
        shared = set.intersection(*(set(us) for us in measured.values())) if measured else set()
        if measured and not shared:
            last = list(measured)[-1]
            measured = {last: measured[last]}
            shared = set(measured[last])
        if shared:
            best = min(sorted(shared), key=lambda config: _loss(config, measured.values()))
            told = {sizes: us[best] for sizes, us in measured.items()}
            found.append((bucket, told, config_of(best, kind)))
    return sorted(found, key=lambda row: tuple(row[0].most.values()))


def _loss(config: str, times: Iterable[Mapping[str, float]]) -> float:
    return math.fsum(math.log(us[config] / min(us.values())) for us in times)


def _written(bucket: Bucket, config: Any) -> list[str]:
    row = bucket.row(config)
    parts = [repr(config), f"most={dict(row.most)}", f"least={dict(row.least)}"]
    parts += [f"equal={dict(row.equal)}"]
    lines = ["        Row("]
    for part in parts:
        # Lines break behind commas alone: a word may hold a space.
        lines += textwrap.wrap(
            re.sub("(?<!,) ", "\0", f"{part},"), WIDTH, initial_indent=" " * 12,
            subsequent_indent=" " * 16, break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
    lines = [line.replace("\0", " ") for line in lines]
    return [*lines, "        ),"]
