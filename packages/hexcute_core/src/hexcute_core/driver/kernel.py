"""`hx.kernel`: a decorated function. It is compiled on first use for each combination of target,
constants and specialisation, and again after something changed that it was traced with.

A steady launch binds the arguments, looks the specialisation up, sees that what the kernel was
traced with is the same, and launches; nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from hexcute_core.arch import arch as arch_table
from hexcute_core.driver import options
from hexcute_core.driver.cache import Cache
from hexcute_core.driver.compiled import CompiledKernel
from hexcute_core.driver.grid import GridFunction
from hexcute_core.driver.pipeline import Observer, Request
from hexcute_core.driver.signature import constants_of, divisors_of, promise_of, signature_of
from hexcute_core.driver.simulation import compile_for
from hexcute_core.driver.stamping import ROOM
from hexcute_core.errors import LaunchError
from hexcute_core.frontend import REQUIRED, KernelDef, TensorParam, define, snapshot
from hexcute_core.runtime import (
    HOST,
    LoadedKernel,
    best_key,
    bind,
    device_target,
    make_binder,
    plain_key,
)
from hexcute_core.runtime.binding import Binder
from hexcute_core.thread.timeline import Timeline

if TYPE_CHECKING:
    from hexcute_core.simulator import SimulationReport

Launchable = tuple[LoadedKernel, GridFunction, CompiledKernel]


class _Variant:
    """One set of compile-time constants: its binder and its launchable specialisations."""

    def __init__(self, kernel: Kernel, constants: Mapping[str, object]) -> None:
        self.kernel, self.constants = kernel, constants
        self._binder: Binder | None = None
        self._ready: dict[tuple[int, int], Launchable] = {}

    def launch(self, *args: Any) -> None:
        loaded, grid, device, values = self._bound(args)
        loaded.launch_bound(grid, device, values)

    def fixed(self, *args: Any) -> Callable[[Sequence[int]], None]:
        loaded, grid, device, values = self._bound(args)
        return loaded.fixed(grid, device, values)

    def _bound(self, args: tuple[Any, ...]) -> tuple[LoadedKernel, tuple[int, int, int], int, Any]:
        if self._binder is None:
            self._binder = make_binder(self.kernel.signature, self.kernel.divisors)
        key, device, values = self._binder(args)
        ready = self._ready.get((device, key))
        if ready is None or not ready[2].holds():
            ready = self._prepare(device, key)
        loaded, grid, _ = ready
        try:
            extents = grid(values)
        except ZeroDivisionError:
            name, span = self.kernel.definition.name, self.kernel.definition.span
            raise LaunchError(f"{name}: the grid divides by zero", span) from None
        return loaded, extents, device, values

    def _prepare(self, device: int, key: int) -> Launchable:
        compiled = self.kernel.specialise(device_target(device), key, self.constants)
        self._ready[device, key] = (*compiled.load(device), compiled)
        return self._ready[device, key]


class Kernel:
    """A kernel as written. Call it with torch tensors, or `compile` it anywhere.

    `kernel(*tensors, BM=64)` compiles on first use for the tensors' GPU, specialised on pointer
    alignment and divisibility, and launches on torch's current stream without waiting.
    """

    def __init__(self, definition: KernelDef, cache: Cache | None) -> None:
        self.definition = definition
        self.signature = signature_of(definition)
        self.divisors = divisors_of(definition, self.signature)
        self.cache = cache
        self._variants: dict[Hashable, _Variant] = {}
        self._default: _Variant | None = None
        self._compiled: dict[tuple[Any, ...], CompiledKernel] = {}
        self.__doc__ = definition.fn.__doc__
        self.__name__ = definition.name

    def __repr__(self) -> str:
        written = [
            f"{p.name}: {p if isinstance(p, TensorParam) else p.dtype}"
            for p in self.definition.params
        ]
        constants = self.definition.constants
        written += ["*"] if constants else []
        written += [
            c.name if c.default is REQUIRED else f"{c.name}={c.default!r}" for c in constants
        ]
        return f"<kernel {self.__name__}({', '.join(written)})>"

    @property
    def compilations(self) -> int:
        """Specialisations this process has asked for, from the cache or not."""
        return len(self._compiled)

    def __call__(self, *args: Any, **constants: object) -> None:
        """Launches on the tensors' GPU. Raises LaunchError for arguments that do not fit."""
        if not constants and self._default is not None:
            self._default.launch(*args)
            return
        self._variant(constants).launch(*args)

    def configured(self, **constants: object) -> Callable[..., None]:
        """The launch by these compile-time constants, looked up once: `launch(*tensors)` does what
        `kernel(*tensors, **constants)` does, in less time."""
        return self._variant(constants).launch

    def fixed(self, *args: Any, **constants: object) -> Callable[[Sequence[int]], None]:
        """The launch of arguments that differ from `args` in nothing but data, in least time.

        Compiles where needed, and launches nothing. What it gives is called with the addresses of
        the tensors, in order; they have the shapes, types, GPU and alignment of those in `args`.
        That is not checked again, nor whether what the kernel was traced with has changed.
        """
        return self._variant(constants).fixed(*args)

    def _variant(self, constants: Mapping[str, object]) -> _Variant:
        name = _names(constants)
        if name not in self._variants:
            whole = constants_of(self.definition, constants)
            self._variants[name] = _Variant(self, whole)
            if not constants:
                self._default = self._variants[name]
        return self._variants[name]

    def compile(
        self,
        target: str = "sm_90",
        *,
        code: str | None = None,
        aligned: bool = True,
        trace: Observer | None = None,
        verify: bool = False,
        only: Mapping[str, str] | None = None,
        constants: Mapping[str, object] | None = None,
        **named: object,
    ) -> CompiledKernel:
        """The kernel for `target`, needing no GPU; compile-time constants by name or as a mapping.

        With `aligned` it relies on 16-byte aligned pointers and row lengths, as most calls have;
        without, on nothing. `code` builds the machine code for another target than the
        instructions' (`target="sm_80", code="sm_90"`). `trace` is called with every stage's name
        and value; `verify` checks every stage, by brute force the layouts and what the lowered
        copies touch (`trace` is given, as "proof", which are not covered). `only` narrows the
        search, in the words of `explain()`: an operation to the instruction that alone may carry
        it ("copy ga -> sa" to "cp.async.8"), a gemm to an arrangement of warps ("gemm rc" to
        "4x2").
        """
        span = self.definition.span
        options.flags(span, aligned=aligned, verify=verify)
        options.observer(trace, span)
        options.target("target", target, span)
        if code is not None:
            options.target("code", code, span)
        options.narrowing(only, span)
        key = (best_key if aligned else plain_key)(self.signature, self.divisors)
        given = {**options.mapping("constants", constants, span), **named}
        whole = constants_of(self.definition, given)
        return self.specialise(target, key, whole, code, trace, verify, only)

    def compile_for(
        self, *args: Any, target: str, constants: Mapping[str, object] | None = None
    ) -> CompiledKernel:
        """The kernel as a launch on `args` by `constants` would compile it for `target`: torch
        tensors, or anything that answers a launch's questions
        (`hexcute_core.runtime.Described`)."""
        options.target("target", target, self.definition.span)
        key, _, _ = make_binder(self.signature, self.divisors)(args)
        return self.specialise(target, key, constants_of(self.definition, constants or {}))

    def simulate(
        self,
        *args: Any,
        target: str = "sm_90",
        seed: int = 0,
        schedules: int = 1,
        blocks: Sequence[tuple[int, int, int]] | None = None,
        check: bool = True,
        compare: bool = False,
        timeline: bool = False,
        **constants: object,
    ) -> SimulationReport:
        """Runs the kernel for `target` on the CPU, on numpy arrays in place, specialised as a
        launch on them would be; see `CompiledKernel.simulate` for `seed`, `schedules`, `blocks`,
        `check`, `compare` and `timeline`."""
        options.target("target", target, self.definition.span)
        compiled = compile_for(self, args, target, constants)
        return compiled.simulate(
            *args, seed=seed, schedules=schedules, blocks=blocks, check=check, compare=compare,
            timeline=timeline,
        )  # fmt: skip

    def timeline(
        self,
        *args: Any,
        blocks: Sequence[tuple[int, int, int]] | None = None,
        stamps: int = ROOM,
        target: str = "sm_90",
        **constants: object,
    ) -> Timeline:
        """Runs the kernel once and tells when one thread of each warp group of `blocks` waited,
        copied, multiplied or stored: `print(it.show())`, `it.save("trace.json")`.

        Torch tensors on a GPU: one launch, waited for, of the kernel with stamps of the clock, a
        track having room for `stamps` rows of three or four; without `blocks` it tells of the
        first 8. Numpy arrays: a simulation for `target`, in the clocks of the cost model, of
        `blocks` or all.
        """
        bound = bind(self.signature, args, self.divisors)
        if bound.device == HOST:
            target = options.target("target", target, self.definition.span)
        else:
            target = device_target(bound.device)
        whole = constants_of(self.definition, constants)
        compiled = self.specialise(target, bound.key, whole)
        return compiled.timeline(*args, blocks=blocks, stamps=stamps)

    def specialise(
        self,
        target: str,
        key: int,
        constants: Mapping[str, object],
        code: str | None = None,
        observer: Observer | None = None,
        verify: bool = False,
        only: Mapping[str, str] | None = None,
    ) -> CompiledKernel:
        """The kernel for `target` by `constants` under the assumptions of specialisation `key`;
        `code`, `verify` and `only` as of `compile`, whose `trace` is the `observer` here."""
        narrowed = tuple(sorted((only or {}).items()))
        name = (target, code, key, _names(constants), verify, narrowed)
        known = None if observer is not None else self._compiled.get(name)
        if known is not None and known.holds():
            return known
        promise = promise_of(self.definition, self.signature, self.divisors, key)
        table = arch_table(target)
        request = Request(
            self.definition, dict(constants), promise, table, code or target, narrowed
        )
        made = CompiledKernel(request, self.signature, self.divisors, self.cache, observer, verify)
        if observer is not None:
            # An observer belongs to who asked for it.
            return made
        if known is not None and known.renew(made):
            return known
        self._compiled[name] = made
        return made


def _names(constants: Mapping[str, object]) -> Hashable:
    """The constants as they are now: a list may change and stay the same list."""
    return tuple((name, snapshot(constants[name])) for name in sorted(constants))


@overload
def kernel(fn: Callable[..., None]) -> Kernel: ...
@overload
def kernel(*, cache: bool = True) -> Callable[[Callable[..., None]], Kernel]: ...
def kernel(
    fn: Callable[..., None] | None = None, *, cache: bool = True
) -> Kernel | Callable[[Callable[..., None]], Kernel]:
    """Turns a function into a `Kernel`; `@hx.kernel(cache=False)` never touches the disk.

    Raises FrontendError, located, for a signature that is not a kernel's.
    """

    def wrap(function: Callable[..., None]) -> Kernel:
        return Kernel(define(function), Cache() if cache else None)

    return wrap if fn is None else wrap(fn)
