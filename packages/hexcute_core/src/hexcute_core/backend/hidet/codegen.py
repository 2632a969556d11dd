"""Hidet IR -> CUDA C++ text that NVRTC takes: hidet's printer with our kernel signature.

Against hidet's own: an `extern "C"` kernel, built-in C types instead of <stdint.h>, literals of
full precision, no runtime headers, no type inference (expressions arrive fully typed).
"""

from __future__ import annotations

import functools
import math
import struct
from typing import Any

from hidet.backend.codegen import CUDACodegen
from hidet.ir import dtypes as hd
from hidet.ir.expr import Expr
from hidet.ir.module import IRModule
from hidet.ir.type import OpaqueType, PointerType
from hidet.utils.doc import Doc, NewLine, Text, doc_join

from hexcute_core.backend.hidet import tensor_maps
from hexcute_core.backend.hidet.asm import OWN
from hexcute_core.backend.hidet.names import Names

_TYPES = {
    "bool": "bool", "uint8": "unsigned char", "uint16": "unsigned short",
    "uint32": "unsigned int", "uint64": "unsigned long long", "int8": "signed char",
    "int16": "short", "int32": "int", "int64": "long long", "float32": "float",
    "tfloat32": "float", "float64": "double", "float16": "half", "bfloat16": "__nv_bfloat16",
}  # fmt: skip
_SUFFIX = {"uint32": "u", "int64": "ll", "uint64": "ull"}
_HEADERS = {"float16": "cuda_fp16.h", "bfloat16": "cuda_bf16.h"}


class Codegen(CUDACodegen):  # type: ignore[misc]
    """Prints one module: its device functions, then the kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.namer = Names()
        self._own = True
        self._headers: set[str] = set()

    def visit(self, node: Any) -> Doc:
        """hidet finds a node's method by asking for one class after the other, at every node, and
        copies the pieces of an expression's text into every expression around it."""
        if isinstance(node, Doc):
            return node
        kind: Any = type(node)
        method = _method(kind)
        doc: Doc = super().visit(node) if method is None else method(self, node)
        return Text("".join(doc.docs)) if isinstance(node, Expr) and len(doc.docs) > 1 else doc

    def visit_IRModule(self, module: Any) -> Doc:
        if not all(f.attrs.get(OWN) for f in module.functions.values()):
            return super().visit_IRModule(module)
        # Each of our functions is in the module after those it calls.
        self.ir_module = module
        doc = Doc()
        for func in module.functions.values():
            if func.kind == "cuda_kernel":
                doc += self(func) + NewLine()
            else:
                text, headers = _device_function(func)
                self._headers |= headers
                doc += text
        return self.require_headers() + doc

    def require_headers(self) -> Doc:
        doc = Doc()
        for header in sorted(self._headers | set(self.ir_module.include_headers)):
            doc += Text(f"#include <{header}>") + NewLine()
        if any(_is_map(p) for f in self.ir_module.functions.values() for p in f.params):
            doc += Text(tensor_maps.DEFINITION) + NewLine()
        return doc

    def canonize_funcname(self, name: str) -> str:
        return name.replace(".", "::")

    def visit_Function(self, func: Any) -> Doc:
        self.namer.clear()
        self._own = bool(func.attrs.get(OWN))
        if func.kind == "cuda_kernel":
            bounds = str(func.attrs["cuda.block_dim"])
            if "cuda.min_blocks" in func.attrs:
                bounds += f", {func.attrs['cuda.min_blocks']}"
            marks = f"__launch_bounds__({bounds})"
            cluster = func.attrs.get("cuda.cluster_dim", (1, 1, 1))
            if cluster != (1, 1, 1):
                marks = f"__cluster_dims__({', '.join(map(str, cluster))}) {marks}"
            head = Text(f'extern "C" __global__ void {marks} {func.name}')
        else:
            head = Text("static __device__ __forceinline__ ") + self(func.ret_type)
            head += " " + self.canonize_funcname(func.name)
        restrict = func.kind == "cuda_kernel"
        params = [self._parameter(p, restrict) for p in func.params]
        doc = NewLine() + head + "(" + doc_join(params, ", ") + ") {"
        return doc + self(func.body).indent() + NewLine() + "}"

    def _parameter(self, var: Any, restrict: bool) -> Doc:
        if not isinstance(var.type, PointerType):
            return self.param_declare(var)
        middle = "* __restrict__ " if restrict else "* "
        return self(var.type.base_type) + middle + self(var)

    def visit_DataType(self, t: Any) -> Doc:
        if t.name in _HEADERS:
            self._headers.add(_HEADERS[t.name])
        if t.name in _TYPES:
            return Text(_TYPES[t.name])
        return super().visit_DataType(t)

    def scalar_literal(self, value: Any, dtype: Any) -> Doc:
        if dtype == hd.boolean:
            return Text("true" if value else "false")
        if dtype.name in ("float32", "float64", "tfloat32"):
            return Text(_float_literal(float(value), double=dtype.name == "float64"))
        if dtype.name in _HEADERS:
            return Text(f"({_TYPES[dtype.name]})") + _float_literal(float(value), double=False)
        if not dtype.is_integer():
            return super().scalar_literal(value, dtype)
        number = int(value)
        lowest = -(2 ** (dtype.nbytes * 8 - 1))
        suffix = _SUFFIX.get(dtype.name, "")
        if number == lowest and dtype.nbytes >= 4:
            # C has no negative literals: the lowest value is an expression.
            return Text(f"({number + 1}{suffix} - 1)")
        text = f"{number}{suffix}" if number >= 0 else f"({number}{suffix})"
        return Text(text if dtype.nbytes >= 4 else f"({_TYPES[dtype.name]}){text}")

    def visit_Var(self, e: Any) -> Doc:
        name = self.namer.get_name(e)
        if name.startswith(("threadIdx.", "blockIdx.", "blockDim.", "gridDim.")):
            return Text(f"(int){name}")
        return Text(self.canonize_funcname(name))

    def binary_arith_op(self, e: Any, op: str) -> Doc:
        if not self._own:
            return super().binary_arith_op(e, op)
        return "(" + self(e.a) + f" {op} " + self(e.b) + ")"

    def visit_Add(self, e: Any) -> Doc:
        return self.binary_arith_op(e, "+")

    def visit_Cast(self, e: Any) -> Doc:
        if not self._own:
            return super().visit_Cast(e)
        return "((" + self(e.target_type) + ")" + self(e.expr) + ")"

    def visit_Neg(self, e: Any) -> Doc:
        return "(-" + self(e.a) + ")"

    def visit_Mark(self, mark: Any) -> Doc:
        return NewLine() + mark.text

    def visit_ForStmt(self, stmt: Any) -> Doc:
        var, extent = self(stmt.loop_var), self(stmt.extent)
        doc = Doc()
        if stmt.attr.unroll:
            factor = f" {stmt.attr.unroll_factor}" if stmt.attr.unroll_factor else ""
            doc += NewLine() + f"#pragma unroll{factor}"
        doc += NewLine() + "for (" + self(stmt.loop_var.type) + " " + var + " = 0; "
        doc += var + " < " + extent + "; ++" + var + ") {"
        return doc + self(stmt.body).indent() + NewLine() + "}"

    def visit_IfStmt(self, stmt: Any) -> Doc:
        doc = NewLine() + "if (" + self(stmt.cond) + ") {"
        doc += self(stmt.then_body).indent() + NewLine() + "}"
        if stmt.else_body is not None:
            doc += " else {" + self(stmt.else_body).indent() + NewLine() + "}"
        return doc


@functools.cache
def _method(kind: type) -> Any:
    """The method that prints nodes of class `kind`; None for what is no node."""
    names = (f"visit_{cls.__name__}" for cls in kind.__mro__)
    return next((getattr(Codegen, name) for name in names if hasattr(Codegen, name)), None)


@functools.cache
def _device_function(func: Any) -> tuple[Doc, frozenset[str]]:
    """The text of one of our device functions, which is the same in every module, and the headers
    it needs."""
    printer = Codegen()
    printer.ir_module = IRModule({func.name: func})
    text = printer(func) + NewLine()
    return text, frozenset(printer._headers)


def _is_map(var: Any) -> bool:
    return isinstance(var.type, OpaqueType)


def _float_literal(value: float, double: bool) -> str:
    if not double:
        value = _to_f32(value)
    if not math.isfinite(value):
        if double:
            bits = struct.unpack("<Q", struct.pack("<d", value))[0]
            return f"__longlong_as_double({bits:#x})"
        return f"__int_as_float({struct.unpack('<I', struct.pack('<f', value))[0]:#x})"
    text = repr(value) if double else f"{value!r}f"
    return text if math.copysign(1.0, value) > 0 else f"({text})"


def _to_f32(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)
