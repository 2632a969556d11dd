"""A kernel compiled for one target and specialisation: its listings, its simulation, its launch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hexcute_core.driver import options, saved
from hexcute_core.driver.build import build, program_key
from hexcute_core.driver.built import Built
from hexcute_core.driver.cache import Cache
from hexcute_core.driver.grid import GridFunction
from hexcute_core.driver.launchable import Launchable
from hexcute_core.driver.linked import cuda, linked
from hexcute_core.driver.listings import Listings
from hexcute_core.driver.pipeline import Compilation, Observer, Request
from hexcute_core.driver.resources import machine_of
from hexcute_core.driver.signature import require
from hexcute_core.driver.simulation import bind_host, compare_with_tile_program
from hexcute_core.driver.stamping import ROOM, Stamped, check_room
from hexcute_core.errors import OptionError, SimulationError
from hexcute_core.runtime import HOST, LoadedKernel, Signature, bind
from hexcute_core.synthesis import Solution
from hexcute_core.synthesis.explain.text import explain_json, explain_text
from hexcute_core.thread import ThreadProgram
from hexcute_core.thread.timeline import Timeline
from hexcute_core.tile import TileProgram, digest
from hexcute_core.tile.promise import Promise

if TYPE_CHECKING:
    from hexcute_core.simulator import SimulationReport


class CompiledKernel(Listings):
    """Made by `Kernel.compile`; the machine code is built when it is first needed."""

    def __init__(
        self,
        request: Request,
        signature: Signature,
        divisors: Mapping[str, int],
        cache: Cache | None,
        observer: Observer | None = None,
        verify: bool = False,
    ) -> None:
        self._request, self._signature, self._divisors = request, signature, divisors
        self._cache = cache
        self._compilation = Compilation(request, observer, verify)
        self._built: Built | None = None
        self._from_cache = False
        self._launchable: Launchable | None = None
        self._stamped: Stamped | None = None

    def __repr__(self) -> str:
        constants = "".join(f", {k}={v!r}" for k, v in self._request.constants.items())
        return f"<kernel {self._signature.kernel} for {self._request.code}{constants}>"

    def holds(self) -> bool:
        """Whether what the trace could see of globals, captured variables and objects is so still;
        true before there is a trace."""
        watch = self._compilation.watch
        return watch is None or watch.holds()

    def renew(self, other: CompiledKernel) -> bool:
        """Whether `other`, a later compilation of the same kernel, has the same program: then this
        one goes on, under what that one saw."""
        if digest(other.tile) != digest(self.tile):
            return False
        self._compilation.watch = other._compilation.watch
        return True

    @property
    def signature(self) -> Signature:
        """How the kernel is called."""
        return self._signature

    @property
    def divisors(self) -> Mapping[str, int]:
        """For each symbol that calls are told apart by, the divisor in question."""
        return dict(self._divisors)

    @property
    def promise(self) -> Promise:
        """What calls have to keep: what was asked for, but of tensors that are only read not where
        their elements lie."""
        return replace(self._request.promise, apart=self.tile.promise.apart)

    @property
    def tile(self) -> TileProgram:
        """The traced tile program."""
        return self._compilation.tile

    @property
    def program(self) -> str:
        """A digest of what is compiled for what: the traced program, the table and the target."""
        return program_key(self._request, self.tile)

    @property
    def code(self) -> str:
        """The target of the machine code."""
        return self._request.code

    @property
    def solution(self) -> Solution:
        """Layouts and instructions."""
        return self._compilation.solution

    @property
    def thread(self) -> ThreadProgram:
        """What one thread runs."""
        return self._compilation.thread

    @property
    def seconds(self) -> Mapping[str, float]:
        """Seconds spent in each stage that ran."""
        return dict(self._compilation.seconds)

    @property
    def built(self) -> Built:
        """The machine code with what a launch needs, compiled or from the cache."""
        if self._built is None:
            self._built, self._from_cache = build(self._request, self._cache, self._compilation)
        return self._built

    @property
    def from_cache(self) -> bool:
        """Whether the machine code came from the cache; builds it where that has not happened."""
        return self.built is not None and self._from_cache

    def explain(
        self,
        rejected: int | None = 12,
        form: Literal["text", "json", "html"] = "text",
        machine: bool = False,
        timeline: Timeline | None = None,
    ) -> str:
        """Layouts, instructions with bytes, bank conflicts, cost, where tiles fill most registers,
        and rejected candidates.

        `form` says how it is told. As text it lists `rejected` candidates that lost (None: all); as
        JSON or as an HTML page it has them all. The page also has the source by clocks, every
        layout to point at, what the lanes of a warp touch in shared memory, and the code, by the
        lines it is of; it needs nothing beside itself. With `machine`, the kernel is compiled, and
        its registers, spills, shared bytes and blocks a multiprocessor are told as well, on the
        page its PTX and machine code too. A `timeline` of the kernel is drawn on the page. Raises
        OptionError.
        """
        options.listing(rejected, form)
        options.drawn(timeline, form, self._signature.span)
        options.flags(self._signature.span, machine=machine)
        arch = self._request.arch
        code = machine_of(self.built, arch) if machine else None
        if form == "json":
            return explain_json(self.solution, arch, code)
        if form == "html":
            from hexcute_core.synthesis.explain.page import explain_html

            if machine:
                listings = linked(self.thread, self._request.code, self.built)
            else:
                listings = (cuda(self.thread, self._request.code),)
            return explain_html(self.solution, arch, code, listings, timeline)
        return explain_text(self.solution, arch, rejected, code)

    def picture(self) -> str:
        """An SVG with the corner of every tensor's layout."""
        from hexcute_core.synthesis.explain.picture import picture

        return picture(self.solution)

    def _repr_svg_(self) -> str:
        """What Jupyter shows."""
        return self.picture()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes machine code, listings and signature to one file, which `hx.load` gives back;
        its path. Raises SavedKernelError."""
        promise, program = self.promise, self.program
        parts = saved.Parts(self.built, self._signature, self._divisors, promise, program)
        return saved.save(path, parts)

    def simulate(
        self,
        *args: Any,
        seed: int = 0,
        schedules: int = 1,
        blocks: Sequence[tuple[int, int, int]] | None = None,
        check: bool = True,
        compare: bool = False,
        timeline: bool = False,
    ) -> SimulationReport:
        """Runs every lane of the grid (or of `blocks`) on the CPU, on numpy arrays in place.

        Seed 0 lets everything asynchronous be as late as its waits allow; other seeds draw the
        order of warps and completions, and `schedules` seeds from `seed` on are tried. With
        `check` the first finding (a race, a deadlock, an access out of bounds, misaligned,
        uninitialised or before its wait, a divergent barrier) is raised as a SimulationError;
        without, `report.findings` has them all.

        `compare` interprets the tile program beside it, on copies of the arrays, and compares the
        outputs bit for bit: `report.wrong` names the arrays that differ, and with `check` they are
        a SimulationError. It is off unless asked for, since sums of floats that round differ in
        their last bits however right the kernel is; whole numbers small enough never do.

        With `timeline`, everything happens in the order of the cost model's clocks, those of each
        block alone on a multiprocessor, and `report.timeline` tells when.
        """
        from hexcute_core.simulator import simulate

        options.flags(self._signature.span, check=check, compare=compare, timeline=timeline)
        if compare:
            named: dict[str, Any] = {
                "seed": seed, "schedules": schedules, "blocks": blocks, "check": check,
                "timeline": timeline,
            }  # fmt: skip
            report, wrong = compare_with_tile_program(self, args, **named)
            if wrong and check:
                raise SimulationError(
                    f"{self._signature.kernel}: {', '.join(wrong)} not what the tile program means",
                    self._signature.span,
                    "where sums of floats round, give it small whole numbers, or compare=False",
                )
            return replace(report, wrong=wrong)
        bound, arrays = bind_host(self._signature, self._divisors, args)
        require(self._signature, self._divisors, self.promise, bound.key)
        numbers = {**bound.scalars, **bound.symbols}
        if timeline:
            if (seed, schedules) != (0, 1):
                raise OptionError(
                    "a timeline is of one order, that of its clocks", self._signature.span,
                    "leave seed and schedules out",
                )  # fmt: skip
            return self.stamped.simulate(arrays, numbers, blocks, check, self._request.arch)
        return simulate(
            self.thread, arrays, numbers, blocks, seed=seed, schedules=schedules, check=check
        )

    @property
    def stamped(self) -> Stamped:
        """The kernel with stamps, which nothing else knows of."""
        if self._stamped is None:
            self._stamped = Stamped(self)
        return self._stamped

    def timeline(
        self,
        *args: Any,
        blocks: Sequence[tuple[int, int, int]] | None = None,
        stamps: int = ROOM,
    ) -> Timeline:
        """Runs the kernel once and tells when one thread of each warp group waited, copied,
        multiplied or stored, in `blocks` of the grid with room for `stamps`; see `Kernel.timeline`.
        """
        room = check_room(stamps, self._signature.span)
        bound = bind(self._signature, args, self._divisors)
        if bound.device == HOST:
            report = self.simulate(*args, blocks=blocks, timeline=True)
            assert report.timeline is not None
            return report.timeline
        require(self._signature, self._divisors, self._request.promise, bound.key)
        return self.stamped.launch(bound.device, bound.values, blocks, room)

    def load(self, device: int = 0) -> tuple[LoadedKernel, GridFunction]:
        """The kernel as the runtime launches it, and its grid as a function of the values, on
        `device`."""
        if self._launchable is None:
            self._launchable = Launchable(self.built, self._signature)
        return self._launchable.on(device)
