"""An operator, declared once: schema, results, variants. From it follow the call, the choice of a
kernel, the errors, and the registration with torch.

    call = describe the arguments -> a problem
         -> the first variant that the GPU has the features for and that fits the problem
         -> its configuration for the problem, from its table
         -> a launch

A call with the same shapes, strides, types and alignment as one before is a look-up and a launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Generic

from hexcute_core.errors import LaunchError
from hexcute_kernels.gpus import Gpu, gpu_of
from hexcute_kernels.schema import parse
from hexcute_kernels.tables import constants
from hexcute_kernels.tensors import (
    Output,
    check_gradients,
    check_memory,
    check_output,
    check_tensor,
    torch_dtype,
)
from hexcute_kernels.variant import Argument, Launch, P, Problem, Run, Steps, Variant

__all__ = [
    "Argument", "Launch", "Operator", "Plan", "Problem", "Run", "Steps", "Variant", "output_names",
]  # fmt: skip

ALIGNMENT = 16
"""Bytes: where TMA and the widest copies may begin."""
KINDS = 4096
"""How many kinds of calls an operator remembers at most."""
_SCALARS: frozenset[type] = frozenset({type(None), int, float, bool, str})


@dataclass(frozen=True)
class Plan:
    """What a call of one kind does: `variant` by `config`, launched as `launch` says."""

    variant: str
    config: Any
    outputs: tuple[Output, ...]
    launch: Launch | Steps | Run


@dataclass(frozen=True)
class _Ready:
    """A plan as repeated calls need it.

    `run` takes arguments and outputs where `places` is None, else addresses: of the tensors at
    these places among all that are given, or of all. `makers` make the outputs; `nbytes` are the
    bytes of the `inputs` tensors that are arguments, then of the outputs.
    """

    run: Run
    places: tuple[int, ...] | None
    makers: tuple[Callable[[], Any], ...]
    nbytes: tuple[int, ...]
    inputs: int

    @cached_property
    def only(self) -> Callable[[], Any] | None:
        """The maker of the only output, where `run` takes all addresses in order."""
        return self.makers[0] if self.places == () and len(self.makers) == 1 else None


def output_names(count: int) -> list[str]:
    """What the outputs of an operator with so many are called."""
    return ["out"] if count == 1 else [f"out{i}" for i in range(count)]


def _gradients() -> bool:
    import torch

    return bool(torch.is_grad_enabled())


def _tracing() -> bool:
    """Whether torch.compile looks on."""
    import torch

    return bool(torch.compiler.is_compiling())


def _maker(tensor: Any, output: Output) -> Callable[[], Any]:
    """Makes an output where `tensor` is. `empty_like` of a tensor of that shape, which takes the
    memory of one element, costs half of what a shape, a type and a place do."""
    import torch

    dtype = torch_dtype(output.dtype)
    like = tensor.new_empty((), dtype=dtype).expand(output.shape)
    if torch.empty_like(like).is_contiguous():
        return partial(torch.empty_like, like)
    return partial(tensor.new_empty, output.shape, dtype=dtype)


class Operator(Generic[P]):
    """A function of torch tensors with several kernels behind it.

    `schema` is torch's, functional: `matmul(Tensor a, Tensor b) -> Tensor`. `describe` takes its
    arguments, checks them and gives the problem; `outputs` gives the results' shapes and types.
    Both look at shapes, strides and types only, so they serve tensors without data too.

    Called as `operator(*args, out=None, variant=None, config=None)`: `out` is a tensor to write
    (a tuple for several results), `variant` the name of the only variant to use, `config` one of
    its configurations instead of the table's. It is also `torch.ops.hexcute.<name>`, and inside
    `torch.compile` it becomes that.
    """

    def __init__(
        self,
        schema: str,
        describe: Callable[..., P],
        outputs: Callable[[P], Output | tuple[Output, ...]],
        variants: Sequence[Variant[P, Any]],
        doc: str,
    ) -> None:
        self.schema = parse(schema)
        self.name = self.schema.name
        self.describe = describe
        self.variants = tuple(variants)
        self.__doc__ = doc
        self._outputs = outputs
        self._ready: dict[Any, _Ready] = {}
        parameters = self.schema.parameters
        self._count = len(parameters)
        self._tensors = tuple(i for i, p in enumerate(parameters) if p.kind == "Tensor")
        self._classes: set[type] = set()

    def __repr__(self) -> str:
        return f"<operator {self.schema.text}>"

    def __call__(
        self,
        *args: Any,
        out: Any = None,
        variant: str | None = None,
        config: Any = None,
        **named: Any,
    ) -> Any:
        """Launches on torch's current stream and gives the results, without waiting for them.

        Raises LaunchError where the arguments do not fit, or no variant takes them.
        """
        if _tracing():
            from hexcute_kernels.registration import traced

            return traced(self, args, out, variant, config, named)
        if named or len(args) != self._count:
            args = self.schema.bind(args, named)
        return self.run(args, out, variant, config)

    def warm_up(
        self,
        *args: Any,
        out: Any = None,
        variant: str | None = None,
        config: Any = None,
        **named: Any,
    ) -> None:
        """All that such a call does besides launching: checks, choice, compilation, loading. The
        next call with tensors of these shapes, strides, types and alignment only launches."""
        outs = out if out is None or isinstance(out, tuple) else (out,)
        self._prepare(self.schema.bind(args, named), outs, variant, config)

    def run(self, args: tuple[Any, ...], out: Any, variant: str | None, config: Any) -> Any:
        """The call itself, its arguments in order."""
        outs = out if out is None or isinstance(out, tuple) else (out,)
        addresses: list[int] = []
        try:
            ready = self._ready[self._key(args, outs, variant, config, addresses)]
        except (AttributeError, KeyError, RuntimeError, TypeError):
            ready = self._prepare(args, outs, variant, config)
            addresses = [t.data_ptr() for t in (*self._given(args), *(outs or ()))]
        if outs is None and ready.only is not None:
            made = ready.only()
            addresses.append(made.data_ptr())
            ready.run(addresses)
            return made
        if outs is None:
            outs = tuple([make() for make in ready.makers])
            if ready.places is not None:
                addresses += [made.data_ptr() for made in outs]
        else:
            self._apart(args, addresses, ready)
        if ready.places is None:
            ready.run(*args, *outs)
        else:
            ready.run(addresses if ready.places == () else [addresses[i] for i in ready.places])
        return outs[0] if len(outs) == 1 else outs

    def _given(self, args: tuple[Any, ...]) -> list[Any]:
        """The tensor arguments, without those left out."""
        return [args[i] for i in self._tensors if args[i] is not None]

    def _key(
        self,
        args: tuple[Any, ...],
        outs: tuple[Any, ...] | None,
        variant: str | None,
        config: Any,
        addresses: list[int],
    ) -> Any:
        """What two calls have in common that do the same with other data; `addresses` gets those of
        the tensors.

        Raises KeyError for a class of tensors that no call was made with: an address may be asked
        of plain tensors alone.
        """
        key: list[Any] = [outs is None, variant, config]
        classes = self._classes
        given: tuple[Any, ...] = args if outs is None else args + outs
        for t in given:
            kind = t.__class__
            if kind in classes:
                address = t.data_ptr()
                addresses.append(address)
                key += (
                    t.shape, t.stride(), t.dtype, t.get_device(), address % ALIGNMENT == 0,
                    t.requires_grad and _gradients(),
                )  # fmt: skip
            elif kind in _SCALARS:
                key.append(t)
            else:
                raise KeyError(kind)
        return tuple(key)

    def _prepare(
        self, args: tuple[Any, ...], outs: tuple[Any, ...] | None, variant: str | None, config: Any
    ) -> _Ready:
        """A call of a kind not seen before: planned, compiled where needed, and remembered."""
        plan = self.plan(args, outs, variant, config)
        first = args[self._tensors[0]]
        makers = tuple(_maker(first, output) for output in plan.outputs)
        made = outs or tuple(make() for make in makers)
        launch, given = plan.launch, self._given(args)
        nbytes = tuple(t.nbytes for t in (*given, *made))
        if isinstance(launch, Launch):
            ready = _Ready(*self._fixed(launch, args, made), makers, nbytes, len(given))
        elif isinstance(launch, Steps):
            ready = _Ready(self._steps(launch, args, made), (), makers, nbytes, len(given))
        else:
            ready = _Ready(launch, None, makers, nbytes, len(given))
        self._classes |= {type(t) for t in (*given, *(outs or ()))}
        if len(self._ready) >= KINDS:
            self._ready.clear()
        self._ready[self._key(args, outs, variant, config, [])] = ready
        return ready

    def _steps(self, steps: Steps, args: tuple[Any, ...], outs: tuple[Any, ...]) -> Run:
        """The launches of calls that differ from this one in data alone, given the addresses of all
        of a call's tensors."""
        makers = [_maker(args[self._tensors[0]], output) for output in steps.work]
        work = tuple(make() for make in makers)
        fixed = [self._fixed(launch, args, outs, work) for launch in steps.launches]

        def run(addresses: list[int]) -> None:
            # What is made here is the allocator's again when the last launch is under way; what
            # gets it next runs behind that.
            held = [make() for make in makers]
            whole = [*addresses, *(t.data_ptr() for t in held)]
            for launch, places in fixed:
                launch([whole[i] for i in places] if places else whole)

        return run

    def _fixed(
        self,
        launch: Launch,
        args: tuple[Any, ...],
        outs: tuple[Any, ...],
        work: tuple[Any, ...] = (),
    ) -> tuple[Run, tuple[int, ...]]:
        """The launch of calls that differ from this one in data alone, and the places of its
        tensors among all of the call's and `work`; none where they are all, in order."""
        names = [p.name for p in self.schema.parameters] + output_names(len(outs))
        names += [f"work{i}" for i in range(len(work))]
        whole = (*args, *outs, *work)
        given: list[Any] = []
        present = [i for i, value in enumerate(whole) if value.__class__ not in _SCALARS]
        places: list[int] = []
        for argument in launch.arguments:
            name, view = argument if isinstance(argument, tuple) else (argument, None)
            if not isinstance(name, str):
                given.append(name)
                continue
            place = names.index(name)
            given.append(whole[place] if view is None else view(whole[place]))
            if whole[place].__class__ not in _SCALARS:
                places.append(present.index(place))
        run = launch.kernel.fixed(*given, **constants(launch.config))
        return run, () if places == list(range(len(present))) else tuple(places)

    def plan(
        self,
        args: tuple[Any, ...],
        outs: tuple[Any, ...] | None = None,
        variant: str | None = None,
        config: Any = None,
    ) -> Plan:
        """Checks a call and decides how it is computed; launches nothing.

        Raises LaunchError: what is wrong with which argument, or why each variant declines.
        """
        named = [(self.schema.parameters[i], args[i]) for i in self._tensors]
        tensors = [(p.name, t) for p, t in named if not (p.optional and t is None)]
        for name, tensor in tensors:
            check_tensor(self.name, name, tensor)
        self.schema.check_numbers(args)
        problem = self.describe(*args)
        outputs = self.results(problem)
        if outs is not None:
            if len(outs) != len(outputs):
                raise LaunchError(f"{self.name}: out is to be {len(outputs)} tensors")
            for tensor, output in zip(outs, outputs, strict=True):
                check_tensor(self.name, "out", tensor)
                check_output(self.name, "out", tensor, output)
                tensors.append(("out", tensor))
        self._placed(tensors)
        aligned = all(t.data_ptr() % ALIGNMENT == 0 for _, t in tensors)
        gpu = gpu_of(tensors[0][1].get_device())
        problem = replace(problem, aligned=aligned)
        chosen = self.choose(gpu, problem, variant, config)
        config = chosen.configs.choose(gpu.name, problem) if config is None else config
        return Plan(chosen.name, config, outputs, chosen.launch(problem, config))

    def results(self, problem: P) -> tuple[Output, ...]:
        """Shapes and types of the results."""
        found = self._outputs(problem)
        return found if isinstance(found, tuple) else (found,)

    def choose(
        self, gpu: Gpu, problem: P, variant: str | None = None, config: Any = None
    ) -> Variant[P, Any]:
        """The first variant that computes the problem on this GPU; only `variant` is asked where
        it is named, only those that `config` is for where it is given.

        Raises LaunchError with each one's reason.
        """
        known = [v.name for v in self.variants]
        if variant is not None and variant not in known:
            raise LaunchError(
                f"{self.name} has no variant {variant!r}", fix=f"use one of {', '.join(known)}"
            )
        reasons = []
        for candidate in self.variants:
            if variant is not None and candidate.name != variant:
                continue
            if config is not None and not isinstance(config, candidate.configs.kind):
                kind = candidate.configs.kind.__name__
                reason: str | None = f"takes a {kind}, not {config!r}"
            else:
                reason = candidate.refusal(gpu, problem)
            if reason is None:
                return candidate
            reasons.append(f"  {candidate.name}: {reason}")
        raise LaunchError("\n".join([f"{self.name}: no variant takes this call", *reasons]))

    def _placed(self, tensors: Sequence[tuple[str, Any]]) -> None:
        """That all tensors have memory on one GPU, and that no gradient is expected."""
        first, where = tensors[0]
        for name, tensor in tensors:
            check_memory(self.name, name, tensor)
            check_gradients(self.name, name, tensor)
            if tensor.device != where.device:
                raise LaunchError(
                    f"{self.name}: {first} is on {where.device}, {name} on {tensor.device}",
                    fix=f"pass {name}.to({str(where.device)!r})",
                )

    def _apart(self, args: tuple[Any, ...], addresses: list[int], ready: _Ready) -> None:
        """That no output shares memory with an argument, which would be read after it is
        written."""
        inputs, sizes = ready.inputs, ready.nbytes
        for i in range(inputs, len(addresses)):
            start = addresses[i]
            end = start + sizes[i]
            for j in range(inputs):
                if addresses[j] < end and start < addresses[j] + sizes[j]:
                    named = [i for i in self._tensors if args[i] is not None]
                    raise LaunchError(
                        f"{self.name}: out shares memory with "
                        f"{self.schema.parameters[named[j]].name}",
                        fix="pass a tensor of its own, or none",
                    )
