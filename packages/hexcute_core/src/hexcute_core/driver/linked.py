"""linked : program of a thread -> its CUDA, PTX and machine code, each line with its line of the
kernel.

The text is compiled once more, for debugging information, with every line of it called after the
statement that it was made for; that changes no instruction. What was inlined counts as where it
was called.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from hexcute_core.backend import LocatedSource, located
from hexcute_core.driver.built import Built
from hexcute_core.errors import MissingDependency, SourceSpan
from hexcute_core.synthesis.explain.listing import Listing
from hexcute_core.thread import ThreadProgram
from hexcute_core.toolchain import compile_cubin, sass

_FILE = "hexcute_places"
"""Stands for the kernel's files: its line k is the k-th place."""
_SASS_PLACE = re.compile(rf'^\s*//## File ".*?{_FILE}", line (\d+)$')
_PTX_FILE = re.compile(rf'^\s*\.file\s+(\d+)\s+".*?{_FILE}"')
_PTX_PLACE = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+\d+(?:.*inlined_at\s+(\d+)\s+(\d+))?")
_PTX_OWN = re.compile(r"^\s*(\.loc|\.file)\s|^\s*\$L__(tmp|func_begin|func_end)\d+:")
_PTX_DEBUG = re.compile(r"^\s*\.section\s+\.debug_\w+\s*$[^}]*^\s*\}\s*", re.MULTILINE)


def cuda(program: ThreadProgram, code: str) -> Listing:
    """The CUDA text, or a note where the code generator is not installed."""
    try:
        source = located(program, code)
    except MissingDependency as missing:
        return Listing("CUDA", "", note=f"{missing.message}: {missing.fix}")
    return Listing("CUDA", source.source.text, tuple(map(_name, source.spans)))


def linked(program: ThreadProgram, code: str, built: Built) -> tuple[Listing, ...]:
    """CUDA, PTX and machine code. Raises MissingDependency where something that compiles is not
    installed; without a disassembler a note says so in the machine code's place."""
    source = located(program, code)
    spans = list(dict.fromkeys(span for span in source.spans if span is not None))
    places = [_name(span) for span in spans]
    made = compile_cubin(_called(source, spans), code, ("--generate-line-info",))
    return (
        Listing("CUDA", source.source.text, tuple(map(_name, source.spans))),
        _ptx(built.ptx, made.ptx, places),
        _machine_code(built.cubin, made.cubin, places),
    )


def _name(span: SourceSpan | None) -> str:
    return "" if span is None else f"{Path(span.file).name}:{span.line}"


def _called(source: LocatedSource, spans: list[SourceSpan]) -> str:
    numbers = {span: number for number, span in enumerate(spans, 1)}
    lines = []
    for line, (text, span) in enumerate(zip(source.source.text.splitlines(), source.spans), 1):
        lines.append(f'#line {line} "kernel.cu"' if span is None
                     else f'#line {numbers[span]} "{_FILE}"')  # fmt: skip
        lines.append(text)
    return "\n".join(lines) + "\n"


def _machine_code(cubin: bytes, marked: bytes, places: list[str]) -> Listing:
    plain = ""
    try:
        plain = sass(cubin)
        told = sass(marked, lines=True)
    except MissingDependency as missing:
        return Listing("machine code", plain, note=f"{missing.message}: {missing.fix}")
    place, found, texts = "", [], []
    for line in told.splitlines():
        if line.lstrip().startswith("//## File"):
            # The last of several is where the outermost call stands.
            number = _SASS_PLACE.match(line)
            place = places[int(number[1]) - 1] if number and int(number[1]) else ""
        else:
            texts.append(line)
            found.append(place if line.lstrip().startswith("/*") else "")
    return _checked("machine code", plain, texts, found)


def _ptx(plain: str, marked: str, places: list[str]) -> Listing:
    files = [number[1] for number in map(_PTX_FILE.match, marked.splitlines()) if number]
    texts, found = [], []
    for text, place in _ptx_lines(_PTX_DEBUG.sub("", marked), files, places):
        texts.append(text)
        found.append(place)
    return _checked("PTX", plain, texts, found)


def _ptx_lines(marked: str, files: list[str], places: list[str]) -> Iterator[tuple[str, str]]:
    place = ""
    for line in marked.splitlines():
        at = _PTX_PLACE.match(line)
        if at is not None:
            file, number = (at[3], at[4]) if at[3] else (at[1], at[2])
            place = places[int(number) - 1] if file in files and int(number) else ""
        if not _PTX_OWN.match(line):
            yield line, place if line.rstrip().endswith(";") else ""


def _checked(name: str, plain: str, texts: list[str], found: list[str]) -> Listing:
    """The text with its places, if the two texts have the same lines but for empty ones."""
    places = iter([place for text, place in zip(texts, found) if text.strip()])
    lines = plain.splitlines()
    if [text for text in texts if text.strip()] != [line for line in lines if line.strip()]:
        return Listing(name, plain, note="which line of the kernel it is of is not known here")
    return Listing(name, plain, tuple(next(places) if line.strip() else "" for line in lines))
