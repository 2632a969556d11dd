"""The compiler's output, its log's readings and the errors of a wrong source or a bare machine."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hexcute_core.errors import MissingDependency, ToolchainError
from hexcute_core.toolchain import (
    TARGETS,
    compile_cubin,
    discovery,
    nvrtc,
    sass,
    toolchain_version,
)
from hexcute_core.toolchain.compiler import _refuse_broken_code
from hexcute_core.toolchain.cubin import Resources, parse_resources

HALF = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void __launch_bounds__(128) halves(half* a, __nv_bfloat16* b, int n) {
  __shared__ float s[12];
  s[threadIdx.x % 12] = n;
  __syncthreads();
  a[threadIdx.x] = __float2half(s[n % 12]);
  b[threadIdx.x] = __float2bfloat16(s[n % 12]);
}
"""
LOCAL_ARRAY = """
extern "C" __global__ void local(int* a, int n) {
  int z[40];
  for (int j = 0; j < 40; ++j) z[j] = a[j];
  z[n] = a[n];
  for (int j = 0; j < 40; ++j) a[j] = z[(j * n) % 40];
}
"""
SETMAXNREG = """
extern "C" __global__ void unbounded(int* a) {
  if (threadIdx.x >= 128) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  a[0] = 1;
}
"""
LOG = """
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'two' for 'sm_90a'
ptxas info    : Function properties for two
ptxas         .     8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 168 registers, used 3 barriers, 8 bytes cumulative stack size, 48 bytes smem
ptxas info    : Compiling entry function 'one' for 'sm_90a'
ptxas info    : Function properties for one
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
"""


@pytest.mark.parametrize("arch", TARGETS)
def test_each_target_gives_a_cubin_for_itself(arch: str) -> None:
    built = compile_cubin(HALF, arch)
    assert built.arch == TARGETS[arch]
    assert built.cubin.startswith(b"\x7fELF")
    assert f".target {TARGETS[arch]}" in built.ptx
    (kernel,) = built.resources
    assert kernel.kernel == "halves"
    assert kernel.registers > 0 and kernel.shared_bytes == 48 and kernel.barriers == 1
    assert not kernel.uses_local_memory


def test_equal_inputs_give_equal_values_in_another_process_too() -> None:
    here = compile_cubin(HALF, "sm_90")
    assert compile_cubin(HALF, "sm_90") == here
    program = (
        "import hashlib, sys\n"
        "from hexcute_core.toolchain import compile_cubin\n"
        "print(hashlib.sha256(compile_cubin(sys.stdin.read(), 'sm_90').cubin).hexdigest())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=HALF,
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout.strip() == hashlib.sha256(here.cubin).hexdigest()


def test_sass_shows_the_instructions_of_the_target() -> None:
    text = sass(compile_cubin(HALF, "sm_90"))
    assert "sm_90a" in text and "BAR.SYNC" in text and "STG.E" in text
    assert "STL" not in text and "STL" in sass(compile_cubin(LOCAL_ARRAY, "sm_80").cubin)


def test_options_reach_the_compiler() -> None:
    source = 'extern "C" __global__ void k(int* a) { a[0] = VALUE; }'
    seven = compile_cubin(source, "sm_80", ("-DVALUE=7",))
    assert seven.options == ("-DVALUE=7",)
    assert seven.cubin != compile_cubin(source, "sm_80", ("-DVALUE=8",)).cubin


def test_local_memory_shows_in_the_resources() -> None:
    (kernel,) = compile_cubin(LOCAL_ARRAY, "sm_80").resources
    assert kernel.stack_bytes == 160 and kernel.uses_local_memory


def test_the_verbose_log_is_read_kernel_by_kernel() -> None:
    one, two = parse_resources(LOG)
    assert one == Resources("one", registers=8)
    assert two == Resources("two", 168, 8, 16, 24, 48, 3)


def test_a_wrong_source_says_where_and_what() -> None:
    with pytest.raises(ToolchainError, match=r'kernel\.cu\(2\): error: identifier "y"'):
        compile_cubin('extern "C" __global__ void k(int* a) {\n a[0] = y; }', "sm_80")


def test_an_unknown_target_names_the_known_ones() -> None:
    with pytest.raises(ToolchainError, match="'sm_70'.*sm_80, sm_86, sm_89, sm_90"):
        compile_cubin(HALF, "sm_70")


def test_ignored_setmaxnreg_is_a_build_error() -> None:
    with pytest.raises(ToolchainError, match=r"C7508.*setmaxnreg(.|\n)*fix: .*min_blocks"):
        compile_cubin(SETMAXNREG, "sm_90")
    bounded = SETMAXNREG.replace("void unbounded", "void __launch_bounds__(384, 1) unbounded")
    assert compile_cubin(bounded, "sm_90").resources[0].registers == 168


@pytest.mark.parametrize(
    ("release", "told"),
    [
        ((12, 3), ()),
        ((12, 8), ("--minimal",)),
        ((12, 9), ("--minimal", "--no-cache")),
        ((13, 0), ("--minimal", "--no-cache")),
    ],
)
def test_a_release_is_told_what_it_knows(
    release: tuple[int, int], told: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvrtc, "version", lambda: release)
    nvrtc._standing_options.cache_clear()
    assert nvrtc._standing_options() == told
    nvrtc._standing_options.cache_clear()


@pytest.mark.gpu
def test_broken_code_is_refused_every_time() -> None:
    """Where there is a driver, the compiler's own cache is on unless told otherwise."""
    for _ in range(2):
        with pytest.raises(ToolchainError, match="C7508"):
            compile_cubin(SETMAXNREG, "sm_90")
        (kernel,) = compile_cubin(LOCAL_ARRAY, "sm_90").resources
        assert kernel.registers > 0 and kernel.uses_local_memory


@pytest.mark.parametrize("code", ["C7508", "C7510", "C7511", "C7514"])
def test_warnings_of_serialized_code_are_build_errors(code: str) -> None:
    log = f"ptxas info    : ({code}) Potential Performance Loss: wgmma serialized in 'k'"
    with pytest.raises(ToolchainError, match=code):
        _refuse_broken_code(log, "sm_90a")
    _refuse_broken_code("ptxas info    : Used 8 registers", "sm_90a")


def _wheel(folder: Path, release: str) -> Path:
    for name in (f"libnvrtc.so.{release.split('.')[0]}", f"libnvrtc-builtins.so.{release}"):
        path = folder / "lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    return folder


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A machine whose only CUDA is what a test puts into the returned `nvidia` folder."""
    monkeypatch.setattr(discovery, "_package_folder", lambda name: (tmp_path / name,))
    monkeypatch.setattr(discovery, "_toolkit_roots", lambda: iter(()))
    monkeypatch.setenv("PATH", "")
    cached = (discovery.find_nvrtc, discovery.find_headers, discovery.find_tool)
    for function in cached:
        function.cache_clear()
    yield tmp_path / "nvidia"
    for function in cached:
        function.cache_clear()


def test_the_newest_wheel_with_its_builtins_is_taken(bare: Path) -> None:
    _wheel(bare / "cuda_nvrtc", "12.8")
    assert discovery.find_nvrtc().major == 12
    discovery.find_nvrtc.cache_clear()
    _wheel(bare / "cu13", "13.0")
    (bare / "cu14" / "lib").mkdir(parents=True)
    (bare / "cu14" / "lib" / "libnvrtc.so.14").write_bytes(b"")
    found = discovery.find_nvrtc()
    assert found.library == bare / "cu13" / "lib" / "libnvrtc.so.13"
    assert found.builtins.name == "libnvrtc-builtins.so.13.0"


def test_what_is_missing_comes_with_the_line_that_installs_it(bare: Path) -> None:
    with pytest.raises(MissingDependency, match=r"NVRTC(.|\n)*-m pip install \"nvidia-cuda-nv"):
        discovery.find_nvrtc()
    with pytest.raises(MissingDependency, match=r"cuda_fp16\.h(.|\n)*fix: .*-m pip install"):
        discovery.find_headers()
    with pytest.raises(MissingDependency, match=r"nvdisasm(.|\n)*fix: .*-m pip install"):
        sass(b"")


def test_the_disassembler_gets_the_cubin_and_its_refusal_is_told(bare: Path) -> None:
    tool = bare / "cu13" / "bin" / "nvdisasm"
    tool.parent.mkdir(parents=True)
    tool.write_text('#!/bin/sh\n/bin/grep -q cubin "$3" || { echo no ELF >&2; exit 1; }\necho HMMA')
    tool.chmod(0o755)
    assert sass(b"a cubin") == "HMMA\n"
    with pytest.raises(ToolchainError, match="nvdisasm.*no ELF"):
        sass(b"something else")


def test_the_version_names_compiler_and_headers() -> None:
    version = toolchain_version()
    assert version == toolchain_version()
    assert "libnvrtc.so." in version and "cuda_fp16.h:" in version
