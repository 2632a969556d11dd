"""Tensor maps and clusters at launch, through a stand-in driver that reads the memory back."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from typing import Any

import pytest
from test_runtime_launch import CudaLaunchConfig, FakeDriver

from hexcute_core.driver.built import Built, from_data, to_data
from hexcute_core.dtypes import i32
from hexcute_core.errors import LaunchError
from hexcute_core.runtime import (
    KernelImage,
    LoadedKernel,
    Signature,
    SymbolParam,
    TensorParam,
    cuda_driver,
)
from hexcute_core.runtime.cuda_driver import CudaDriver
from hexcute_core.runtime.tensor_maps import MOST_KEPT
from hexcute_core.runtime.torch_link import TorchLink
from hexcute_core.scalar import Const
from hexcute_core.thread import TensorMap

SIGNATURE = Signature(
    "kernel",
    (TensorParam("a", "f16", ("m", "k")), TensorParam("b", "u8", (3, "n", 256))),
    (SymbolParam("m"), SymbolParam("n"), SymbolParam("k")),
)
MAPS = (
    TensorMap("a_map", "a", (128, 64), 128),
    TensorMap("b_map", "b", (1, 32, 128), 0),
    TensorMap("c_map", "a", (8, 32), 64),
)
A, B = 2**40 + 4096, 2**41
VALUES = (A, B, 1000, 7, 520)


class MapDriver(FakeDriver):
    """A descriptor is a number and the address, padded; launches keep what lies in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.encoded: list[tuple[Any, ...]] = []

    def tensor_map(self, *fields: Any) -> bytes:
        plain = tuple(tuple(f) if isinstance(f, Sequence) and f != str(f) else f for f in fields)
        self.encoded.append(plain)
        return f"{len(self.encoded)} {plain[1]}".encode().ljust(128, b".")

    def launch(self, config: int, function: int, params: int, extra: None) -> int:
        seen = CudaLaunchConfig.from_address(config)
        names = SIGNATURE.value_names
        at = (ctypes.c_void_p * (len(names) + len(MAPS))).from_address(params)
        assert config % 64 == 0
        assert all(address % 64 == 0 for address in at[len(names) :])
        attributes = []
        for i in range(seen.attribute_count):
            words = (ctypes.c_uint32 * 18).from_address(seen.attributes + 72 * i)
            attributes.append(tuple(words))
        self.launches.append(
            {
                "values": (
                    *(ctypes.c_uint64.from_address(a).value for a in at[:2]),
                    *(ctypes.c_int32.from_address(a).value for a in at[2:5]),
                ),
                "maps": [ctypes.string_at(a, 128) for a in at[len(names) :]],
                "attributes": attributes,
            }
        )
        return self.statuses.pop(0) if self.statuses else 0


def image(**changes: Any) -> KernelImage:
    fields = {
        "name": "kernel_0", "cubin": b"code", "arch": "sm_90a", "shared_bytes": 1024,
        "block_dim": (128, 1, 1), "signature": SIGNATURE, "maps": MAPS,
    }  # fmt: skip
    return KernelImage(**(fields | changes))


def kernel(driver: FakeDriver, **changes: Any) -> LoadedKernel:
    torch = TorchLink(lambda: 0, lambda device: 7000)
    return LoadedKernel(image(**changes), driver, torch)


def test_maps_are_encoded_innermost_first_and_passed_behind_the_values() -> None:
    driver = MapDriver()
    kernel(driver).launch_bound((1, 1, 1), 0, VALUES)
    assert driver.encoded == [
        ("f16", A, (520, 1000), (1040,), (64, 128), 128),
        ("u8", B, (256, 7, 3), (256, 1792), (128, 32, 1), 0),
        ("f16", A, (520, 1000), (1040,), (32, 8), 64),
    ]
    (launch,) = driver.launches
    assert launch["values"] == VALUES
    assert [m[:30].decode().rstrip(".") for m in launch["maps"]] == [f"1 {A}", f"2 {B}", f"3 {A}"]
    assert launch["attributes"] == []


def test_a_map_is_encoded_once_for_an_address_and_shape() -> None:
    driver = MapDriver()
    loaded = kernel(driver)
    for _ in range(3):
        loaded.launch_bound((1, 1, 1), 0, VALUES)
    assert len(driver.encoded) == 3
    assert driver.launches[0]["maps"] == driver.launches[2]["maps"]
    # n is no extent of a: only b's map is new.
    loaded.launch_bound((1, 1, 1), 0, (A, B, 1000, 8, 520))
    assert [e[0] for e in driver.encoded[3:]] == ["u8"]
    loaded.launch_bound((1, 1, 1), 0, (A + 16, B, 1000, 7, 520))
    assert [e[:2] for e in driver.encoded[4:]] == [("f16", A + 16)] * 2
    assert driver.launches[4]["maps"][1] == driver.launches[0]["maps"][1]


def test_kept_maps_do_not_grow_without_bound() -> None:
    driver = MapDriver()
    loaded = kernel(driver, maps=MAPS[:1])
    driver.launch = lambda *_: 0  # type: ignore[method-assign]
    for i in range(MOST_KEPT + 2):
        loaded.launch_bound((1, 1, 1), 0, (A + 16 * i, B, 1000, 7, 520))
    loaded.launch_bound((1, 1, 1), 0, (A + 16 * MOST_KEPT, B, 1000, 7, 520))
    assert len(driver.encoded) == MOST_KEPT + 2
    loaded.launch_bound((1, 1, 1), 0, VALUES)
    assert len(driver.encoded) == MOST_KEPT + 3


def test_an_empty_tensor_gets_a_map_of_legal_extents() -> None:
    driver = MapDriver()
    kernel(driver).launch_bound((1, 1, 1), 0, (0, B, 1000, 7, 0))
    _, address, extents, strides, _, _ = driver.encoded[0]
    assert address % 16 == 0 and address > 0
    assert extents == (8, 1) and strides == (16,)


UNFIT = {
    r"'a': a tensor moved by TMA starts at .* 16 bytes, got address": (A + 8, B, 1000, 7, 520),
    r"'a': TMA moves rows of .* 16 bytes, a row of \[1000, 65\] f16 has 130": (A, B, 1000, 7, 65),
    r"'a': dimension 1 is 549755813888, TMA takes at most 2\^32": (A, B, 1000, 7, 2**39),
    r"'b': a stride is 1099511627776 bytes, TMA takes less than 2\^40": (A, B, 1, 2**32, 8),
}


@pytest.mark.parametrize("words", UNFIT)
def test_tensors_that_have_no_map_are_named(words: str) -> None:
    driver = MapDriver()
    with pytest.raises(LaunchError, match=words):
        kernel(driver).launch_bound((1, 1, 1), 0, UNFIT[words])
    assert driver.launches == []


@pytest.mark.parametrize(
    ("tensor_map", "words"),
    [
        (TensorMap("m", "a", (512, 64), 128), "'a': no boxes of 512 x 64: an extent is 1 to 256"),
        (TensorMap("m", "a", (8, 128), 128), "a row of 256 bytes exceeds the swizzle's 128"),
        (TensorMap("m", "b", (1, 8, 24), 0), "a row of 24 bytes is not a multiple of 16"),
        (TensorMap("m", "b", (8, 32), 0), "the tensor has 3 dimensions"),
        (TensorMap("m", "d", (8, 32), 0), "m is of no tensor of the kernel"),
    ],
)
def test_maps_that_cannot_be_are_refused_when_the_kernel_is_made(
    tensor_map: TensorMap, words: str
) -> None:
    with pytest.raises(LaunchError, match=words):
        kernel(MapDriver(), maps=(tensor_map,))


def test_clusters_are_an_attribute_of_the_launch() -> None:
    driver = MapDriver()
    loaded = kernel(driver, cluster_dim=(2, 1, 4))
    for _ in range(2):
        loaded.launch_bound((4, 1, 4), 0, VALUES)
    wanted = (4, 0, 2, 1, 4, *(0,) * 13)  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    assert [launch["attributes"] for launch in driver.launches] == [[wanted]] * 2
    assert driver.launches[0]["values"] == VALUES
    driver.statuses = [1]
    with pytest.raises(LaunchError, match="the grid has 3 blocks along x, no multiple of .* 2"):
        loaded.launch_bound((3, 1, 4), 0, VALUES)


def test_a_dependent_kernel_may_start_early() -> None:
    driver = MapDriver()
    kernel(driver, dependent=True).launch_bound((4, 1, 4), 0, VALUES)
    kernel(driver, dependent=True, cluster_dim=(2, 1, 1)).launch_bound((4, 1, 4), 0, VALUES)
    early = (6, 0, 1, *(0,) * 15)  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    cluster = (4, 0, 2, 1, 1, *(0,) * 13)
    assert [launch["attributes"] for launch in driver.launches] == [[early], [cluster, early]]


def test_the_driver_encodes_as_cuda_h_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def encode(
        out: Any, dtype: int, rank: Any, address: Any, dims: Any, strides: Any, box: Any,
        steps: Any, interleave: int, swizzle: int, promotion: int, fill: int,
    ) -> int:  # fmt: skip
        ctypes.memmove(out.value, bytes(range(128)), 128)
        seen.update(
            aligned=out.value % 64, dtype=dtype, rank=rank.value, address=address.value,
            dims=list(dims), strides=list(strides)[:-1], box=list(box), steps=list(steps),
            modes=(interleave, swizzle, promotion, fill),
            widths=[ctypes.sizeof(x) for x in (dims, strides, box, steps)],
        )  # fmt: skip
        return seen.get("status", 0)

    class Library:
        def cuInit(self, flags: int) -> int:
            return 0

        cuLaunchKernelEx = staticmethod(lambda *_: 0)
        cuTensorMapEncodeTiled = staticmethod(encode)

        def cuGetErrorName(self, status: int, out: Any) -> int:
            out._obj.value = b"CUDA_ERROR_INVALID_VALUE"
            return 0

        def cuGetErrorString(self, status: int, out: Any) -> int:
            out._obj.value = b"invalid argument"
            return 0

    library = Library()
    monkeypatch.setattr(cuda_driver, "_open", lambda: library)
    driver = CudaDriver()
    made = driver.tensor_map("bf16", 2**40, [64, 9, 5], [128, 1152], [64, 8, 1], 128)
    assert made == bytes(range(128))
    assert seen == {
        "aligned": 0, "dtype": 9, "rank": 3, "address": 2**40, "dims": [64, 9, 5],
        "strides": [128, 1152], "box": [64, 8, 1], "steps": [1, 1, 1], "modes": (0, 3, 3, 0),
        "widths": [24, 24, 12, 12],
    }  # fmt: skip
    codes = {"f16": 6, "f32": 7, "tf32": 7, "u8": 0, "f8e4m3": 0, "i32": 3, "f64": 8, "i64": 5}
    for name, code in codes.items():
        driver.tensor_map(name, 0, [64], [], [16], 0)
        assert (seen["dtype"], seen["modes"][1]) == (code, 0)
    seen["status"] = 1
    with pytest.raises(LaunchError, match="cuTensorMapEncodeTiled failed: CUDA_ERROR_INVALID_VAL"):
        driver.tensor_map("f16", 0, [64], [], [16], 32)
    del Library.cuTensorMapEncodeTiled
    with pytest.raises(LaunchError, match=r"no cuTensorMapEncodeTiled\n  fix: update the NVIDIA"):
        driver.tensor_map("f16", 0, [64], [], [16], 32)


def test_a_cache_entry_keeps_how_to_launch() -> None:
    one = (Const(1, i32),) * 3
    built = Built(
        b"c", "sm_90a", "p", "l", "s", "e", 8, 128, one, 40, False, MAPS, (2, 1, 1), True
    )
    files, meta = to_data(built)
    assert from_data(files, json.loads(json.dumps(meta))) == built
