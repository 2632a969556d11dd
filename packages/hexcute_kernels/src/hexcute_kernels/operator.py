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
from dataclasses import replace
from functools import partial
from typing import Any, Generic

from hexcute_core.errors import LaunchError
from hexcute_kernels.calls import ALIGNMENT, UNKNOWN, make_reader
from hexcute_kernels.gpus import Gpu, gpu_of
from hexcute_kernels.prepared import Plan, Prepared, given_tensors, output_names, prepare
from hexcute_kernels.schema import parse
from hexcute_kernels.tensors import (
    Output,
    check_gradients,
    check_memory,
    check_output,
    check_tensor,
)
from hexcute_kernels.tuned import tuned_rows
from hexcute_kernels.variant import Argument, Launch, Nothing, P, Problem, Run, Steps, Variant

__all__ = [
    "Argument", "Launch", "Nothing", "Operator", "Plan", "Problem", "Run", "Steps", "Variant",
    "output_names",
]  # fmt: skip

KINDS = 4096
"""How many kinds of calls an operator remembers at most."""


def _tracing() -> bool:
    """Whether torch.compile looks on."""
    import torch

    return bool(torch.compiler.is_compiling())


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
        self._classes: set[type] = set()
        # Calls that were prepared, those without given outputs and those with.
        self._ready: dict[Any, Prepared] = {}
        self._ready_into: dict[Any, Prepared] = {}
        parameters = self.schema.parameters
        self._count = len(parameters)
        self._read = make_reader(parameters, 0, self._classes)
        self._read_into = make_reader(parameters, self.schema.results, self._classes)
        # Torch's own function as soon as torch is there.
        self._tracing: Callable[[], bool] = _tracing

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
        if self._tracing():
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
        if out is None:
            try:
                key, addresses = self._read(args, variant, config)
                ready = self._ready[key]
            except UNKNOWN:
                ready = self._prepare(args, None, variant, config)
                addresses = [t.data_ptr() for _, t in given_tensors(self.schema, args)]
            return ready.call(args, addresses)
        outs = out if isinstance(out, tuple) else (out,)
        try:
            key, addresses = self._read_into(args, outs, variant, config)
            ready = self._ready_into[key]
        except UNKNOWN:
            ready = self._prepare(args, outs, variant, config)
            given = [t for _, t in given_tensors(self.schema, args)]
            addresses = [t.data_ptr() for t in (*given, *outs)]
        ready.check_apart(self.schema, args, addresses)
        ready.into(args, outs, addresses)
        return outs[0] if len(outs) == 1 else outs

    def _prepare(
        self, args: tuple[Any, ...], outs: tuple[Any, ...] | None, variant: str | None, config: Any
    ) -> Prepared:
        """A call of a kind not seen before: planned, compiled where needed, and remembered."""
        import torch

        self._tracing = torch.compiler.is_compiling
        plan = self.plan(args, outs, variant, config)
        ready = prepare(self.schema, plan, args, outs)
        given = [t for _, t in given_tensors(self.schema, args)]
        self._classes.update(type(t) for t in (*given, *(outs or ())))
        kinds = self._ready if outs is None else self._ready_into
        if len(kinds) >= KINDS:
            kinds.clear()
        given_too = () if outs is None else (outs,)
        read = self._read if outs is None else self._read_into
        key, _ = read(args, *given_too, variant, config)
        kinds[key] = ready
        return ready

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
        tensors = [(p.name, t) for p, t in given_tensors(self.schema, args)]
        for name, tensor in tensors:
            check_tensor(self.name, name, tensor)
        self.schema.check_numbers(args)
        outputs = self.results(self.describe(*args))
        if outs is not None:
            if len(outs) != len(outputs):
                raise LaunchError(f"{self.name}: out is to be {len(outputs)} tensors")
            for tensor, output in zip(outs, outputs, strict=True):
                check_tensor(self.name, "out", tensor)
                check_output(self.name, "out", tensor, output)
                tensors.append(("out", tensor))
        self._placed(tensors)
        aligned = all(t.data_ptr() % ALIGNMENT == 0 for _, t in tensors)
        return self.plan_on(gpu_of(tensors[0][1].get_device()), args, aligned, variant, config)

    def plan_on(
        self,
        gpu: Gpu,
        args: tuple[Any, ...],
        aligned: bool = True,
        variant: str | None = None,
        config: Any = None,
    ) -> Plan:
        """How a call is computed on a GPU that need not be here, with tensors that need not hold
        data; `aligned`, each of them starts at a multiple of 16 bytes. Raises LaunchError."""
        problem = replace(self.describe(*args), aligned=aligned)
        chosen = self.choose(gpu, problem, variant, config)
        if config is None:
            tuned = partial(tuned_rows, self.name, chosen.name)
            config = chosen.configs.choose(gpu.name, problem, tuned)
        return Plan(chosen.name, config, self.results(problem), chosen.launch(problem, config))

    def results(self, problem: P) -> tuple[Output, ...]:
        """Shapes and types of the results."""
        found = self._outputs(problem)
        return found if isinstance(found, tuple) else (found,)

    def choose(
        self, gpu: Gpu, problem: P, variant: str | None = None, config: Any = None
    ) -> Variant[P, Any]:
        """The variant that was measured to be the fastest for such a problem on this GPU, else the
        first that computes it; only `variant` is asked where it is named, only those that `config`
        is for where it is given.

        Raises LaunchError with each one's reason.
        """
        known = [v.name for v in self.variants]
        if variant is not None and variant not in known:
            raise LaunchError(
                f"{self.name} has no variant {variant!r}", fix=f"use one of {', '.join(known)}"
            )
        if variant is None and config is None:
            for candidate in self.variants:
                rows = tuned_rows(self.name, candidate.name, gpu.name)
                if any(row.takes(problem) for row in rows) and not candidate.refusal(
                    gpu, problem, asked=True
                ):
                    return candidate
        reasons = []
        for candidate in self.variants:
            if variant is not None and candidate.name != variant:
                continue
            if config is not None and not isinstance(config, candidate.configs.kind):
                kind = candidate.configs.kind.__name__
                reason: str | None = f"takes a {kind}, not {config!r}"
            else:
                reason = candidate.refusal(gpu, problem, bool(variant or config))
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
