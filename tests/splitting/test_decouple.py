"""Decoupled networks: what they cost, where they shuffle, and that groups keep to themselves."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from forerun.errors import InputError
from forerun.splitting.blocks import Residual
from forerun.splitting.decouple import decouple, variant
from forerun.splitting.grouping import Shuffle
from forerun.splitting.networks import NETWORKS, Count, build, count

GROUPS = 4


def on_meta(name: str) -> nn.Module:
    with torch.device("meta"):
        return build(name)


def shuffles(module: nn.Module) -> list[str]:
    return [name for name, one in module.named_modules() if isinstance(one, Shuffle)]


# What DeCNN's authors state for ResNet-50, and what follows from it for the others.
@pytest.mark.parametrize(
    ("name", "width", "gigamacs", "millions"),
    [
        ("resnet-50", 1.75, 3.25, 21.6),
        ("resnet-50", 1.5, 2.41, 16.4),
        ("resnet-34", 1.75, 2.92, 17.2),
        ("vgg-16", 1.75, 12.0, 212.0),
        ("resnet-8", 1.75, 0.0100, 0.0615),
    ],
)
def test_a_decoupled_network_has_its_published_size(
    name: str, width: float, gigamacs: float, millions: float
) -> None:
    found = count(decouple(on_meta(name), GROUPS, width))
    assert found.macs / 1e9 == pytest.approx(gigamacs, rel=3e-3)
    assert found.parameters / 1e6 == pytest.approx(millions, rel=3e-3)


@pytest.mark.parametrize(
    ("name", "stages"),
    [
        ("resnet-8", 2),
        ("resnet-34", 3),
        ("resnet-50", 3),
        ("vgg-16", 2),
        ("alexnet", 1),
        ("mobilenet-v2", 4),
        ("efficientnet-lite0", 4),
        ("squeezenet", 2),
    ],
)
def test_networks_shuffle_between_their_stages(name: str, stages: int) -> None:
    assert len(shuffles(decouple(on_meta(name), GROUPS, 1.75))) == stages
    assert shuffles(decouple(on_meta(name), GROUPS, 1.75, "none")) == []


def test_resnet_shuffles_what_its_stages_give() -> None:
    found = shuffles(decouple(build("resnet-20"), GROUPS, 1))
    assert found == ["stage1_2_activation_shuffle", "stage2_2_activation_shuffle"]


def test_vgg_shuffles_after_its_fifth_and_ninth_convolution() -> None:
    found = shuffles(decouple(on_meta("vgg-16"), GROUPS, 1))
    assert found == ["features_6_2_shuffle", "features_11_2_shuffle"]


def test_alexnet_shuffles_what_was_pooled() -> None:
    # After pooling there is a quarter of it to send.
    assert shuffles(decouple(on_meta("alexnet"), GROUPS, 1)) == ["features_5_shuffle"]


def test_blocks_shuffle_where_another_follows() -> None:
    assert len(shuffles(decouple(on_meta("resnet-50"), GROUPS, 1.75, "blocks"))) == 15


def test_modules_that_are_named_shuffle() -> None:
    found = decouple(build("resnet-20"), GROUPS, 1, ["stage1.0", "stage3"])
    assert shuffles(found) == ["stage1_0_activation_shuffle", "stage3_2_activation_shuffle"]


class Concatenating(nn.Module):
    """Branches that are joined, squeezed and excited, and pooled."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.narrow, self.wide = nn.Conv2d(8, 8, 1), nn.Conv2d(8, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(24)
        self.depthwise = nn.Conv2d(24, 48, 3, 2, 1, groups=24)
        self.squeeze, self.excite = nn.Conv2d(48, 8, 1), nn.Conv2d(8, 48, 1)
        self.last = nn.Linear(48 * 4, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.stem(x))
        x = self.norm(torch.cat([self.narrow(x), self.wide(x)], dim=1))
        x = functional.max_pool2d(self.depthwise(x), 2)
        x = x * torch.sigmoid(self.excite(functional.relu(self.squeeze(x.mean((2, 3), True)))))
        x = functional.dropout(x, 0.5, self.training)
        return self.last(x.view(x.size(0), -1))


EXAMPLE = torch.zeros(1, 3, 8, 8)


def reached(module: nn.Module, example: Tensor) -> list[set[int]]:
    """For each group of the stem's channels, which groups of what the head reads depend on it.

    What goes into the first layer after the stem, and into the head, is looked at by hooks.
    """
    layers = [one for one in module.modules() if isinstance(one, nn.Conv2d | nn.Linear)]
    seen: dict[str, Tensor] = {}

    def after_stem(_: nn.Module, __: object, out: Tensor) -> Tensor:
        seen["stem"] = out.detach().requires_grad_()
        return seen["stem"].clone()  # which may be activated in place

    def before_head(_: nn.Module, given: tuple[Tensor, ...]) -> None:
        seen["head"] = given[0]

    hooks = [
        layers[0].register_forward_hook(after_stem),
        layers[-1].register_forward_pre_hook(before_head),
    ]
    module.eval()(example)
    found: list[set[int]] = [set() for _ in range(GROUPS)]
    for group, part in enumerate(seen["head"].chunk(GROUPS, 1)):
        (gradient,) = torch.autograd.grad(part.sum(), seen["stem"], retain_graph=True)
        for source, values in enumerate(gradient.chunk(GROUPS, 1)):
            if values.abs().sum() > 0:
                found[source].add(group)
    for hook in hooks:
        hook.remove()
    return found


@pytest.mark.parametrize("name", ["resnet-8", "mobilenet-v2", "squeezenet"])
def test_without_shuffles_no_group_knows_of_another(name: str) -> None:
    torch.manual_seed(0)
    module = decouple(build(name), GROUPS, 1.25, "none", torch.zeros(1, 3, 64, 64))
    assert reached(module, torch.randn(1, 3, 64, 64)) == [{0}, {1}, {2}, {3}]


def test_branches_and_excitation_stay_within_a_group() -> None:
    torch.manual_seed(0)
    module = decouple(Concatenating(), GROUPS, 1.5, "none", EXAMPLE)
    assert reached(module, torch.randn(1, 3, 8, 8)) == [{0}, {1}, {2}, {3}]
    assert module.depthwise.groups == module.depthwise.in_channels == 36
    assert module.squeeze.groups == GROUPS


def test_shuffles_let_all_groups_know_of_each_other() -> None:
    torch.manual_seed(0)
    module = decouple(build("resnet-8"), GROUPS, 1.75)
    assert reached(module, torch.randn(1, 3, 32, 32)) == [{0, 1, 2, 3}] * GROUPS


class Straight(nn.Module):
    """Layers one after the other, so that a dense network can be in groups already."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3)
        self.first, self.second = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.last = nn.Linear(8 * 36, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.second(self.norm(self.first(self.stem(x))))
        return self.last(torch.flatten(x, 1))


def keep_groups(layer: nn.Conv2d, columns: Sequence[int]) -> None:
    """Zero what a dense convolution takes from other groups, by the order of its inputs."""
    mask = torch.zeros(8, 8)
    for group in range(GROUPS):
        chosen = torch.tensor(columns[2 * group : 2 * group + 2])
        mask[2 * group : 2 * group + 2, chosen] = 1
    with torch.no_grad():
        layer.weight *= mask[:, :, None, None]


@pytest.mark.parametrize(
    ("places", "columns"), [("none", range(8)), (["norm"], (0, 4, 1, 5, 2, 6, 3, 7))]
)
def test_a_network_that_is_in_groups_already_keeps_what_it_computes(
    places: str | list[str], columns: Sequence[int]
) -> None:
    torch.manual_seed(0)
    dense = Straight().eval()
    dense.norm.running_mean.normal_()
    dense.norm.bias.data.normal_()
    keep_groups(dense.first, range(8))
    keep_groups(dense.second, columns)
    found = decouple(dense, GROUPS, 1, places, EXAMPLE)
    for layer in (found.first, found.second):
        with torch.no_grad():
            layer.weight /= GROUPS**0.5  # by which it makes up for what it no longer sums
    x = torch.randn(2, 3, 8, 8)
    assert torch.allclose(found(x), dense(x), atol=1e-5)


def test_the_dense_network_stays_as_it_was() -> None:
    dense = build("resnet-8")
    before = {name: value.clone() for name, value in dense.state_dict().items()}
    decoupled = decouple(dense, GROUPS, 1)
    assert count(dense) == Count(12_501_632, 78_042)
    assert all(torch.equal(before[name], value) for name, value in dense.state_dict().items())
    assert torch.equal(decoupled.get_submodule("stem.0").weight, dense.stem[0].weight)
    assert torch.equal(decoupled.get_submodule("head.2").bias, dense.head[2].bias)


def test_channels_that_are_widened_are_rounded_up() -> None:
    found = decouple(build("resnet-8"), 3, 1.1, example=torch.zeros(1, 3, 32, 32))
    assert found.get_submodule("stem.0").out_channels == 18
    assert found.get_submodule("stage3.0.body.3").out_channels == 72


def test_a_decoupled_network_can_be_trained_and_copied() -> None:
    torch.manual_seed(0)
    module = decouple(Concatenating().train(), GROUPS, 1.5, example=EXAMPLE)
    assert module.training
    x, labels = torch.randn(4, 3, 8, 8), torch.arange(4)
    functional.cross_entropy(module(x), labels).backward()
    assert all(weights.grad is not None for weights in module.parameters())
    module.eval()
    assert torch.equal(module(x), module(x))  # what dropped out does so no longer
    module.train()
    assert not torch.equal(module(x), module(x))


def test_groups_that_a_network_has_itself_are_kept_if_ours_consist_of_them() -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 16, 1),
        nn.Conv2d(16, 32, 1, groups=8),
        nn.Conv2d(32, 16, 1),
        nn.Conv2d(16, 5, 1),
    )
    found = decouple(network, GROUPS, 1, "none", EXAMPLE)
    assert [layer.groups for layer in found.children()] == [1, 8, 4, 1]
    assert found(EXAMPLE).shape == (1, 5, 8, 8)


def test_a_convolution_that_scores_classes_stays_whole() -> None:
    found = decouple(on_meta("squeezenet"), GROUPS, 1.5)
    head = found.get_submodule("head.1")
    assert (head.in_channels, head.out_channels, head.groups) == (768, 1000, 1)


def test_layers_that_are_fully_connected_stay_whole() -> None:
    found = decouple(on_meta("alexnet"), GROUPS, 1.5)
    sizes = [
        (one.in_features, one.out_features) for one in found.modules() if isinstance(one, nn.Linear)
    ]
    assert sizes == [(36 * 384, 4096), (4096, 4096), (4096, 1000)]


def test_a_variant_is_dense_or_decoupled() -> None:
    assert count(variant("resnet-8", width=0.9)).macs == 9_991_492
    assert count(variant("resnet-8", 10, 1.75, GROUPS)).macs == 10_007_648


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


class Attending(nn.Module):
    """Squeezes by fully connected layers, which see all groups."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.after = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 1)
        self.squeeze = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        return self.after(x * self.squeeze(x.mean((2, 3)))[:, :, None, None])


def chain(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 1), *layers, nn.Conv2d(8, 8, 1), nn.Conv2d(8, 2, 1))


class Averaging(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * x.mean(1, keepdim=True)


class Rotating(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.roll(x, 1, 1)


class Image(nn.Module):
    """Adds the image to what is in groups."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.last = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.stem(x) + x)


class Twice(nn.Module):
    """Uses a layer on channels in groups, and on the image."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.both = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)
        self.last = nn.Conv2d(4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.both(self.stem(x)) + self.both(x))


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (
            Branching(),
            "^operation gt: found a choice by the numbers of a tensor, expected one by sizes",
        ),
        (
            chain(nn.Conv2d(8, 6, 1), nn.Conv2d(6, 8, 1)),
            "^layer 1: found 6 channels, expected a mul",
        ),
        (chain(nn.GroupNorm(1, 8)), "^layer 1: found GroupNorm, expected a layer that decoupling"),
        (
            chain(nn.Conv2d(8, 12, 1), nn.Conv2d(12, 12, 1, groups=6), nn.Conv2d(12, 8, 1)),
            "^layer 2: found 6 groups, 12 to 12 channels, expected groups and channels that are",
        ),
        (chain(Averaging()), "^mean in 1: found the mean over 1, expected one of rows and columns"),
        (chain(Rotating()), "^roll in 1: found roll, expected a layer that decoupling has a rule"),
        (Attending(), "^operation mul: found getitem, which no device has a group of, expected"),
    ],
)
def test_what_has_no_rule_is_named(module: nn.Module, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        decouple(module, GROUPS, 1, "none", EXAMPLE)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (Image(), "^operation add: found x, which no device has a group of, expected tensors in"),
        (Twice(), "^layer both: found uses with different channels, expected one use of a layer"),
    ],
)
def test_whole_tensors_and_groups_do_not_mix(module: nn.Module, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        decouple(module, 2, 1, "none", torch.zeros(1, 4, 8, 8))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"groups": 1}, "groups: found 1, expected a whole number from 2"),
        ({"width": 0}, "width: found 0, expected a number above 0"),
        ({"shuffles": "some"}, "shuffles: found some, expected stages, blocks, none, or a list"),
        (
            {"shuffles": ["stage9"]},
            "shuffles: found stage9, expected a module of the network: stem",
        ),
        ({"shuffles": ["head"]}, "shuffle after layer head.2: found a whole tensor, expected one"),
        (
            {"groups": 5, "width": 1},
            "layer stem.0: found 16 channels, expected a multiple of the 5",
        ),
        ({"example": torch.zeros(1, 4, 32, 32)}, r"example: found \(1, 4, 32, 32\), expected"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, object], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        decouple(build("resnet-8"), **options)  # type: ignore[arg-type]


class Halving(nn.Module):
    """Halves an image of any size until four columns are left."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.halve = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 2, stride=2)
        self.last = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        while x.shape[-1] > 4:
            x = functional.relu(self.halve(x))
        return self.last(x.mean((2, 3)))


def test_a_network_that_looks_at_sizes_is_decoupled_for_those_of_the_example() -> None:
    found = decouple(Halving(), GROUPS, 1.5, "none", torch.zeros(1, 3, 16, 16))
    assert [node.target for node in found.graph.nodes].count("halve") == 2
    assert found.halve.groups == GROUPS
    assert found(torch.zeros(7, 3, 16, 16)).shape == (7, 5)


def test_residual_sums_are_of_the_same_groups() -> None:
    module = nn.Sequential(
        nn.Conv2d(3, 8, 1),
        Residual(nn.Conv2d(8, 8, 1), nn.Identity(), nn.ReLU()),
        nn.Conv2d(8, 2, 1),
    )
    torch.manual_seed(0)
    found = decouple(module, GROUPS, 2, "none", EXAMPLE)
    assert reached(found, torch.randn(1, 3, 8, 8)) == [{0}, {1}, {2}, {3}]


@pytest.mark.parametrize("name", NETWORKS)
def test_what_comes_out_keeps_its_shape(name: str) -> None:
    found = decouple(on_meta(name), 2, 1.5).eval()
    shape = found.input_shape
    assert (
        found(torch.empty(shape, device="meta")).shape
        == on_meta(name).eval()(torch.empty(shape, device="meta")).shape
    )
