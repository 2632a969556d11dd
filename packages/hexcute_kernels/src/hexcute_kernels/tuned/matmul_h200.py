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
        # m=64,n=6144,k=4096: 16.24 us
        Row(
            WgmmaConfig(BM=64, BN=48, BK=64, STAGES=14, CONSUMERS=1, GROUP=8, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=1, SCHEDULE='tile', EARLY=True, SWAP=False),
            most={'m': 64, 'n': 6144, 'k': 4096},
            least={'m': 33, 'n': 5121, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=64,n=10240,k=8192: 45.08 us
        Row(
            WgmmaConfig(BM=64, BN=80, BK=64, STAGES=12, CONSUMERS=1, GROUP=8, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=1, SCHEDULE='tile', EARLY=True, SWAP=False),
            most={'m': 64, 'n': 10240, 'k': 8192},
            least={'m': 33, 'n': 8193, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=64,n=14336,k=4096: 32.63 us
        Row(
            WgmmaConfig(BM=64, BN=112, BK=64, STAGES=9, CONSUMERS=1, GROUP=8, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=1, SCHEDULE='tile', EARLY=True, SWAP=False),
            most={'m': 64, 'n': 14336, 'k': 4096},
            least={'m': 33, 'n': 12289, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=64,n=28672,k=8192: 121.90 us
        Row(
            WgmmaConfig(BM=64, BN=224, BK=64, STAGES=6, CONSUMERS=1, GROUP=8, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=1, SCHEDULE='tile', EARLY=True, SWAP=False),
            most={'m': 64, 'n': 28672, 'k': 8192},
            least={'m': 33, 'n': 24577, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=128,n=6144,k=4096: 17.21 us
        Row(
            WgmmaConfig(BM=64, BN=96, BK=64, STAGES=11, CONSUMERS=1, GROUP=8, CLUSTER_M=2,
                CLUSTER_N=1, PARTS=1, SCHEDULE='tile', EARLY=True, SWAP=False),
            most={'m': 128, 'n': 6144, 'k': 4096},
            least={'m': 65, 'n': 5121, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=128,n=8192,k=8192: 38.11 us
        Row(
            WgmmaConfig(BM=64, BN=128, BK=64, STAGES=8, CONSUMERS=1, GROUP=8, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=1, SCHEDULE='tile', EARLY=False, SWAP=False),
            most={'m': 128, 'n': 8192, 'k': 8192},
            least={'m': 65, 'n': 7169, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=128,n=10240,k=8192: 47.45 us
        Row(
            WgmmaConfig(BM=64, BN=160, BK=64, STAGES=8, CONSUMERS=1, GROUP=8, CLUSTER_M=2,
                CLUSTER_N=1, PARTS=1, SCHEDULE='tile', EARLY=True, SWAP=False),
            most={'m': 128, 'n': 10240, 'k': 8192},
            least={'m': 65, 'n': 8193, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=128,n=14336,k=4096: 35.54 us
        Row(
            WgmmaConfig(BM=128, BN=112, BK=64, STAGES=6, CONSUMERS=2, GROUP=8, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=1, SCHEDULE='tile', EARLY=True, SWAP=False),
            most={'m': 128, 'n': 14336, 'k': 4096},
            least={'m': 65, 'n': 12289, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=128,n=28672,k=8192: 121.85 us
        Row(
            WgmmaConfig(BM=128, BN=224, BK=64, STAGES=5, CONSUMERS=2, GROUP=8, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=1, SCHEDULE='tile', EARLY=False, SWAP=False),
            most={'m': 128, 'n': 28672, 'k': 8192},
            least={'m': 65, 'n': 24577, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=2048,n=4096,k=4096: 94.31 us
        Row(
            WgmmaConfig(BM=128, BN=256, BK=64, STAGES=4, CONSUMERS=2, GROUP=16, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=2, SCHEDULE='persistent', EARLY=True, SWAP=False),
            most={'m': 2048, 'n': 4096, 'k': 4096},
            least={'m': 1793, 'n': 3585, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=2048,n=4096,k=14336: 311.89 us
        Row(
            WgmmaConfig(BM=128, BN=256, BK=64, STAGES=4, CONSUMERS=2, GROUP=16, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=2, SCHEDULE='apart', EARLY=True, SWAP=True),
            most={'m': 2048, 'n': 4096, 'k': 14336},
            least={'m': 1793, 'n': 3585, 'k': 12289},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=2048,n=6144,k=4096: 141.88 us
        Row(
            WgmmaConfig(BM=128, BN=256, BK=64, STAGES=4, CONSUMERS=2, GROUP=16, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=2, SCHEDULE='apart', EARLY=True, SWAP=True),
            most={'m': 2048, 'n': 6144, 'k': 4096},
            least={'m': 1793, 'n': 5121, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=2048,n=8192,k=8192: 365.76 us
        Row(
            WgmmaConfig(BM=128, BN=256, BK=64, STAGES=4, CONSUMERS=2, GROUP=16, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=2, SCHEDULE='persistent', EARLY=True, SWAP=True),
            most={'m': 2048, 'n': 8192, 'k': 8192},
            least={'m': 1793, 'n': 7169, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=2048,n=8192,k=28672: 1247.90 us
        Row(
            WgmmaConfig(BM=128, BN=256, BK=64, STAGES=4, CONSUMERS=2, GROUP=16, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=2, SCHEDULE='persistent', EARLY=True, SWAP=False),
            most={'m': 2048, 'n': 8192, 'k': 28672},
            least={'m': 1793, 'n': 7169, 'k': 24577},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=2048,n=10240,k=8192: 455.66 us
        Row(
            WgmmaConfig(BM=128, BN=256, BK=64, STAGES=4, CONSUMERS=2, GROUP=16, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=2, SCHEDULE='apart', EARLY=True, SWAP=False),
            most={'m': 2048, 'n': 10240, 'k': 8192},
            least={'m': 1793, 'n': 8193, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=2048,n=14336,k=4096: 315.07 us
        Row(
            WgmmaConfig(BM=128, BN=256, BK=64, STAGES=4, CONSUMERS=2, GROUP=16, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=2, SCHEDULE='persistent', EARLY=True, SWAP=False),
            most={'m': 2048, 'n': 14336, 'k': 4096},
            least={'m': 1793, 'n': 12289, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=2048,n=28672,k=8192: 1264.67 us
        Row(
            WgmmaConfig(BM=128, BN=256, BK=64, STAGES=4, CONSUMERS=2, GROUP=16, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=2, SCHEDULE='persistent', EARLY=True, SWAP=True),
            most={'m': 2048, 'n': 28672, 'k': 8192},
            least={'m': 1793, 'n': 24577, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=4096,n=4096,k=4096: 186.25 us
        Row(
            WgmmaConfig(BM=128, BN=256, BK=64, STAGES=4, CONSUMERS=2, GROUP=16, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=2, SCHEDULE='apart', EARLY=True, SWAP=True),
            most={'m': 4096, 'n': 4096, 'k': 4096},
            least={'m': 3585, 'n': 3585, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=4096,n=4096,k=14336: 620.67 us
        Row(
            WgmmaConfig(BM=128, BN=256, BK=64, STAGES=4, CONSUMERS=2, GROUP=16, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=2, SCHEDULE='persistent', EARLY=True, SWAP=True),
            most={'m': 4096, 'n': 4096, 'k': 14336},
            least={'m': 3585, 'n': 3585, 'k': 12289},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=4096,n=6144,k=4096: 277.69 us
        Row(
            WgmmaConfig(BM=128, BN=256, BK=64, STAGES=4, CONSUMERS=2, GROUP=16, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=2, SCHEDULE='persistent', EARLY=True, SWAP=True),
            most={'m': 4096, 'n': 6144, 'k': 4096},
            least={'m': 3585, 'n': 5121, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=4096,n=8192,k=8192: 734.69 us
        Row(
            WgmmaConfig(BM=128, BN=256, BK=64, STAGES=4, CONSUMERS=2, GROUP=16, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=2, SCHEDULE='persistent', EARLY=True, SWAP=False),
            most={'m': 4096, 'n': 8192, 'k': 8192},
            least={'m': 3585, 'n': 7169, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=4096,n=8192,k=28672: 2467.90 us
        Row(
            WgmmaConfig(BM=128, BN=256, BK=64, STAGES=4, CONSUMERS=2, GROUP=16, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=2, SCHEDULE='persistent', EARLY=True, SWAP=False),
            most={'m': 4096, 'n': 8192, 'k': 28672},
            least={'m': 3585, 'n': 7169, 'k': 24577},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=4096,n=10240,k=8192: 905.47 us
        Row(
            WgmmaConfig(BM=128, BN=256, BK=64, STAGES=4, CONSUMERS=2, GROUP=16, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=2, SCHEDULE='persistent', EARLY=True, SWAP=False),
            most={'m': 4096, 'n': 10240, 'k': 8192},
            least={'m': 3585, 'n': 8193, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=4096,n=14336,k=4096: 640.35 us
        Row(
            WgmmaConfig(BM=128, BN=256, BK=64, STAGES=4, CONSUMERS=2, GROUP=16, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=2, SCHEDULE='persistent', EARLY=True, SWAP=False),
            most={'m': 4096, 'n': 14336, 'k': 4096},
            least={'m': 3585, 'n': 12289, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=4096,n=28672,k=8192: 2501.89 us
        Row(
            WgmmaConfig(BM=128, BN=256, BK=64, STAGES=4, CONSUMERS=2, GROUP=16, CLUSTER_M=1,
                CLUSTER_N=1, PARTS=2, SCHEDULE='persistent', EARLY=True, SWAP=True),
            most={'m': 4096, 'n': 28672, 'k': 8192},
            least={'m': 3585, 'n': 24577, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
    ),
    "thin": (
        # m=32,n=4096,k=4096: 11.32 us
        Row(
            ThinConfig(BM=64, BN=32, BK=128, STAGES=9, CONSUMERS=1, SPLITS=2, EARLY=True),
            most={'m': 32, 'n': 4096, 'k': 4096},
            least={'m': 17, 'n': 3585, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=32,n=4096,k=14336: 31.58 us
        Row(
            ThinConfig(BM=64, BN=32, BK=64, STAGES=8, CONSUMERS=1, SPLITS=2, EARLY=True),
            most={'m': 32, 'n': 4096, 'k': 14336},
            least={'m': 17, 'n': 3585, 'k': 12289},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=32,n=6144,k=4096: 15.53 us
        Row(
            ThinConfig(BM=64, BN=32, BK=64, STAGES=8, CONSUMERS=1, SPLITS=1, EARLY=True),
            most={'m': 32, 'n': 6144, 'k': 4096},
            least={'m': 17, 'n': 5121, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=32,n=8192,k=8192: 35.98 us
        Row(
            ThinConfig(BM=64, BN=32, BK=128, STAGES=9, CONSUMERS=1, SPLITS=1, EARLY=True),
            most={'m': 32, 'n': 8192, 'k': 8192},
            least={'m': 17, 'n': 7169, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=32,n=8192,k=28672: 117.30 us
        Row(
            ThinConfig(BM=64, BN=32, BK=128, STAGES=9, CONSUMERS=1, SPLITS=1, EARLY=True),
            most={'m': 32, 'n': 8192, 'k': 28672},
            least={'m': 17, 'n': 7169, 'k': 24577},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=32,n=10240,k=8192: 50.15 us
        Row(
            ThinConfig(BM=64, BN=32, BK=128, STAGES=9, CONSUMERS=1, SPLITS=2, EARLY=False),
            most={'m': 32, 'n': 10240, 'k': 8192},
            least={'m': 17, 'n': 8193, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=32,n=14336,k=4096: 32.44 us
        Row(
            ThinConfig(BM=128, BN=32, BK=64, STAGES=10, CONSUMERS=2, SPLITS=1, EARLY=False),
            most={'m': 32, 'n': 14336, 'k': 4096},
            least={'m': 17, 'n': 12289, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=32,n=28672,k=8192: 120.64 us
        Row(
            ThinConfig(BM=256, BN=64, BK=64, STAGES=4, CONSUMERS=2, SPLITS=1, EARLY=False),
            most={'m': 32, 'n': 28672, 'k': 8192},
            least={'m': 17, 'n': 24577, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=64,n=4096,k=4096: 11.67 us
        Row(
            ThinConfig(BM=64, BN=64, BK=128, STAGES=6, CONSUMERS=1, SPLITS=2, EARLY=True),
            most={'m': 64, 'n': 4096, 'k': 4096},
            least={'m': 33, 'n': 3585, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=64,n=4096,k=14336: 32.56 us
        Row(
            ThinConfig(BM=64, BN=64, BK=128, STAGES=6, CONSUMERS=1, SPLITS=2, EARLY=True),
            most={'m': 64, 'n': 4096, 'k': 14336},
            least={'m': 33, 'n': 3585, 'k': 12289},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=64,n=8192,k=8192: 36.44 us
        Row(
            ThinConfig(BM=64, BN=64, BK=128, STAGES=6, CONSUMERS=1, SPLITS=1, EARLY=False),
            most={'m': 64, 'n': 8192, 'k': 8192},
            least={'m': 33, 'n': 7169, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=64,n=8192,k=28672: 118.94 us
        Row(
            ThinConfig(BM=64, BN=64, BK=64, STAGES=12, CONSUMERS=1, SPLITS=1, EARLY=True),
            most={'m': 64, 'n': 8192, 'k': 28672},
            least={'m': 33, 'n': 7169, 'k': 24577},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=128,n=4096,k=4096: 12.52 us
        Row(
            ThinConfig(BM=64, BN=128, BK=64, STAGES=8, CONSUMERS=1, SPLITS=2, EARLY=True),
            most={'m': 128, 'n': 4096, 'k': 4096},
            least={'m': 65, 'n': 3585, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=128,n=4096,k=14336: 35.58 us
        Row(
            ThinConfig(BM=64, BN=128, BK=64, STAGES=8, CONSUMERS=1, SPLITS=2, EARLY=False),
            most={'m': 128, 'n': 4096, 'k': 14336},
            least={'m': 65, 'n': 3585, 'k': 12289},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=128,n=8192,k=8192: 39.64 us
        Row(
            ThinConfig(BM=64, BN=128, BK=128, STAGES=4, CONSUMERS=1, SPLITS=1, EARLY=True),
            most={'m': 128, 'n': 8192, 'k': 8192},
            least={'m': 65, 'n': 7169, 'k': 7169},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=128,n=8192,k=28672: 127.43 us
        Row(
            ThinConfig(BM=128, BN=128, BK=64, STAGES=5, CONSUMERS=2, SPLITS=2, EARLY=True),
            most={'m': 128, 'n': 8192, 'k': 28672},
            least={'m': 65, 'n': 7169, 'k': 24577},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
    ),
}
