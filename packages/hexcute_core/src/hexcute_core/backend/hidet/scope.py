"""What the translation of one kernel knows: variables and arrays in scope, functions used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from hidet.ir import expr as he
from hidet.ir.func import Function
from hidet.ir.type import FuncType, TensorType, VoidType, data_type

from hexcute_core.arch.features import Feature, capability_of, features, first_with
from hexcute_core.backend.hidet.asm import Instruction, function
from hexcute_core.backend.hidet.inflight import InFlight
from hexcute_core.backend.hidet.marks import Marks
from hexcute_core.backend.hidet.storage import Cell
from hexcute_core.dtypes import DType
from hexcute_core.errors import BackendError, SourceSpan
from hexcute_core.scalar import Scalar
from hexcute_core.scalar.bounds import Bounds

BUILTINS = frozenset(
    f"{base}.{axis}" for base in ("threadIdx", "blockIdx", "blockDim", "gridDim") for axis in "xyz"
)


@dataclass(frozen=True, eq=False)
class RegisterArray:
    """A declared register array: its Hidet variable, element type, entry type and their number.

    `resident` is the name its registers have in PTX, before their number, while only there."""

    var: Any
    dtype: DType
    cell: Cell
    entries: int
    resident: str | None = None


@dataclass
class Scope:
    """Names in scope and the device functions the kernel has used so far, in order.

    `known` has bounds of variables, `quotients` the variables of divisions made before a loop,
    `maps` the address of each tensor map, `products` what `inflight` found, `shared` the arena's
    32-bit address, `shared_units` the same as a matrix descriptor holds it, `residents` the PTX
    names of arrays that `resident` leaves to the assembler, `stamping` where the next stamp goes
    and how many still fit, `marks` the spans of what is printed, where somebody asks for them.
    """

    arch: str
    variables: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, RegisterArray] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    pointers: dict[str, Any] = field(default_factory=dict)
    maps: dict[str, Any] = field(default_factory=dict)
    headers: set[str] = field(default_factory=set)
    known: dict[str, Bounds] = field(default_factory=dict)
    quotients: dict[Scalar, Any] = field(default_factory=dict)
    products: InFlight = field(default_factory=InFlight)
    residents: dict[RegisterArray, str] = field(default_factory=dict)
    shared: Any = None
    shared_units: Any = None
    stamping: Any = None
    marks: Marks | None = None
    span: SourceSpan | None = None

    def has(self, feature: Feature) -> bool:
        """Whether the target's GPUs have a feature."""
        return feature in features(capability_of(self.arch))

    @contextmanager
    def block(self) -> Iterator[None]:
        """What is declared inside is gone after."""
        variables, arrays, known = self.variables, self.arrays, self.known
        self.variables, self.arrays, self.known = dict(variables), dict(arrays), dict(known)
        try:
            yield
        finally:
            self.variables, self.arrays, self.known = variables, arrays, known

    @contextmanager
    def at(self, span: SourceSpan | None) -> Iterator[None]:
        """Errors raised inside point to `span`, where it is known."""
        outer = self.span
        self.span = span or outer
        try:
            yield
        finally:
            self.span = outer

    def error(self, message: str, fix: str | None = None) -> BackendError:
        return BackendError(message, self.span, fix)

    def need(self, feature: Feature, name: str) -> None:
        """Refuses the primitive `name` on targets that lack the feature it is of."""
        if not self.has(feature):
            first = first_with(feature)
            fix = f'compile with target="{first}"'
            raise self.error(
                f"{name} needs {first}, the target is {self.arch}",
                fix="convert the operands to f16" if feature == "fp8" else fix,
            )

    def variable(self, name: str) -> Any:
        """The Hidet variable called `name`."""
        if name in BUILTINS:
            return he.Var(None, data_type("int32"), name=name)
        try:
            return self.variables[name]
        except KeyError:
            raise self.error(
                f"the variable {name!r} is not defined here",
                fix="assign it in an enclosing block first",
            ) from None

    def array(self, name: str) -> RegisterArray:
        """The register array called `name`."""
        try:
            return self.arrays[name]
        except KeyError:
            raise self.error(
                f"the register array {name!r} is not declared here",
                fix="declare it in an enclosing block first",
            ) from None

    def resident(self, array: RegisterArray) -> str:
        """The name of the array's registers in PTX, before their number."""
        return self.residents.setdefault(array, f"hx_resident{len(self.residents)}_")

    def instruction(self, ins: Instruction, args: list[Any], predicate: Any = None) -> Any:
        """A call of the function of `ins`, under `predicate` where one is given.

        Raises BackendError where a register's number would be converted on the way: instructions
        move bits, and C turns a float that is given for a word into an integer.
        """
        declared = ins.inputs if ins.result else ins.outputs + ins.inputs
        for expected, arg in zip(declared, args):
            held = _held(arg)
            if held is not None and held.startswith("float") != expected.startswith("float"):
                raise self.error(f"{ins.name} takes {expected}, its operand holds {held}")
        func = function(ins, predicated=predicate is not None)
        self.functions.setdefault(func.name, func)
        return call(func.name, args if predicate is None else [*args, predicate])


def _held(arg: Any) -> str | None:
    """The type of an entry of a register array, by name; None for other operands."""
    if not isinstance(arg, he.TensorElement) or not isinstance(arg.base, he.Var):
        return None
    kind = arg.base.type
    return str(kind.dtype.name) if isinstance(kind, TensorType) else None


def call(name: str, args: list[Any]) -> Any:
    """A call of a function of this module or a CUDA built-in."""
    return he.Call(he.Var(None, FuncType([], VoidType()), name=name), tuple(args))


def integer(value: int, type_name: str = "int32") -> Any:
    """An integer literal."""
    return he.Constant(value, data_type(type_name))
