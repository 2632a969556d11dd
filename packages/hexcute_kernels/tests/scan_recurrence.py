"""The selective scan in float64, and problems for it as the kernel takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np

import hexcute_core as hx
from hexcute_kernels.scan.selective import selective_scan_kernel
from hexcute_kernels.scan.warp_specialized import helped_scan_kernel

NUMPY: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}
Array = Any


def recurrence(
    u: Array, delta: Array, a: Array, b: Array, c: Array, *, skip: Array | None = None,
    z: Array | None = None, bias: Array | None = None, soft: bool = False,
    start: Array | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """y and the last state of u, delta, z (batch, groups, channels, length), b, c (batch, groups,
    states, length), a (groups, channels, states), skip, bias (groups, channels)."""
    u, delta, a, b, c = (x.astype(np.float64) for x in (u, delta, a, b, c))
    dt = delta if bias is None else delta + bias[..., None]
    dt = np.log1p(np.exp(dt)) if soft else dt
    h = np.zeros((*u.shape[:3], a.shape[2])) if start is None else start.astype(np.float64)
    y = np.zeros_like(u)
    for t in range(u.shape[3]):
        h = h * np.exp(dt[..., t, None] * a)
        h += (dt[..., t] * u[..., t])[..., None] * b[:, :, None, :, t]
        y[..., t] = (h * c[:, :, None, :, t]).sum(3)
    y = y if skip is None else y + skip[..., None] * u
    if z is not None:
        gate = z.astype(np.float64)
        y = y * gate / (1 + np.exp(-gate))
    return y, h


@dataclass(frozen=True)
class Case:
    """A problem: sizes, what it has, in which order, and whether the kernel with helpers is to
    compute it. `lengths` are those of ragged sequences, one behind the other in a batch of one."""

    dtype: hx.DType = hx.f16
    batch: int = 1
    groups: int = 1
    channels: int = 40
    length: int = 40
    states: int = 16
    lengths: tuple[int, ...] | None = None
    has: frozenset[str] = frozenset()
    timed: bool = True
    bc_timed: bool = True
    helped: bool = False
    config: dict[str, int] = field(default_factory=dict)
    target: str = "sm_90"

    def tensors(self, seed: int = 0) -> dict[str, Array]:
        """Random arguments, steps last, by name; those that the problem has not are None."""
        rng = np.random.default_rng(seed)
        length = self.length if self.lengths is None else sum(self.lengths)
        sequences = self.batch if self.lengths is None else len(self.lengths)
        width = self.groups, self.channels
        many, shared = (self.batch, *width, length), (self.batch, self.groups, self.states, length)

        def normal(*shape: int) -> Array:
            return rng.normal(size=shape).astype(np.float32).astype(NUMPY[self.dtype.name])

        def single(*shape: int) -> Array:
            return rng.normal(size=shape).astype(np.float32)

        soft = "soft" in self.has
        delta, bias = normal(*many), single(*width)
        made = {
            "u": normal(*many), "delta": delta if soft else np.abs(delta),
            "a": -rng.uniform(0.5, 4, (*width, self.states)).astype(np.float32),
            "b": normal(*shared), "c": normal(*shared), "skip": single(*width), "z": normal(*many),
            "bias": bias if soft else np.abs(bias), "start": single(sequences, *width, self.states),
        }  # fmt: skip
        optional = {"skip": "skips", "z": "gated", "bias": "biased", "start": "starts"}
        return {n: t if optional.get(n, n) in {n, *self.has} else None for n, t in made.items()}

    def simulate(self, tensors: dict[str, Array]) -> tuple[Array, Array | None]:
        """What the kernel gives on the CPU: y and the states, steps last."""
        u = tensors["u"]
        flags: dict[str, Any] = dict.fromkeys(self.has, True)
        if self.lengths is not None:
            flags["ragged"] = True
        make = helped_scan_kernel if self.helped else selective_scan_kernel
        kernel = make(self.dtype, self.states, timed=self.timed, bc_timed=self.bc_timed, **flags)

        def placed(name: str) -> Array:
            steps_last = self.bc_timed if name in "bc" else self.timed
            tensor = tensors[name]
            if name in ("u", "delta", "z", "b", "c") and not steps_last:
                tensor = np.moveaxis(tensor, -1, 1)
            return np.ascontiguousarray(tensor)

        args = [placed(name) for name, tensor in tensors.items() if tensor is not None]
        out = placed("u") * 0 + np.asarray(np.nan, u.dtype)
        sequences = u.shape[0]
        if self.lengths is not None:
            sequences = len(self.lengths)
            args.append(offsets(self.lengths))
        args.append(out)
        end = None
        if "ends" in self.has:
            end = np.full((sequences, *u.shape[1:3], self.states), np.nan, np.float32)
            args.append(end)
        kernel.simulate(*args, target=self.target, **self.config)
        return out if self.timed else np.moveaxis(out, 1, -1), end

    def expected(self, tensors: dict[str, Array]) -> tuple[Array, Array]:
        """The same by the recurrence, sequence by sequence."""
        soft = "soft" in self.has
        if self.lengths is None:
            return recurrence(**tensors, soft=soft)
        ends = offsets(self.lengths)
        found = []
        for s, (begin, end) in enumerate(pairwise(ends)):
            part = {
                n: t[..., begin:end] if n in ("u", "delta", "z", "b", "c") and t is not None else t
                for n, t in tensors.items()
            }
            if tensors["start"] is not None:
                part["start"] = tensors["start"][s : s + 1]
            found.append(recurrence(**part, soft=soft))
        return (
            np.concatenate([y for y, _ in found], -1),
            np.concatenate([h for _, h in found], 0),
        )


def offsets(lengths: Sequence[int]) -> Array:
    """Where sequences of these lengths begin, and the last ends."""
    return np.cumsum([0, *lengths]).astype(np.int32)


def close(got: Array, want: Array, bits: int) -> None:
    """That `got` is `want` but for 2^-bits of it and of its root mean square."""
    scale = np.sqrt(np.mean(want**2))
    np.testing.assert_allclose(
        got.astype(np.float64), want, rtol=2.0**-bits, atol=scale * 2.0**-bits
    )
