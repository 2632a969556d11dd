"""Bundle = a folder of saved kernels and a list of them: what a process launches with no compiler
installed.

A kernel is traced as ever, and found by the digest of what it is: program, table and target. So a
bundle is a cache that travels, which nothing is ever written to, and a kernel whose text has
changed is not taken for the one that was shipped. Whoever launches from a bundle trusts whoever
wrote it, as with any program.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hexcute_core.driver.built import Built
from hexcute_core.driver.saved import SUFFIX, read
from hexcute_core.errors import SavedKernelError
from hexcute_core.runtime import device_count, device_target
from hexcute_core.version import VERSION, contents

if TYPE_CHECKING:
    from hexcute_core.driver.compiled import CompiledKernel

LIST = "bundle.json"
VARIABLE = "HEXCUTE_BUNDLE"
_FORM = 1
_MOST_BYTES = 2**26
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FIX = "build the bundle again"


@dataclass(frozen=True)
class Entry:
    """A kernel of a bundle: its name, the target of its code, and the digest it is found by."""

    kernel: str
    code: str
    program: str


@dataclass(frozen=True)
class Bundle:
    """A bundle that fits this compiler."""

    path: Path
    entries: tuple[Entry, ...]

    def find(self, kernel: str, program: str) -> Built | None:
        """The machine code of what has this digest. Raises SavedKernelError for a damaged file."""
        if all(entry.program != program for entry in self.entries):
            return None
        file = self.path / _file(program)
        parts = read(file)
        if (parts.signature.kernel, parts.program) != (kernel, program):
            message = f"{file}: it is another kernel than the bundle's list says"
            raise SavedKernelError(message, fix=_FIX)
        return parts.built

    def lacking(self, kernel: str, code: str) -> str:
        """Why a kernel is not among these."""
        codes = sorted({entry.code for entry in self.entries if entry.kernel == kernel})
        if code in codes:
            why = f"has {kernel} for {code}, compiled for other sizes, types or configurations"
        elif codes:
            why = f"has {kernel} for {', '.join(codes)}, not for {code}"
        else:
            why = f"has no kernel {kernel}"
        return f"the bundle {self.path} {why}"


def _file(program: str) -> str:
    return program + SUFFIX


def write_bundle(
    path: str | os.PathLike[str],
    kernels: Iterable[CompiledKernel],
    versions: Mapping[str, str] | None = None,
) -> Bundle:
    """Writes compiled kernels as a bundle into the folder `path`, beside those already there.

    `versions` are of other packages that have to be the same where the bundle is used. Raises
    SavedKernelError where the folder cannot be written or holds a bundle of another compiler.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SavedKernelError(
            f"{folder}: the bundle cannot be written: {error.strerror or error}",
            fix="name a folder that can be made and written",
        ) from None
    before = read_bundle(folder, versions).entries if (folder / LIST).exists() else ()
    entries = dict.fromkeys(before)
    for compiled in kernels:
        program = compiled.program
        compiled.save(folder / _file(program))
        entries[Entry(compiled.signature.kernel, compiled.code, program)] = None
    whole = {
        "form": _FORM,
        "versions": _versions(versions),
        "kernels": [asdict(entry) for entry in entries],
    }
    aside = folder / f"{LIST}.{os.getpid()}"
    try:
        aside.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        os.replace(aside, folder / LIST)
    except OSError as error:
        raise SavedKernelError(
            f"{folder / LIST}: the bundle cannot be written: {error.strerror or error}",
            fix="name a folder that can be made and written",
        ) from None
    return Bundle(folder, tuple(entries))


@lru_cache(maxsize=1)
def _own() -> tuple[tuple[str, str], ...]:
    return ("hexcute-core", VERSION), ("hexcute-core's sources", contents())


def _versions(others: Mapping[str, str] | None) -> dict[str, str]:
    return {**dict(_own()), **(others or {})}


def read_bundle(
    path: str | os.PathLike[str], versions: Mapping[str, str] | None = None
) -> Bundle:
    """The bundle in the folder `path`.

    Raises SavedKernelError where there is none, or one that other versions have built.
    """
    folder = Path(path)
    try:
        with (folder / LIST).open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise SavedKernelError(
            f"{folder}: there is no bundle: {error.strerror or error}",
            fix="name the folder that the bundle was written to",
        ) from None
    try:
        whole = json.loads(raw)
    except (ValueError, RecursionError):
        whole = None
    match whole:
        case {"form": int(form)} if form > _FORM:
            raise SavedKernelError(
                f"{folder}: the bundle was built by a newer version of hexcute-core than {VERSION}",
                fix=_FIX,
            )
        case {"form": 1, "versions": dict(built), "kernels": list(rows)}:
            entries = tuple(map(_entry, rows))
        case _:
            entries = (None,)
    if None in entries:
        raise SavedKernelError(f"{folder / LIST}: it is no list of a bundle's kernels", fix=_FIX)
    for name, version in _versions(versions).items():
        if built.get(name) != version:
            raise SavedKernelError(
                f"{folder}: the bundle was built with {name} {built.get(name, 'unknown')}, here is "
                f"{version}",
                fix=_FIX,
            )
    return Bundle(folder, tuple(entry for entry in entries if entry is not None))


def _entry(row: Any) -> Entry | None:
    match row:
        case {"kernel": str(kernel), "code": str(code), "program": str(program)} if (
            len(row) == 3 and _DIGEST.fullmatch(program)
        ):
            return Entry(kernel, code, program)
        case _:
            return None


_used: list[Bundle] = []
_named: dict[str, Bundle] = {}


def use_bundle(
    path: str | os.PathLike[str], versions: Mapping[str, str] | None = None
) -> Bundle:
    """From now on this process takes kernels from the bundle in the folder `path`; what it lacks
    comes from bundles named before, or is compiled. The environment variable HEXCUTE_BUNDLE names
    bundles in its place, as PATH does folders.

    Raises SavedKernelError where there is no bundle, where other versions have built it, and where
    none of its code runs on the GPUs of this machine.
    """
    found = read_bundle(path, versions)
    codes = {entry.code for entry in found.entries}
    targets = {device_target(device) for device in range(device_count())}
    if codes and targets and not codes & targets:
        raise SavedKernelError(
            f"{found.path}: the bundle is for {', '.join(sorted(codes))}, the GPU here is "
            f"{', '.join(sorted(targets))}",
            fix="build a bundle for this GPU",
        )
    _used.insert(0, found)
    return found


def in_use() -> list[Bundle]:
    """The bundles that were named, then those of the environment."""
    text = os.environ.get(VARIABLE, "")
    paths = [path for path in text.split(os.pathsep) if path]
    for path in paths:
        if path not in _named:
            _named[path] = read_bundle(path)
    return [*_used, *(_named[path] for path in paths)]


def find(kernel: str, program: str) -> Built | None:
    """The machine code of what has this digest, from the bundles in use."""
    return next((built for b in in_use() if (built := b.find(kernel, program))), None)


def lacking(kernel: str, code: str) -> str:
    """Why the bundles in use do not have a kernel; empty where there are none."""
    return "; ".join(bundle.lacking(kernel, code) for bundle in in_use())
