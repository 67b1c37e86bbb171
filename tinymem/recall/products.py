"""Products of vectors, computed in the calling thread.

For matrices of any size numpy's BLAS starts as many threads as there are cores, and these wait for each other by
spinning: where something else runs, a test suite or a compiler beside the agent, a product of one millisecond then
takes thirty. What is multiplied here takes few milliseconds on one core, so BLAS gets it in pieces for which it starts
no thread. The sums are then also the same on any number of cores.
"""

from __future__ import annotations

import numpy as np

from tinymem.protocols import Vectors

__all__ = ["products"]

SMALL = 1 << 18  # multiplications up to which OpenBLAS starts no thread
COLUMNS = 32  # of a piece, at most


def products(left: Vectors, right: Vectors) -> Vectors:
    """`left @ right.T`: `(n, m)` float32, for vectors `(n, d)` and `(m, d)`, float32."""
    (n, d), m = left.shape, len(right)
    found = np.empty((n, m), np.float32)
    for first in range(0, m, COLUMNS):
        some = right[first : first + COLUMNS]
        rows = max(1, SMALL // (len(some) * d))
        whole = n - n % rows
        block = np.empty((n, len(some)), np.float32) if m > COLUMNS else found
        np.matmul(left[:whole].reshape(-1, rows, d), some.T, out=block[:whole].reshape(-1, rows, len(some)))
        np.matmul(left[whole:], some.T, out=block[whole:])
        found[:, first : first + COLUMNS] = block
    return found
