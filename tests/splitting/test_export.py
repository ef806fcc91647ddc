"""Networks become ONNX files that compute the same, and weights that say what they belong to."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from forerun.describing import describe
from forerun.errors import InputError
from forerun.splitting import export
from forerun.splitting.decouple import decouple, variant
from forerun.splitting.networks import build, count


def answers(path: Path, image: Tensor) -> Tensor:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (scores,) = session.run(["logits"], {"image": image.numpy()})
    return torch.from_numpy(np.asarray(scores))


def exported(module: nn.Module, path: Path) -> Path:
    export.random_statistics(module)
    export.to_onnx(module, path)
    return path


@pytest.mark.parametrize("shuffles", ["stages", "none"])
def test_a_decoupled_network_computes_the_same_as_a_file(tmp_path: Path, shuffles: str) -> None:
    module = decouple(build("resnet-8"), 4, 1.75, shuffles)
    path = exported(module, tmp_path / "new" / "small.onnx")
    image = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        wanted = module.eval()(image)
    assert (answers(path, image) - wanted).abs().max() < 1e-4 * wanted.abs().max()
    assert [one.name for one in path.parent.iterdir()] == ["small.onnx"]


def operators(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def test_a_shuffle_is_a_transposition_between_two_reshapes(tmp_path: Path) -> None:
    path = exported(decouple(build("resnet-8"), 4, 1.75), tmp_path / "small.onnx")
    found = operators(path)
    places = [place for place, one in enumerate(found) if one == "Transpose"]
    assert len(places) == 2
    for place in places:
        assert found[place - 1 : place + 2] == ["Reshape", "Transpose", "Reshape"]


class Joining(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 1)
        self.one, self.other, self.last = (
            nn.Conv2d(8, 8, 1),
            nn.Conv2d(8, 4, 1),
            nn.Conv2d(12, 2, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        return self.last(torch.cat([self.one(x), self.other(x)], 1))


def test_joined_channels_are_gathered_in_the_order_of_their_groups(tmp_path: Path) -> None:
    module = decouple(Joining(), 4, 1, "none", torch.zeros(1, 3, 4, 4))
    path = exported(module, tmp_path / "joining.onnx")
    model = onnx.load(path)
    (gather,) = [node for node in model.graph.node if node.op_type == "Gather"]
    stored = {one.name: onnx.numpy_helper.to_array(one) for one in model.graph.initializer}
    assert onnx.helper.get_node_attr_value(gather, "axis") == 1
    assert stored[gather.input[1]].tolist() == [0, 1, 8, 2, 3, 9, 4, 5, 10, 6, 7, 11]


def test_a_file_is_for_the_oldest_runtime_and_says_nothing_of_this_machine(tmp_path: Path) -> None:
    path = exported(build("resnet-8"), tmp_path / "small.onnx")
    model = onnx.load(path)
    assert model.ir_version <= 10
    assert {(one.domain, one.version) for one in model.opset_import} == {("", 18)}
    content = path.read_bytes()
    assert b".py" not in content
    assert str(Path.cwd()).encode() not in content
    export.to_onnx(_with_statistics(), tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == content


def _with_statistics() -> nn.Module:
    module = build("resnet-8")
    export.random_statistics(module)
    return module


def test_what_is_to_be_known_is_kept_in_the_file(tmp_path: Path) -> None:
    export.to_onnx(build("resnet-8"), tmp_path / "small.onnx", about={"mean": "[0.5]"})
    found = {one.key: one.value for one in onnx.load(tmp_path / "small.onnx").metadata_props}
    assert found == {"mean": "[0.5]"}


def test_a_file_has_the_network_s_multiply_accumulates(tmp_path: Path) -> None:
    module = decouple(build("resnet-8"), 4, 1.5)
    path = exported(module, tmp_path / "small.onnx")
    assert describe(str(path)).macs == count(module).macs


def test_the_module_stays_as_it_was(tmp_path: Path) -> None:
    module = build("resnet-8").train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    export.to_onnx(module, tmp_path / "small.onnx")
    assert module.training
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


def test_what_cannot_be_exported_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^export to .*small.onnx: found .* torch.export traces$"):
        export.to_onnx(Branching(), tmp_path / "small.onnx", torch.zeros(1, 3, 2, 2))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "groups"), [("resnet-20", 1), ("resnet-20", 4), ("mobilenet-v2", 1), ("squeezenet", 4)]
)
def test_activations_are_of_order_one(name: str, groups: int) -> None:
    module = variant(name, 10, 1.25 if groups > 1 else 1.0, groups)
    small = torch.zeros(1, 3, 64, 64)
    export.random_statistics(module, 3, small)
    sizes: list[float] = []
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.BatchNorm2d | nn.Linear):
            layer.register_forward_hook(lambda *given: sizes.append(given[2].std().item()))
    with torch.no_grad():
        module.eval()(torch.randn(1, 3, 64, 64))
    assert min(sizes) > 0.05
    assert max(sizes) < 20


def test_statistics_are_random_but_the_same_for_a_seed() -> None:
    first, same, other = (build("resnet-8") for _ in range(3))
    state = torch.random.get_rng_state()
    for module, seed in ((first, 1), (same, 1), (other, 2)):
        export.random_statistics(module, seed)
    assert torch.equal(torch.random.get_rng_state(), state)
    norm, twin, third = (module.get_submodule("stage1.0.body.1") for module in (first, same, other))
    assert torch.equal(norm.running_mean, twin.running_mean)
    assert not torch.equal(norm.running_mean, third.running_mean)
    for values in (norm.running_mean, norm.running_var, norm.weight, norm.bias):
        assert values.std() > 0.01


def test_a_weights_file_is_enough_to_have_the_network_again(tmp_path: Path) -> None:
    kind = {"network": "resnet-8", "classes": 7, "width": 1.5, "groups": 4, "shuffles": "stages"}
    module = variant(**kind)  # type: ignore[arg-type]
    path = tmp_path / "small.safetensors"
    export.save(path, module.state_dict(), {"network": kind})
    image = torch.randn(2, 3, 32, 32)
    assert torch.equal(export.load(path)(image), module.eval()(image))
    assert export.read(path)[1] == {"network": kind}


@pytest.mark.parametrize("content", [b"", b"\x80\x04pickled", b"\xff" * 100])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "small.safetensors"
    path.write_bytes(content)
    with pytest.raises(InputError, match="expected weights that forerun has saved"):
        export.load(path)
    with pytest.raises(InputError, match=r"none.safetensors: found .* expected weights"):
        export.load(tmp_path / "none.safetensors")


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "small.safetensors"
    export.save(path, {"stem": torch.zeros(1)}, {"network": {"network": "resnet-8"}})
    with pytest.raises(
        InputError, match=r"small.safetensors: found .*, expected weights of resnet-8"
    ):
        export.load(path)
    export.save(path, {"stem": torch.zeros(1)}, {"weights": "mine"})
    with pytest.raises(InputError, match=r"small.safetensors: found no network, expected"):
        export.load(path)
