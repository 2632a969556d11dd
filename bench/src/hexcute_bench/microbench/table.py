"""CSV -> the data module of an instruction table's timings, the same text for the same CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hexcute_bench.errors import BenchError

COMMAND = "python -m hexcute_bench.microbench --table"
_HEAD = '''"""Measured timings of {arch}: name -> (issue, latency) in clocks, None: not measured.

Written by `{command}`, not by hand, from
{source}.
"""

from __future__ import annotations

SOURCE = {quoted}
ROWS: dict[str, tuple[float | None, float | None]] = {{
'''


def text(rows: Sequence[Mapping[str, str]], arch: str, source: str) -> str:
    """The module. `source` is the CSV's path in the repository. Raises BenchError for rows of
    several GPUs."""
    gpus = sorted({row["gpu"] for row in rows})
    if len(gpus) != 1:
        raise BenchError(f"{source} has rows of {len(gpus)} GPUs, expected one: {', '.join(gpus)}")
    quoted = '"' + f"{source}, {gpus[0]}".replace('"', "'") + '"'
    head = _HEAD.format(arch=arch, command=COMMAND, source=source, quoted=quoted)
    lines = [
        f'    "{row["name"]}": ({_number(row["issue"])}, {_number(row["latency"])}),\n'
        for row in rows
    ]
    return head + "".join(lines) + "}\n"


def _number(value: str) -> str:
    return repr(float(value)) if value else "None"
