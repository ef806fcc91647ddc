from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Described, Forerun


def test_decouple_writes_a_network_that_can_be_cut_by_groups(
    forerun: Forerun, tmp_path: Path, described: Described
) -> None:
    path = tmp_path / "grouped.onnx"
    words = ("--groups", 4, "--width", 1.5, "-o", path, "--json")
    document = forerun("split", "decouple", "resnet-8", *words).document
    assert set(document) == described("split decouple")
    assert document["decoupled"]["macs"] < document["dense"]["macs"]
    assert document["decoupled"]["shuffles"] > 0
    cut = forerun("split", "cut", path, "--layout", "groups", "-o", tmp_path / "s", "--json")
    shares = [one["share"] for one in cut.document["devices"]]
    assert len(shares) == 4
    assert max(shares) < 0.3


def test_decouple_takes_a_module(forerun: Forerun, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODULE)
    words = ("--groups", 2, "--width", 1, "--shuffles", "none", "--input", "1x3x16x16")
    path = tmp_path / "mine.onnx"
    done = forerun("split", "decouple", f"{tmp_path / 'mine.py'}:net", *words, "-o", path)
    assert done.code == 0, done.err
    assert "decoupled, 2 groups, x1" in done.out
    assert done.out.splitlines()[-1] == f"written to {path}; it is to be trained yet"
    for more, said in (
        (("--classes", 3), "--classes: found 3, expected none: a module has its own"),
        (("--input", "16x16"), "--input: found 16x16, expected one sample"),
        (("--shuffles", "nowhere"), "nowhere"),
    ):
        refused = forerun("split", "decouple", f"{tmp_path / 'mine.py'}:net", *more, "-o", path)
        assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
        assert said in refused.err


MODULE = """
from torch import nn

def net():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
    )
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("resnet-9", "-o", "x.onnx"), "network: found resnet-9, expected one of resnet-8"),
        (("resnet-8", "-o", "x.pt"), "--output: found x.pt, expected a name that ends in .onnx"),
        (("resnet-8", "--input", "1x3x8x8", "-o", "x.onnx"), "--input: found 1x3x8x8"),
        (("no_such:net", "-o", "x.onnx"), "no_such"),
    ],
)
def test_what_decouple_refuses(forerun: Forerun, words: tuple[str, ...], said: str) -> None:
    done = forerun("split", "decouple", *words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err
