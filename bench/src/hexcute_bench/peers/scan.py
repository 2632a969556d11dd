"""Selective-scan peers: mamba-ssm, vLLM's copy of it, Triton; of a step, mamba-ssm and Triton."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hexcute_bench.cases.scan import STATES, ScanCase
from hexcute_bench.cases.state_update import StateUpdateCase
from hexcute_bench.interface import Candidate, CasePeer, Run
from hexcute_bench.peers.common import module
from hexcute_bench.peers.folder import python_package, vllm_operators
from hexcute_bench.peers.ours import Hexcute, TunedHexcute, hexcute


class Mamba(CasePeer):
    """selective_scan_cuda.fwd of mamba-ssm."""

    name = "mamba"

    def prepare(self, case: ScanCase) -> Sequence[Candidate]:
        module("torch")
        forward = python_package("selective_scan_cuda", "selective_scan_cuda*.so.xz").fwd

        def build() -> Run:
            def run(index: int) -> Any:
                made = forward(
                    case.u[index], case.delta[index], case.a, case.b[index], case.c[index],
                    case.d, case.z[index], case.bias, True,
                )  # fmt: skip
                # The gated output is the last; the ungated one comes first.
                return made[-1]

            return run

        return [Candidate("default", build)]


class VllmScan(CasePeer):
    """selective_scan_fwd of vLLM, which writes its output over delta, and the gated one over z.

    Its parameters have grown from version to version, so they are filled in by name.
    """

    name = "vllm_scan"

    def prepare(self, case: ScanCase) -> Sequence[Candidate]:
        torch = module("torch")
        scan = vllm_operators("vllm._C", "_C", "selective_scan_fwd")
        schema = scan.default._schema

        def build() -> Run:
            gates, deltas = ([x.clone() for x in given] for given in (case.z, case.delta))

            def restore(index: int) -> None:
                gates[index].copy_(case.z[index])
                deltas[index].copy_(case.delta[index])

            case.restored.append(restore)
            states = torch.zeros((case.batch, case.width, STATES), device="cuda")
            shared = {
                "A": case.a, "D_": case.d, "delta_bias_": case.bias, "delta_softplus": True,
                "ssm_states": states.to(torch.float16), "pad_slot_id": -1, "null_block_id": -1,
                "block_size": 1024,
            }  # fmt: skip

            def given(index: int) -> list[Any]:
                named = shared | {
                    "u": case.u[index], "delta": deltas[index], "B": case.b[index],
                    "C": case.c[index], "z_": gates[index],
                }  # fmt: skip
                return [
                    named.get(argument.name, argument.default_value)
                    for argument in schema.arguments
                ]

            calls = [given(index) for index in range(case.sets)]

            def run(index: int) -> Any:
                scan(*calls[index])
                return gates[index]

            return run

        return [Candidate("default", build)]


def hexcute_scan() -> tuple[Hexcute, TunedHexcute]:
    """Our `selective_scan(u, delta, a, b, c, d, z, bias)`."""
    return hexcute(
        "selective_scan",
        lambda case, i: (
            case.u[i], case.delta[i], case.a, case.b[i], case.c[i], case.d, case.z[i], case.bias,
            True,
        ),
    )  # fmt: skip


class MambaUpdate(CasePeer):
    """selective_state_update of mamba-ssm, a Triton kernel with the tiles its authors chose."""

    name = "mamba"

    def prepare(self, case: StateUpdateCase) -> Sequence[Candidate]:
        module("triton")
        path = "mamba_ssm.ops.triton.selective_state_update"
        step = python_package(path, "mamba_ssm*.txz").selective_state_update

        def build() -> Run:
            def run(index: int) -> Any:
                return step(
                    case.state[index], case.x[index], case.dt[index], case.a, case.b[index],
                    case.c[index], case.d, case.z[index], case.bias, True,
                )  # fmt: skip

            return run

        return [Candidate("default", build)]


def hexcute_update() -> tuple[Hexcute, TunedHexcute]:
    """Our `selective_state_update(state, x, dt, a, b, c, d, z, bias)`, the state in place."""
    return hexcute(
        "selective_state_update",
        lambda case, i: (
            case.state[i], case.x[i], case.dt[i], case.a, case.b[i], case.c[i], case.d, case.z[i],
            case.bias, True,
        ),
        changes=True,
    )  # fmt: skip
