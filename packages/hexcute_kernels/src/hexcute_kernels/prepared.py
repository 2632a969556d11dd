"""Plan -> what repeated calls of its kind do: make the outputs, gather addresses, launch.

Nothing of a plan is worked out again here: views were taken and arguments found once, and of each
call only the addresses are new.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_core.runtime import Described
from hexcute_kernels.calls import SCALARS
from hexcute_kernels.schema import Schema
from hexcute_kernels.tables import constants
from hexcute_kernels.tensors import Output, torch_dtype
from hexcute_kernels.variant import Launch, Run, Steps

Addresses = list[int]


@dataclass(frozen=True)
class Plan:
    """What a call of one kind does: `variant` by `config`, launched as `launch` says."""

    variant: str
    config: Any
    outputs: tuple[Output, ...]
    launch: Launch | Steps | Run


@dataclass(frozen=True)
class Prepared:
    """A plan as repeated calls need it.

    `call` takes the arguments and the addresses of their tensors, makes the outputs and gives them;
    `into` takes given outputs too, whose addresses are the last ones. Both launch, and change the
    list of addresses. `nbytes` are the bytes of the `inputs` tensors that are arguments, then those
    of the outputs.
    """

    call: Callable[[tuple[Any, ...], Addresses], Any]
    into: Callable[[tuple[Any, ...], tuple[Any, ...], Addresses], object]
    nbytes: tuple[int, ...]
    inputs: int

    def check_apart(self, schema: Schema, args: tuple[Any, ...], addresses: Addresses) -> None:
        """That no given output shares memory with an argument, which would be read after it is
        written. Raises LaunchError."""
        inputs, sizes = self.inputs, self.nbytes
        for i in range(inputs, len(addresses)):
            start = addresses[i]
            end = start + sizes[i]
            for j in range(inputs):
                if addresses[j] < end and start < addresses[j] + sizes[j]:
                    named = [p.name for p, _ in given_tensors(schema, args)]
                    raise LaunchError(
                        f"{schema.name}: out shares memory with {named[j]}",
                        fix="pass a tensor of its own, or none",
                    )


def given_tensors(schema: Schema, args: tuple[Any, ...]) -> list[tuple[Any, Any]]:
    """The parameters that are tensors with their arguments, without those left out."""
    pairs = zip(schema.parameters, args, strict=True)
    return [(p, t) for p, t in pairs if p.kind == "Tensor" and not (p.optional and t is None)]


def output_names(count: int) -> list[str]:
    """What the outputs of an operator with so many are called."""
    return ["out"] if count == 1 else [f"out{i}" for i in range(count)]


def prepare(
    schema: Schema, plan: Plan, args: tuple[Any, ...], outs: tuple[Any, ...] | None
) -> Prepared:
    """Compiles what the plan needs, for calls that differ from this one in data alone."""
    tensors = [t for _, t in given_tensors(schema, args)]
    makers = tuple(_maker(tensors[0], output) for output in plan.outputs)
    made = outs or tuple(make() for make in makers)
    nbytes, inputs = tuple(t.nbytes for t in (*tensors, *made)), len(tensors)
    match plan.launch:
        case Launch():
            run = _in_order(*_fixed(schema, plan.launch, args, made))
        case Steps():
            run = _steps(schema, plan.launch, args, made, tensors[0])
        case function:
            return _by_function(function, makers, nbytes, inputs)
    call = _one(run, makers[0]) if len(makers) == 1 else _several(run, makers)
    return Prepared(call, lambda args, outs, addresses: run(addresses), nbytes, inputs)


def _one(run: Callable[[Addresses], object], make: Callable[[], Any]) -> Callable[..., Any]:
    def call(args: tuple[Any, ...], addresses: Addresses) -> Any:
        made = make()
        addresses.append(made.data_ptr())
        run(addresses)
        return made

    return call


def _several(
    run: Callable[[Addresses], object], makers: Sequence[Callable[[], Any]]
) -> Callable[..., Any]:
    def call(args: tuple[Any, ...], addresses: Addresses) -> Any:
        made = tuple([make() for make in makers])
        addresses += [t.data_ptr() for t in made]
        run(addresses)
        return made

    return call


def _by_function(
    function: Run, makers: Sequence[Callable[[], Any]], nbytes: tuple[int, ...], inputs: int
) -> Prepared:
    def call(args: tuple[Any, ...], addresses: Addresses) -> Any:
        made = tuple(make() for make in makers)
        function(*args, *made)
        return made[0] if len(made) == 1 else made

    return Prepared(call, lambda args, outs, addresses: function(*args, *outs), nbytes, inputs)


def _in_order(
    run: Callable[[Sequence[int]], object], places: tuple[int, ...]
) -> Callable[[Addresses], object]:
    if not places:
        return run
    if len(places) == 1:
        (place,) = places
        return lambda addresses: run((addresses[place],))
    pick = itemgetter(*places)
    return lambda addresses: run(pick(addresses))


def _steps(
    schema: Schema, steps: Steps, args: tuple[Any, ...], outs: tuple[Any, ...], where: Any
) -> Callable[[Addresses], object]:
    """The launches, given the addresses of all of a call's tensors."""
    makers = [_maker(where, output) for output in steps.work]
    work = tuple(make() for make in makers)
    launches = [_in_order(*_fixed(schema, launch, args, outs, work)) for launch in steps.launches]

    def run(addresses: Addresses) -> None:
        # What is made here is the allocator's again when the last launch is under way; what
        # gets it next runs behind that.
        held = [make() for make in makers]
        addresses += [t.data_ptr() for t in held]
        for launch in launches:
            launch(addresses)

    return run


def _maker(tensor: Any, output: Output) -> Callable[[], Any]:
    """Makes an output where `tensor` is. `empty_like` of a tensor of that shape, which takes the
    memory of one element, costs half of what a shape, a type and a place do."""
    import torch

    if output.order is not None:
        return partial(output.empty, tensor)
    dtype = torch_dtype(output.dtype)
    like = tensor.new_empty((), dtype=dtype).expand(output.shape)
    if torch.empty_like(like).is_contiguous():
        return partial(torch.empty_like, like)
    return partial(tensor.new_empty, output.shape, dtype=dtype)


def arguments(
    schema: Schema,
    launch: Launch,
    args: tuple[Any, ...],
    outs: tuple[Any, ...],
    work: tuple[Any, ...] = (),
) -> tuple[list[Any], list[int]]:
    """What the kernel of a launch gets, and the places of its tensors among all of the call's and
    `work`."""
    names = [p.name for p in schema.parameters] + output_names(len(outs))
    names += [f"work{i}" for i in range(len(work))]
    whole = (*args, *outs, *work)
    present = [i for i, value in enumerate(whole) if value.__class__ not in SCALARS]
    given: list[Any] = []
    places: list[int] = []
    for argument in launch.arguments:
        name, view = argument if isinstance(argument, tuple) else (argument, None)
        if not isinstance(name, str):
            given.append(name)
            continue
        place = names.index(name)
        given.append(whole[place] if view is None else view(whole[place]))
        if whole[place].__class__ not in SCALARS:
            places.append(present.index(place))
    return given, places


def described(
    schema: Schema, plan: Plan, args: tuple[Any, ...], target: str
) -> list[tuple[hx.CompiledKernel, list[Any]]]:
    """The kernels that a plan launches, compiled for `target`, with what each is launched on, of
    torch's "meta" tensors and without a GPU. Nothing is built before it is asked for."""
    where = next(t for _, t in given_tensors(schema, args))

    def make(outputs: Sequence[Output]) -> tuple[Any, ...]:
        return tuple(o.empty(where) for o in outputs)

    match plan.launch:
        case Launch() as launch:
            launches, work = (launch,), ()
        case Steps(outputs, launches):
            work = make(outputs)
        case _:
            return []
    found = []
    for launch in launches:
        given, _ = arguments(schema, launch, args, make(plan.outputs), work)
        told = [v if v.__class__ in SCALARS else Described(v) for v in given]
        how = constants(launch.config)
        found.append((launch.kernel.compile_for(*told, target=target, constants=how), told))
    return found


def _fixed(
    schema: Schema,
    launch: Launch,
    args: tuple[Any, ...],
    outs: tuple[Any, ...],
    work: tuple[Any, ...] = (),
) -> tuple[Callable[[Sequence[int]], object], tuple[int, ...]]:
    """The launch with other data, and the places of its tensors; none where they are all, in
    order."""
    given, places = arguments(schema, launch, args, outs, work)
    run = launch.kernel.fixed(*given, **constants(launch.config))
    every = sum(value.__class__ not in SCALARS for value in (*args, *outs, *work))
    return run, () if places == list(range(every)) else tuple(places)
