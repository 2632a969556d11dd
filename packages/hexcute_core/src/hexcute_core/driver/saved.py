"""Saved kernels: one file with machine code, listings and how to call it; `hx.load` gives it back.

Nothing in the file is run but its machine code, and that only once the whole file was checked: its
form, its digest, and every field. Who launches a saved kernel trusts whoever wrote it, as with any
program.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hexcute_core.driver import private, signature_data
from hexcute_core.driver.built import Built, from_data, to_data
from hexcute_core.driver.container import MOST_BYTES, Content, Json, Malformed, pack, unpack
from hexcute_core.driver.grid import grid_function
from hexcute_core.driver.launchable import Launchable
from hexcute_core.driver.listings import Listings
from hexcute_core.driver.signature import require
from hexcute_core.errors import HexcuteError, LaunchError, SavedKernelError
from hexcute_core.runtime import Signature, make_binder
from hexcute_core.runtime.binding import Binder
from hexcute_core.scalar import MULTIPROCESSORS
from hexcute_core.tile.promise import Promise
from hexcute_core.version import VERSION

SUFFIX = ".hexcute"
_FORM = b"hexcute kernel 1\n"
_ANY_FORM = re.compile(rb"hexcute kernel (\d{1,9})\n")


@dataclass(frozen=True)
class Parts:
    """What a file holds: the machine code, how it is called, and what it was compiled for.

    `program` is the digest of what was compiled (`build.program_key`); files of earlier versions
    have none.
    """

    built: Built
    signature: Signature
    divisors: Mapping[str, int]
    promise: Promise
    program: str = ""


def save(path: str | os.PathLike[str], parts: Parts) -> Path:
    """Writes one file, all of it or nothing; its path. Raises SavedKernelError."""
    target = _path(path)
    files, built = to_data(parts.built)
    call = signature_data.to_data(parts.signature, parts.divisors, parts.promise)
    meta: dict[str, Json] = {
        "version": VERSION, "program": parts.program, "built": built, "call": call,
    }  # fmt: skip
    content = pack(_FORM, Content(parts.signature.kernel, files, meta))
    try:
        handle = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if target.is_dir():
                raise IsADirectoryError("it is a folder")
            private.write(target.name, handle, content, 0o666)
        finally:
            os.close(handle)
    except OSError as error:
        raise SavedKernelError(
            f"{target}: the kernel cannot be saved: {error.strerror or error}",
            fix=f"name a file in a folder that can be written, such as kernel{SUFFIX}",
        ) from None
    return target


def load(path: str | os.PathLike[str]) -> SavedKernel:
    """The kernel that `CompiledKernel.save` wrote to `path`, to be called with torch tensors.

    Raises SavedKernelError for a file that is anything else.
    """
    return SavedKernel(read(path))


def read(path: str | os.PathLike[str]) -> Parts:
    """What the file at `path` holds, every field checked. Raises SavedKernelError."""
    source = _path(path)
    try:
        # A pipe that nobody writes would block here for ever.
        if not source.is_file():
            raise FileNotFoundError("there is no such file")
        with source.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise SavedKernelError(
            f"{source}: the kernel cannot be read: {error.strerror or error}",
            fix="name the file that save() wrote",
        ) from None
    form = _ANY_FORM.match(raw)
    if form is not None and int(form[1]) > 1:
        raise SavedKernelError(
            f"{source}: it was saved by a newer version of hexcute-core than {VERSION}",
            fix="install that version, or save the kernel again with this one",
        )
    try:
        return _parts(unpack(_FORM, raw))
    except Malformed as wrong:
        raise SavedKernelError(
            f"{source}: it is no saved kernel, or a damaged one: {wrong}",
            fix="save the kernel again: compiled.save(path)",
        ) from None


def _path(path: object) -> Path:
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise SavedKernelError(
            f"a saved kernel has a path, got {path!r}",
            fix=f'write the path as text, such as "kernel{SUFFIX}"',
        )
    return Path(text)


def _parts(content: Content) -> Parts:
    match content.meta:
        case {"version": str(), "built": dict(built), "call": dict(call)}:
            made = from_data(content.files, built)
            signature, divisors, promise = signature_data.from_data(call)
        case _:
            raise Malformed("it lacks the machine code's fields or the signature")
    program = content.meta.get("program", "")
    if not isinstance(program, str):
        raise Malformed("it does not say what was compiled")
    if content.purpose != signature.kernel:
        raise Malformed("it names another kernel than its signature")
    params = {tensor.name for tensor in signature.tensors}
    if any(tensor_map.param not in params for tensor_map in made.maps):
        raise Malformed("a tensor map is of no parameter")
    try:
        grid_function(made.grid_dim, (*signature.value_names, MULTIPROCESSORS.name))
    except (HexcuteError, LookupError, SyntaxError, RecursionError, MemoryError):
        raise Malformed("its grid is not one of its parameters") from None
    return Parts(made, signature, divisors, promise, program)


class SavedKernel(Listings):
    """A kernel out of a file: called with torch tensors and numbers, as when it was compiled.

    It launches on torch's current stream, on any GPU its machine code is for, and takes only
    arguments that keep what it was compiled for.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._binder: Binder | None = None
        self._launchable: Launchable | None = None
        self.__name__ = parts.signature.kernel

    @property
    def signature(self) -> Signature:
        """How the kernel is called."""
        return self._parts.signature

    @property
    def built(self) -> Built:
        """The machine code with what a launch needs."""
        return self._parts.built

    def __call__(self, *args: Any) -> None:
        """Launches on the tensors' GPU. Raises LaunchError for arguments that do not fit."""
        parts = self._parts
        if self._binder is None or self._launchable is None:
            self._binder = make_binder(parts.signature, parts.divisors)
            self._launchable = Launchable(parts.built, parts.signature)
        key, device, values = self._binder(args)
        require(parts.signature, parts.divisors, parts.promise, key)
        loaded, grid = self._launchable.on(device)
        try:
            extents = grid(values)
        except ZeroDivisionError:
            message = f"{parts.signature.kernel}: the grid divides by zero"
            raise LaunchError(message, parts.signature.span) from None
        loaded.launch_bound(extents, device, values)
