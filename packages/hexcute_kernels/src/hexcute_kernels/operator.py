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
from functools import partial
from typing import Any, Generic, TypeVar, Union

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.gpus import Gpu, gpu_of
from hexcute_kernels.schema import parse
from hexcute_kernels.tables import Config, Table, constants
from hexcute_kernels.tensors import (
    Output,
    check_gradients,
    check_memory,
    check_output,
    check_tensor,
    torch_dtype,
)

ALIGNMENT = 16
"""Bytes: where TMA and the widest copies may begin."""
KINDS = 4096
"""How many kinds of calls an operator remembers at most."""
_SCALARS: frozenset[type] = frozenset({type(None), int, float, bool, str})


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What is known of a call's arguments besides their data. Operators add sizes, types and
    orders; `aligned` says that every tensor starts at a multiple of 16 bytes."""

    aligned: bool = True


P = TypeVar("P", bound=Problem)
C = TypeVar("C", bound=Config)
Run = Callable[..., object]
"""Launches: takes the operator's arguments in order, then its outputs."""


Argument = Union[str, tuple[str, Callable[[Any], Any]], int, float]
"""What a kernel gets: the argument or output of the operator that has this name (an only output is
"out", several are "out0", "out1"), a view of it, or a number. A view starts where its tensor does,
or is empty."""


@dataclass(frozen=True)
class Launch:
    """One kernel by one configuration on these arguments, in the kernel's order."""

    kernel: hx.Kernel
    config: Config
    arguments: tuple[Argument, ...]


def always(problem: Any) -> str | None:
    """Fits every problem."""
    return None


@dataclass(frozen=True)
class Variant(Generic[P, C]):
    """One way to compute an operator.

    `needs` are features of the GPU (`gpus.features`), `fits` gives the reason why a problem is
    not for this variant, else None. `launch(problem, config)` says how such a problem is launched:
    a `Launch`, or where more than one kernel is needed a function of arguments and outputs. It is
    called once for each kind of call.
    """

    name: str
    needs: tuple[str, ...]
    configs: Table[C]
    launch: Callable[[P, C], Launch | Run]
    fits: Callable[[P], str | None] = always

    def refusal(self, gpu: Gpu, problem: P) -> str | None:
        """Why the variant cannot compute the problem on this GPU, or None."""
        missing = [feature for feature in self.needs if feature not in gpu.features]
        if missing:
            return f"needs {' and '.join(missing)}, which {gpu.target} lacks"
        return self.fits(problem)


@dataclass(frozen=True)
class Plan:
    """What a call of one kind does: `variant` by `config`, launched as `launch` says."""

    variant: str
    config: Any
    outputs: tuple[Output, ...]
    launch: Launch | Run


@dataclass(frozen=True)
class _Ready:
    """A plan as repeated calls need it: the launch, what makes the outputs, and the bytes of each
    tensor argument."""

    run: Run
    makers: tuple[Callable[[], Any], ...]
    nbytes: tuple[int, ...]


def output_names(count: int) -> list[str]:
    """What the outputs of an operator with so many are called."""
    return ["out"] if count == 1 else [f"out{i}" for i in range(count)]


def _gradients() -> bool:
    import torch

    return bool(torch.is_grad_enabled())


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
        import torch

        if torch.compiler.is_compiling():
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
        try:
            ready = self._ready[self._key(args, outs, variant, config)]
        except (AttributeError, KeyError, RuntimeError, TypeError):
            ready = self._prepare(args, outs, variant, config)
        if outs is None:
            outs = tuple([make() for make in ready.makers])
        else:
            self._apart(args, outs, ready)
        ready.run(*args, *outs)
        return outs[0] if len(outs) == 1 else outs

    def _key(
        self, args: tuple[Any, ...], outs: tuple[Any, ...] | None, variant: str | None, config: Any
    ) -> Any:
        """What two calls have in common that do the same with other data.

        Raises KeyError for a class of tensors that no call was made with: an address may be asked
        of plain tensors alone.
        """
        key: list[Any] = [outs is None, variant, config]
        classes = self._classes
        given: tuple[Any, ...] = args if outs is None else args + outs
        for t in given:
            kind = t.__class__
            if kind in classes:
                key += (
                    t.shape, t.stride(), t.dtype, t.get_device(), t.data_ptr() % ALIGNMENT == 0,
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
        launch = plan.launch
        ready = _Ready(
            self._fixed(launch, args, made) if isinstance(launch, Launch) else launch,
            makers,
            tuple(0 if args[i] is None else args[i].nbytes for i in self._tensors),
        )
        self._classes |= {type(args[i]) for i in self._tensors if args[i] is not None}
        self._classes |= {type(out) for out in outs or ()}
        if len(self._ready) >= KINDS:
            self._ready.clear()
        self._ready[self._key(args, outs, variant, config)] = ready
        return ready

    def _fixed(self, launch: Launch, args: tuple[Any, ...], outs: tuple[Any, ...]) -> Run:
        """The launch of calls that differ from this one in data alone."""
        names = [p.name for p in self.schema.parameters] + output_names(len(outs))
        whole = (*args, *outs)
        given: list[Any] = []
        tensors: list[int] = []
        for argument in launch.arguments:
            name, view = argument if isinstance(argument, tuple) else (argument, None)
            if not isinstance(name, str):
                given.append(name)
                continue
            place = names.index(name)
            given.append(whole[place] if view is None else view(whole[place]))
            if whole[place].__class__ not in _SCALARS:
                tensors.append(place)
        run = launch.kernel.fixed(*given, **constants(launch.config))
        if tensors == list(range(len(whole))):
            return run
        return lambda *all_of_them: run(*[all_of_them[place] for place in tensors])

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

    def _apart(self, args: tuple[Any, ...], outs: tuple[Any, ...], ready: _Ready) -> None:
        """That no output shares memory with an argument, which would be read after it is
        written."""
        for out in outs:
            start = out.data_ptr()
            end = start + out.nbytes
            for i, size in zip(self._tensors, ready.nbytes, strict=True):
                if size and args[i].data_ptr() < end and start < args[i].data_ptr() + size:
                    name = self.schema.parameters[i].name
                    raise LaunchError(
                        f"{self.name}: out shares memory with {name}",
                        fix="pass a tensor of its own, or none",
                    )
