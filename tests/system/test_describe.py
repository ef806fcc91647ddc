"""A PyTorch module described in the workloads' environment, where PyTorch is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import forerun
from forerun.workloads.environments import FRAMEWORKS

NETWORK = """
import torch
from torch import nn


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10),
    )


class Attention(nn.Module):
    def forward(self, q, k):
        return nn.functional.scaled_dot_product_attention(q, k, k)


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.known, self.out = nn.Embedding(100, 16), nn.Linear(16, 4)

    def forward(self, tokens):
        return self.out(self.known(tokens))


def broken():
    return 7
"""
# In an environment that has PyTorch and NumPy, and nothing else that forerun needs.
ASK = """
import json, sys
from forerun.describing import describe
from forerun.errors import InputError
for source, inputs, batch, *types in json.loads(sys.argv[1]):
    try:
        shapes = {name: tuple(shape) for name, shape in inputs.items()}
        found = describe(source, shapes, batch, *types)
        print(json.dumps([found.macs, found.parameters, found.activation_bytes]))
    except InputError as error:
        print(json.dumps(str(error)))
"""


def test_modules_have_the_figures_of_their_onnx_files(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "forerun", "workload", "setup", "pytorch"], check=True)
    (tmp_path / "net.py").write_text(NETWORK)
    heads = {"q": (2, 4, 7, 8), "k": (2, 4, 9, 8)}
    asked = [
        ("net.py:lenet", {"x": (1, 1, 28, 28)}, None),
        ("net.py:lenet", {"x": (1, 1, 28, 28)}, 8),
        ("net:Attention", heads, None),
        ("net:Tokens", {"x": (1, 64)}, None, {"x": "int64"}),
        ("net.py:lenet", {"x": (1, 3, 28, 28)}, None),
        ("net.py:broken", {"x": (1, 3)}, None),
        ("net.py:missing", {"x": (1, 3)}, None),
    ]
    done = subprocess.run(
        [FRAMEWORKS["pytorch"].python, "-c", ASK, json.dumps(asked)],
        env={**os.environ, "PYTHONPATH": str(Path(forerun.__file__).parents[1])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    one, eight, attention, tokens, *refused = map(json.loads, done.stdout.splitlines())
    assert one[:2] == [416_520, 61_706]
    assert eight == [8 * one[0], one[1], 8 * one[2]]
    assert attention[0] == 2 * (2 * 4 * 7 * 9 * 8)
    assert tokens[:2] == [64 * 16 * 4, 100 * 16 + 16 * 4 + 4]
    assert "a forward pass with the shapes given" in refused[0]
    assert "found int, expected a torch.nn.Module" in refused[1]
    assert "missing" in refused[2]
