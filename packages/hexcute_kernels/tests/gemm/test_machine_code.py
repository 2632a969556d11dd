"""What the machine code of the GEMM kernels is made of."""

from __future__ import annotations

import re

import pytest

import hexcute_core as hx
from hexcute_core.driver import CompiledKernel
from hexcute_core.errors import MissingDependency
from hexcute_kernels.gemm.candidates import LARGE, MMA, WGMMA
from hexcute_kernels.gemm.configs import MmaConfig, WgmmaConfig
from hexcute_kernels.gemm.pipelined import pipelined_gemm
from hexcute_kernels.gemm.simple import simple_gemm
from hexcute_kernels.gemm.warp_specialized import warp_specialized_gemm


def instructions(compiled: CompiledKernel) -> set[str]:
    """Every instruction with its modifiers, predicates aside."""
    try:
        text = compiled.sass()
    except MissingDependency as error:
        pytest.skip(str(error))
    found = re.findall(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", text, re.M)
    assert not [name for name in found if name.startswith(("LDL", "STL"))]
    return set(found)


def has(names: set[str], head: str, *modifiers: str) -> bool:
    return any(n.startswith(head) and all(f".{m}" in n for m in modifiers) for n in names)


@pytest.mark.parametrize("config", MMA, ids=str)
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_pipelined_gemm(target: str, config: MmaConfig) -> None:
    compiled = pipelined_gemm(hx.f16).compile(target, constants=vars(config))
    names = instructions(compiled)
    assert has(names, "LDGSTS", "128")
    assert has(names, "LDSM", "M88", "4") and not has(names, "LDSM", "M88", "2")
    assert has(names, "STG", "128")
    assert has(names, "HMMA", "16816", "F32")
    assert not compiled.built.local_memory
    assert compiled.built.registers <= 255


def test_simple_gemm_loads_16_bytes_from_global_memory() -> None:
    names = instructions(simple_gemm.compile("sm_80"))
    assert has(names, "LDG", "128") and has(names, "STG", "128")


@pytest.mark.parametrize(("a_major", "b_major"), [("k", "k"), ("m", "n")])
def test_warp_specialized_gemm(a_major: str, b_major: str) -> None:
    names = instructions(warp_specialized_gemm(hx.f16, a_major, b_major).compile("sm_90"))
    assert has(names, "HGMMA", "64x256x16", "F32") and not has(names, "HMMA")
    assert has(names, "UTMALDG") and has(names, "UTMASTG") and has(names, "USETMAXREG")


@pytest.mark.parametrize("config", WGMMA, ids=str)
def test_configurations_of_warp_specialized_gemm(config: WgmmaConfig) -> None:
    compiled = warp_specialized_gemm(hx.f16).compile("sm_90", constants=vars(config))
    names = instructions(compiled)
    assert has(names, "HGMMA", f"64x{config.BN}x16", "F32") and not has(names, "HMMA")
    assert has(names, "UTMASTG") and has(names, "UTMALDG", "2D")
    shared = config.CLUSTER_M * config.CLUSTER_N > 1
    assert has(names, "UTMALDG", "MULTICAST") == shared
    assert not compiled.built.local_memory
    assert compiled.built.registers * 128 * (config.CONSUMERS + 1) <= 65536


@pytest.mark.parametrize("n", [96, 176])
def test_the_instruction_matches_the_tile(n: int) -> None:
    names = instructions(warp_specialized_gemm(hx.f16).compile("sm_90", BN=n))
    assert has(names, "HGMMA", f"64x{n}x16")


def test_a_bias_leaves_the_products_as_they_are() -> None:
    """Warp groups divide the rows of a tile, each by instructions as wide as it, with and without a
    bias: two that divide the columns read the first operand twice, which takes 7% longer."""
    for bias, row in ((False, False), (True, False), (True, True)):
        activation = "gelu" if bias else None
        kernel = warp_specialized_gemm(hx.f16, bias=bias, activation=activation, row=row)
        names = instructions(kernel.compile("sm_90", constants=vars(LARGE)))
        assert {n for n in names if n.startswith("HGMMA")} == {"HGMMA.64x256x16.F32"}
