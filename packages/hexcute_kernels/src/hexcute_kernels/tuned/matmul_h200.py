"""Configurations of matmul on an H200, as measured.

Written by `python -m hexcute_kernels tune matmul` from matmul_h200.csv.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hexcute_kernels.gemm.configs import ThinConfig
from hexcute_kernels.tables import Row

ROWS: Mapping[str, tuple[Row[Any], ...]] = {
    "thin": (
        # m=32,n=4096,k=4096: 10.85 us
        Row(
            ThinConfig(BM=64, BN=32, BK=128, STAGES=4, CONSUMERS=1, SPLITS=2, EARLY=True),
            most={'m': 32, 'n': 4096, 'k': 4096},
            least={'m': 17, 'n': 3585, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=32,n=6144,k=4096: 15.28 us
        Row(
            ThinConfig(BM=64, BN=32, BK=64, STAGES=8, CONSUMERS=1, SPLITS=1, EARLY=True),
            most={'m': 32, 'n': 6144, 'k': 4096},
            least={'m': 17, 'n': 5121, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=32,n=14336,k=4096: 31.90 us
        Row(
            ThinConfig(BM=128, BN=32, BK=64, STAGES=4, CONSUMERS=2, SPLITS=1, EARLY=True),
            most={'m': 32, 'n': 14336, 'k': 4096},
            least={'m': 17, 'n': 12289, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
        # m=64,n=6144,k=4096: 16.09 us
        Row(
            ThinConfig(BM=64, BN=64, BK=128, STAGES=6, CONSUMERS=1, SPLITS=1, EARLY=False),
            most={'m': 64, 'n': 6144, 'k': 4096},
            least={'m': 33, 'n': 5121, 'k': 3585},
            equal={'aligned': 'True', 'dtype': '16 bits', 'a_major': "'k'", 'b_major': "'k'",
                'batch': 'None', 'bias': 'False', 'activation': 'None'},
        ),
    ),
}
