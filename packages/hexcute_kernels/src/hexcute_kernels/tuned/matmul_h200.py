"""Configurations of matmul on an H200, as measured.

Written by `python -m hexcute_kernels tune matmul` from matmul_h200.csv.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hexcute_kernels.gemm.configs import ThinConfig, WgmmaConfig
from hexcute_kernels.tables import Row

ROWS: Mapping[str, tuple[Row[Any], ...]] = {
    "wgmma": (
        # m=32,n=28672,k=8192: 115.08 us
        Row(
            WgmmaConfig(BM=64, BN=224, BK=64, STAGES=6, CONSUMERS=1, GROUP=8, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=1, SCHEDULE='tile', EARLY=True, SWAP=False),
            most={'m': 32, 'n': 28672, 'k': 8192},
            least={'m': 17, 'n': 24577, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=64,n=6144,k=4096: 15.46 us
        Row(
            WgmmaConfig(BM=64, BN=48, BK=128, STAGES=8, CONSUMERS=1, GROUP=8, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=1, SCHEDULE='tile', EARLY=True, SWAP=False),
            most={'m': 64, 'n': 6144, 'k': 4096},
            least={'m': 33, 'n': 5121, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=64,n=10240,k=8192: 43.44 us
        Row(
            WgmmaConfig(BM=64, BN=80, BK=64, STAGES=12, CONSUMERS=1, GROUP=8, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=1, SCHEDULE='tile', EARLY=True, SWAP=False),
            most={'m': 64, 'n': 10240, 'k': 8192},
            least={'m': 33, 'n': 8193, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=64,n=14336,k=4096: 31.23 us
        Row(
            WgmmaConfig(BM=64, BN=112, BK=64, STAGES=8, CONSUMERS=1, GROUP=8, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=1, SCHEDULE='tile', EARLY=True, SWAP=False),
            most={'m': 64, 'n': 14336, 'k': 4096},
            least={'m': 33, 'n': 12289, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=64,n=28672,k=8192: 115.03 us
        Row(
            WgmmaConfig(BM=64, BN=224, BK=64, STAGES=5, CONSUMERS=1, GROUP=8, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=1, SCHEDULE='tile', EARLY=False, SWAP=False),
            most={'m': 64, 'n': 28672, 'k': 8192},
            least={'m': 33, 'n': 24577, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=128,n=10240,k=8192: 45.55 us
        Row(
            WgmmaConfig(BM=64, BN=160, BK=64, STAGES=8, CONSUMERS=1, GROUP=8, CLUSTER_M=2,
                CLUSTER_N=1, PARTS=1, SCHEDULE='tile', EARLY=True, SWAP=False),
            most={'m': 128, 'n': 10240, 'k': 8192},
            least={'m': 65, 'n': 8193, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=128,n=14336,k=4096: 33.94 us
        Row(
            WgmmaConfig(BM=64, BN=224, BK=64, STAGES=6, CONSUMERS=1, GROUP=8, CLUSTER_M=2,
                CLUSTER_N=1, PARTS=1, SCHEDULE='tile', EARLY=True, SWAP=False),
            most={'m': 128, 'n': 14336, 'k': 4096},
            least={'m': 65, 'n': 12289, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=128,n=28672,k=8192: 122.91 us
        Row(
            WgmmaConfig(BM=128, BN=224, BK=64, STAGES=5, CONSUMERS=2, GROUP=8, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=1, SCHEDULE='tile', EARLY=False, SWAP=False),
            most={'m': 128, 'n': 28672, 'k': 8192},
            least={'m': 65, 'n': 24577, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=2048,n=6144,k=4096: 136.97 us
        Row(
            WgmmaConfig(BM=256, BN=192, BK=64, STAGES=3, CONSUMERS=2, GROUP=8, CLUSTER_M=1,
                CLUSTER_N=2, PARTS=2, SCHEDULE='persistent', EARLY=True, SWAP=False),
            most={'m': 2048, 'n': 6144, 'k': 4096},
            least={'m': 1793, 'n': 5121, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=2048,n=8192,k=28672: 1177.37 us
        Row(
            WgmmaConfig(BM=256, BN=168, BK=64, STAGES=3, CONSUMERS=2, GROUP=8, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=3, SCHEDULE='persistent', EARLY=True, SWAP=False),
            most={'m': 2048, 'n': 8192, 'k': 28672},
            least={'m': 1793, 'n': 7169, 'k': 24577},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=2048,n=14336,k=4096: 308.42 us
        Row(
            WgmmaConfig(BM=256, BN=176, BK=64, STAGES=3, CONSUMERS=2, GROUP=8, CLUSTER_M=1,
                CLUSTER_N=2, PARTS=2, SCHEDULE='persistent', EARLY=True, SWAP=False),
            most={'m': 2048, 'n': 14336, 'k': 4096},
            least={'m': 1793, 'n': 12289, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=2048,n=28672,k=8192: 1195.22 us
        Row(
            WgmmaConfig(BM=256, BN=176, BK=64, STAGES=3, CONSUMERS=2, GROUP=8, CLUSTER_M=1,
                CLUSTER_N=2, PARTS=2, SCHEDULE='persistent', EARLY=True, SWAP=False),
            most={'m': 2048, 'n': 28672, 'k': 8192},
            least={'m': 1793, 'n': 24577, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=4096,n=4096,k=4096: 182.62 us
        Row(
            WgmmaConfig(BM=128, BN=256, BK=64, STAGES=4, CONSUMERS=2, GROUP=16, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=4, SCHEDULE='behind', EARLY=True, SWAP=False),
            most={'m': 4096, 'n': 4096, 'k': 4096},
            least={'m': 3585, 'n': 3585, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=4096,n=6144,k=4096: 273.02 us
        Row(
            WgmmaConfig(BM=256, BN=192, BK=64, STAGES=3, CONSUMERS=2, GROUP=8, CLUSTER_M=1,
                CLUSTER_N=2, PARTS=2, SCHEDULE='persistent', EARLY=True, SWAP=False),
            most={'m': 4096, 'n': 6144, 'k': 4096},
            least={'m': 3585, 'n': 5121, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=4096,n=8192,k=28672: 2396.16 us
        Row(
            WgmmaConfig(BM=256, BN=168, BK=64, STAGES=3, CONSUMERS=2, GROUP=8, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=3, SCHEDULE='persistent', EARLY=True, SWAP=False),
            most={'m': 4096, 'n': 8192, 'k': 28672},
            least={'m': 3585, 'n': 7169, 'k': 24577},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=4096,n=14336,k=4096: 625.41 us
        Row(
            WgmmaConfig(BM=128, BN=256, BK=64, STAGES=4, CONSUMERS=2, GROUP=16, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=8, SCHEDULE='behind', EARLY=True, SWAP=False),
            most={'m': 4096, 'n': 14336, 'k': 4096},
            least={'m': 3585, 'n': 12289, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=4096,n=28672,k=8192: 2425.63 us
        Row(
            WgmmaConfig(BM=256, BN=176, BK=64, STAGES=3, CONSUMERS=2, GROUP=8, CLUSTER_M=1,
                CLUSTER_N=2, PARTS=2, SCHEDULE='persistent', EARLY=True, SWAP=False),
            most={'m': 4096, 'n': 28672, 'k': 8192},
            least={'m': 3585, 'n': 24577, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
    ),
    "thin": (
        # m=32,n=4096,k=4096: 10.76 us
        Row(
            ThinConfig(BM=64, BN=32, BK=128, STAGES=8, CONSUMERS=1, SPLITS=2, EARLY=True,
                FLAT=False),
            most={'m': 32, 'n': 4096, 'k': 4096},
            least={'m': 17, 'n': 3585, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=32,n=4096,k=14336: 30.00 us
        Row(
            ThinConfig(BM=64, BN=32, BK=128, STAGES=9, CONSUMERS=1, SPLITS=2, EARLY=True,
                FLAT=False),
            most={'m': 32, 'n': 4096, 'k': 14336},
            least={'m': 17, 'n': 3585, 'k': 12289},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=32,n=6144,k=4096: 15.05 us
        Row(
            ThinConfig(BM=64, BN=32, BK=64, STAGES=8, CONSUMERS=1, SPLITS=1, EARLY=True,
                FLAT=False),
            most={'m': 32, 'n': 6144, 'k': 4096},
            least={'m': 17, 'n': 5121, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=32,n=8192,k=8192: 34.80 us
        Row(
            ThinConfig(BM=64, BN=32, BK=128, STAGES=9, CONSUMERS=1, SPLITS=1, EARLY=True,
                FLAT=False),
            most={'m': 32, 'n': 8192, 'k': 8192},
            least={'m': 17, 'n': 7169, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=32,n=8192,k=28672: 111.16 us
        Row(
            ThinConfig(BM=64, BN=32, BK=64, STAGES=8, CONSUMERS=1, SPLITS=1, EARLY=True,
                FLAT=False),
            most={'m': 32, 'n': 8192, 'k': 28672},
            least={'m': 17, 'n': 7169, 'k': 24577},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=32,n=10240,k=8192: 44.62 us
        Row(
            ThinConfig(BM=64, BN=160, BK=64, STAGES=6, CONSUMERS=1, SPLITS=2, EARLY=True,
                FLAT=True),
            most={'m': 32, 'n': 10240, 'k': 8192},
            least={'m': 17, 'n': 8193, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=32,n=14336,k=4096: 30.83 us
        Row(
            ThinConfig(BM=64, BN=32, BK=64, STAGES=8, CONSUMERS=1, SPLITS=1, EARLY=False,
                FLAT=False),
            most={'m': 32, 'n': 14336, 'k': 4096},
            least={'m': 17, 'n': 12289, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=64,n=4096,k=4096: 10.98 us
        Row(
            ThinConfig(BM=64, BN=64, BK=128, STAGES=6, CONSUMERS=1, SPLITS=2, EARLY=True,
                FLAT=False),
            most={'m': 64, 'n': 4096, 'k': 4096},
            least={'m': 33, 'n': 3585, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=64,n=4096,k=14336: 31.88 us
        Row(
            ThinConfig(BM=64, BN=64, BK=64, STAGES=12, CONSUMERS=1, SPLITS=2, EARLY=True,
                FLAT=False),
            most={'m': 64, 'n': 4096, 'k': 14336},
            least={'m': 33, 'n': 3585, 'k': 12289},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=64,n=8192,k=8192: 34.91 us
        Row(
            ThinConfig(BM=64, BN=64, BK=128, STAGES=6, CONSUMERS=1, SPLITS=1, EARLY=True,
                FLAT=False),
            most={'m': 64, 'n': 8192, 'k': 8192},
            least={'m': 33, 'n': 7169, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=64,n=8192,k=28672: 113.22 us
        Row(
            ThinConfig(BM=128, BN=64, BK=64, STAGES=8, CONSUMERS=2, SPLITS=2, EARLY=True,
                FLAT=False),
            most={'m': 64, 'n': 8192, 'k': 28672},
            least={'m': 33, 'n': 7169, 'k': 24577},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=128,n=4096,k=4096: 11.86 us
        Row(
            ThinConfig(BM=64, BN=128, BK=64, STAGES=8, CONSUMERS=1, SPLITS=2, EARLY=True,
                FLAT=False),
            most={'m': 128, 'n': 4096, 'k': 4096},
            least={'m': 65, 'n': 3585, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=128,n=4096,k=14336: 34.38 us
        Row(
            ThinConfig(BM=64, BN=128, BK=64, STAGES=8, CONSUMERS=1, SPLITS=2, EARLY=True,
                FLAT=False),
            most={'m': 128, 'n': 4096, 'k': 14336},
            least={'m': 65, 'n': 3585, 'k': 12289},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=128,n=6144,k=4096: 16.46 us
        Row(
            ThinConfig(BM=128, BN=96, BK=64, STAGES=6, CONSUMERS=2, SPLITS=2, EARLY=True,
                FLAT=True),
            most={'m': 128, 'n': 6144, 'k': 4096},
            least={'m': 65, 'n': 5121, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=128,n=8192,k=8192: 37.82 us
        Row(
            ThinConfig(BM=128, BN=128, BK=64, STAGES=5, CONSUMERS=2, SPLITS=2, EARLY=True,
                FLAT=False),
            most={'m': 128, 'n': 8192, 'k': 8192},
            least={'m': 65, 'n': 7169, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=128,n=8192,k=28672: 116.86 us
        Row(
            ThinConfig(BM=128, BN=128, BK=64, STAGES=5, CONSUMERS=2, SPLITS=2, EARLY=False,
                FLAT=False),
            most={'m': 128, 'n': 8192, 'k': 28672},
            least={'m': 65, 'n': 7169, 'k': 24577},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
    ),
}
