"""The instructions that the compiler chooses from, a table a GPU, made of its own tables.

    row = an instruction, what it moves or multiplies, its clocks, and where those come from
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from hexcute_core.arch import Arch, arch
from hexcute_core.arch.registry import names
from hexcute_core.arch.rows import Timing

HEAD = """# Instructions of each GPU

What copies and products may become, in the order of preference among equals. `issue` is for how
many clocks one call keeps its unit busy, `latency` after how many its result is there. The
last column numbers [the source](#sources) of both. Which instruction was taken, and why the others
were not, `explain()` says of each operation; `only=` takes these names.
"""


def page() -> str:
    """The Markdown of the tables of all GPUs, and of the sources that they name by number."""
    sources: dict[str, int] = {}
    lines = [HEAD, *(line for name in names() for line in _of(arch(name), sources))]
    told = (f"{number}. {source}" for source, number in sources.items())
    return "\n".join([*lines, "\n## Sources\n", *told, ""])


def _of(gpu: Arch, sources: dict[str, int]) -> Iterator[str]:
    def clocks(timing: Timing) -> tuple[float, float, int]:
        return timing.issue, timing.latency, sources.setdefault(timing.source, len(sources) + 1)

    major, minor = gpu.capability
    yield f"\n## {gpu.name}\n"
    yield (
        f"Compute capability {major}.{minor}: {gpu.shared_per_block} bytes of shared memory and "
        f"{gpu.registers_per_block} registers a block, {gpu.registers_per_thread} registers a "
        f"thread. Beside the base it has {', '.join(sorted(gpu.features)) or 'nothing'}.\n"
    )
    yield from _table(
        ("copy", "from", "to", "bytes a thread", "issue", "latency", "source"),
        (
            (f"`{r.name}`{f' of {r.element_bits} bits' if r.element_bits else ''}", r.src, r.dst,
             r.bytes, *clocks(r.timing))
            for r in gpu.copies
        ),
    )  # fmt: skip
    yield from _table(
        ("product", "m x n x k", "a, b, c", "issue", "latency", "source"),
        (
            (f"`{r.name}`{', operands exchanged' if r.turned else ''}", "x".join(map(str, r.tile)),
             f"{r.a_dtype}, {r.b_dtype}, {r.c_dtype}", *clocks(r.timing))
            for r in gpu.mmas
        ),
    )  # fmt: skip
    yield from _table(
        ("product of a warp group", "a, b, c", "contiguous in a; b", "issue", "latency", "source"),
        (
            (f"wgmma {'x'.join(map(str, r.tile))}", f"{r.a_dtype}, {r.b_dtype}, {r.c_dtype}",
             f"{', '.join(r.a_majors)}; {', '.join(r.b_majors)}", *clocks(r.timing))
            for r in gpu.wgmmas
        ),
    )  # fmt: skip
    if gpu.bulk is not None:
        b, (issue, latency, source) = gpu.bulk, clocks(gpu.bulk.timing)
        spans = ", ".join(map(str, b.swizzles))
        yield (
            f"TMA: boxes of up to {b.rank} dimensions and {b.box} elements along each, at "
            f"multiples of {b.alignment} bytes, under swizzles of {spans} bytes (0: none); "
            f"issue {issue:g}, latency {latency:g}, source {source}.\n"
        )


def _table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> Iterator[str]:
    """A Markdown table; nothing where there are no rows."""
    lines = [
        f"| {' | '.join(f'{cell:g}' if isinstance(cell, float) else str(cell) for cell in row)} |"
        for row in rows
    ]
    if lines:
        yield f"| {' | '.join(head)} |\n|{'---|' * len(head)}"
        yield from lines
        yield ""


def write(folder: Path) -> None:
    """Writes the page into `folder`, if it changed."""
    path, text = folder / "instructions.md", page()
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
