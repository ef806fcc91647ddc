"""The standard networks have the sizes that were published, and run."""

import pytest
import torch
from torch import nn

from forerun.errors import InputError
from forerun.splitting import networks
from forerun.splitting.networks import build, count, efficientnet_lite0_weights, input_shape

# Multiply-accumulates and parameters, as published with the networks or counted by torchvision,
# MLPerf Tiny and timm.
PUBLISHED = {
    "resnet-8": (12.5e6, 78_042),
    "resnet-8-quick": (12.5e6 / 4, 78_042),  # ours: a quarter of the pixels, the same weights
    "resnet-20": (40.8e6, 272_474),
    "resnet-34": (3.66e9, 21_797_672),
    "resnet-50": (4.09e9, 25_557_032),
    "vgg-16": (15.47e9, 138_365_992),
    "alexnet": (714e6, 61_100_840),
    "mobilenet-v2": (301e6, 3_504_872),
    "efficientnet-lite0": (385e6, 4_652_008),
    "squeezenet": (349e6, 1_235_496),
}


def on_meta(name: str, **options: float) -> nn.Module:
    """A network without memory for its weights."""
    with torch.device("meta"):
        return build(name, **options)  # type: ignore[arg-type]


def test_all_networks_are_held_to_what_was_published() -> None:
    assert set(PUBLISHED) == set(networks.NETWORKS)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_network_has_its_published_size(name: str) -> None:
    macs, parameters = PUBLISHED[name]
    found = count(on_meta(name))
    assert found.parameters == parameters
    assert found.macs == pytest.approx(macs, rel=3e-3)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_network_scores_its_classes(name: str) -> None:
    network = on_meta(name, classes=7).eval()
    scores = network(torch.empty(input_shape(name), device="meta"))
    assert scores.shape == (1, 7)
    assert network.input_shape == input_shape(name)


def test_width_multiplies_channels() -> None:
    stem = build("resnet-8", width=0.9).stem[0]
    assert stem.out_channels == 14
    dense, wide = count(on_meta("resnet-50")), count(on_meta("resnet-50", width=1.5))
    assert wide.macs == pytest.approx(2.22 * dense.macs, rel=0.01)


def test_weights_keep_the_scale_of_what_goes_through() -> None:
    torch.manual_seed(0)
    layer = nn.Conv2d(64, 64, 3, groups=4)
    networks.initialise(layer)
    assert layer.weight.std().item() == pytest.approx((2 / (16 * 9)) ** 0.5, rel=0.03)
    assert layer.bias.abs().max().item() == 0


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (
            lambda: build("resnet-9"),
            "network: found resnet-9, expected one of resnet-8, ",
        ),
        (lambda: input_shape("lenet"), "network: found lenet, expected one of "),
        (lambda: build("resnet-8", width=0), "width: found 0, expected a number above 0"),
        (lambda: build("resnet-8", classes=0), "classes: found 0, expected a whole number from 1"),
    ],
)
def test_what_cannot_be_built_is_refused(call: object, reason: str) -> None:
    assert callable(call)
    with pytest.raises(InputError, match=reason):
        call()


def test_strided_convolutions_of_efficientnet_pad_as_tensorflow_does() -> None:
    network = build("efficientnet-lite0")
    padding, convolution = network.stem[0]
    assert padding.padding == (0, 1, 0, 1)
    assert convolution.padding == (0, 0)
    wide = [one for one in network.modules() if isinstance(one, nn.ZeroPad2d)]
    assert [one.padding[:2] for one in wide] == [(0, 1), (0, 1), (1, 2), (0, 1), (1, 2)]
    assert network.blocks[0][1].eps == 1e-3


def packaged() -> dict[str, torch.Tensor]:
    """A state dict as the package names it, in numbers that tell its tensors apart."""
    network = build("efficientnet-lite0")
    values: dict[str, torch.Tensor] = {}

    def take(name: str, layer: nn.Module) -> None:
        for what, tensor in layer.state_dict().items():
            values[f"{name}.{what}"] = torch.full_like(tensor, len(values))

    take("_conv_stem", network.stem[0][1])
    take("_bn0", network.stem[1])
    for place, block in enumerate(network.blocks):
        layers = [one for one in block.modules() if isinstance(one, nn.Conv2d | nn.BatchNorm2d)]
        names = ["_depthwise_conv", "_bn1", "_project_conv", "_bn2"]
        names = names if place == 0 else ["_expand_conv", "_bn0", *names]
        for name, layer in zip(names, layers, strict=True):
            take(f"_blocks.{place}.{name}", layer)
    take("_conv_head", network.last[0])
    take("_bn1", network.last[1])
    take("_fc", network.head[-1])
    return values


def test_packaged_weights_of_efficientnet_get_our_names() -> None:
    theirs = packaged()
    ours = efficientnet_lite0_weights(theirs)
    network = build("efficientnet-lite0")
    network.load_state_dict(ours)
    assert len(ours) == len(theirs)
    stem, last = network.stem[0][1].weight, network.head[-1].bias
    assert torch.equal(stem, theirs["_conv_stem.weight"])
    assert torch.equal(last, theirs["_fc.bias"])
    third = network.blocks[2].body[3].weight
    assert torch.equal(third, theirs["_blocks.2._depthwise_conv.weight"])


@pytest.mark.parametrize(
    ("name", "tensor", "found"),
    [
        ("_fc.weight", None, "found none"),
        ("_blocks.3._bn1.bias", torch.zeros(3), r"found \(3,\)"),
    ],
)
def test_other_weights_are_named(name: str, tensor: torch.Tensor | None, found: str) -> None:
    weights = packaged()
    del weights[name]
    if tensor is not None:
        weights[name] = tensor
    with pytest.raises(InputError, match=f"weights {name}: {found}"):
        efficientnet_lite0_weights(weights)
