"""A training that reads all its files in each epoch and computes on them: it knows no forerun.

    python read_and_compute.py --data DIR --epochs 3 --work 2 [--prefetch]

Each file is dropped from the page cache once it was read, so that every epoch reads from the
storage, as it is with data that is larger than the memory. (In memory that is a file system, such
as /dev/shm, nothing is dropped.) Without --prefetch it reads a file, computes on it, and reads the
next; with it, a thread reads ahead. --work 0 only reads; the bytes and seconds of reading are
printed.
"""

from __future__ import annotations

import argparse
import os
import queue
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

AHEAD = 4  # files that are read before they are wanted
SIDE = 128  # of the matrices, in pixels


def read(path: Path) -> bytes:
    """A file's bytes, from the storage and not from the page cache, now or the next time."""
    file = os.open(path, os.O_RDONLY)
    try:
        with os.fdopen(os.dup(file), "rb", buffering=0) as opened:
            return opened.read()
    finally:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def ahead(paths: list[Path]) -> Iterator[bytes]:
    """The files' bytes, read by a thread while others are computed on."""
    waiting: queue.Queue[bytes] = queue.Queue(AHEAD)

    def fill() -> None:
        for path in paths:
            waiting.put(read(path))

    thread = threading.Thread(target=fill, daemon=True)
    thread.start()
    for _ in paths:
        yield waiting.get()
    thread.join()


def train(weights: np.ndarray, content: bytes, work: int) -> np.ndarray:
    """Some steps on a file's images, each a matrix product and what keeps it in bounds."""
    pixels = np.frombuffer(content, np.uint8)[: len(content) // SIDE**2 * SIDE**2]
    images = pixels.reshape(-1, SIDE, SIDE).astype(np.float32) / 255
    for _ in range(work):
        weights = np.tanh((images @ weights).mean(axis=0))
    return weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--work", type=int, default=1, help="steps on each file")
    parser.add_argument("--prefetch", action="store_true")
    given = parser.parse_args()
    paths = sorted(path for path in given.data.iterdir() if path.is_file())
    weights = np.eye(SIDE, dtype=np.float32)
    size, began = 0, time.perf_counter()
    for _ in range(given.epochs):
        for content in ahead(paths) if given.prefetch else map(read, paths):
            size += len(content)
            if given.work:
                weights = train(weights, content, given.work)
    print(f"{size} bytes in {time.perf_counter() - began:.6f} s, {weights.sum():.4f}")


if __name__ == "__main__":
    main()
