"""The stages a kernel goes through, in order, each from one frozen value to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from hexcute_core.arch import Arch
from hexcute_core.backend import CudaSource, emit
from hexcute_core.driver.proof import prove
from hexcute_core.errors import HexcuteError
from hexcute_core.frontend import KernelDef, Watch, trace
from hexcute_core.lowering import lower
from hexcute_core.synthesis import Solution, synthesize
from hexcute_core.synthesis.proof.check import check
from hexcute_core.thread import ThreadProgram
from hexcute_core.thread.alike import as_one
from hexcute_core.thread.verify import verify as verify_thread
from hexcute_core.tile import TileProgram
from hexcute_core.tile.promise import Promise
from hexcute_core.tile.targets import refuse_missing
from hexcute_core.tile.verify import verify as verify_tile
from hexcute_core.toolchain import Cubin, compile_cubin

Observer = Callable[[str, object], None]
"""Called with a stage's name and its result."""


@dataclass(frozen=True)
class Request:
    """What to compile: a definition, its compile-time constants, what may be relied on, for what.

    `arch` is the table to synthesize for; `code` the machine code's target where it differs
    (sm_80 instructions in an sm_90 cubin); `only` narrows the search.
    """

    definition: KernelDef
    constants: Mapping[str, object]
    promise: Promise
    arch: Arch
    code: str
    only: tuple[tuple[str, str], ...] = ()


class Compilation:
    """Runs the pipeline lazily: asking for a value runs the stages up to it, once each.

    With `verify`, every stage's value is checked, the solution and the addresses of the thread
    program by brute force as well; the observer is given, as "proof", what of them was proved.
    """

    def __init__(
        self, request: Request, observer: Observer | None = None, verify: bool = False
    ) -> None:
        self.request = request
        self.seconds: dict[str, float] = {}
        self._observer, self._verify = observer, verify
        self._values: dict[str, Any] = {}
        # What the trace could see of the world around the kernel, once there is a trace.
        self.watch: Watch | None = None

    def _stage(self, name: str, run: Callable[[], Any], prove: Callable[[Any], None]) -> Any:
        if name not in self._values:
            started = perf_counter()
            try:
                value = run()
            except RecursionError:
                kernel = self.request.definition
                raise HexcuteError(
                    f"{kernel.name}: an expression or block nests deeper than Python goes, in the "
                    f"{name} of the compiler",
                    kernel.span,
                    "give parts of long expressions names, and let loops and branches nest less",
                ) from None
            self.seconds[name] = perf_counter() - started
            if self._verify:
                prove(value)
            self._values[name] = value
            if self._observer is not None:
                self._observer(name, value)
        return self._values[name]

    @property
    def tile(self) -> TileProgram:
        return self._stage("frontend", self._trace, verify_tile)  # type: ignore[no-any-return]

    def _trace(self) -> TileProgram:
        r = self.request
        watch = Watch(r.definition.fn, *r.constants.values())
        program = trace(r.definition, r.constants, r.promise)
        refuse_missing(program, r.code)
        self.watch = watch
        return program

    @property
    def solution(self) -> Solution:
        tile = self.tile
        return self._stage(  # type: ignore[no-any-return]
            "synthesis", lambda: synthesize(tile, self.request.arch, dict(self.request.only)), check
        )

    @property
    def thread(self) -> ThreadProgram:
        return self._stage("lowering", self._lower, self._prove)  # type: ignore[no-any-return]

    def _lower(self) -> ThreadProgram:
        lowered = lower(self.solution, self.request.arch)
        return as_one(lowered) if self.tile.merge_roles else lowered

    def _prove(self, thread: ThreadProgram) -> None:
        verify_thread(thread)
        if self.tile.merge_roles:
            # The proof looks for every role's copies.
            thread = lower(self.solution, self.request.arch)
        proof = prove(self.solution, thread)
        if self._observer is not None:
            self._observer("proof", proof)

    @property
    def source(self) -> CudaSource:
        thread = self.thread
        return self._stage(  # type: ignore[no-any-return]
            "backend", lambda: emit(thread, self.request.code), lambda _: None
        )

    @property
    def cubin(self) -> Cubin:
        source = self.source
        return self._stage(  # type: ignore[no-any-return]
            "toolchain", lambda: compile_cubin(source.text, self.request.code), lambda _: None
        )
