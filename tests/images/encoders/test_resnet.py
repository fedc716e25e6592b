"""Residual networks: torchvision's sizes and names, any image, one vector each."""

import pytest
import torch

from pucl.images.encoders.registry import make_encoder
from pucl.images.encoders.resnet import MEMORY_FORMAT, ResNet

FEATURES = {"resnet18": 512, "resnet34": 512, "resnet50": 2048, "small": 256}


def resnet(name: str, **settings: object) -> ResNet:
    encoder = make_encoder(name, **settings)  # type: ignore[arg-type]
    assert isinstance(encoder, ResNet)
    return encoder


def torchvision_names(bottleneck: bool, depths: tuple[int, ...]) -> set[str]:
    """The keys of a torchvision ResNet's state, without fc, from its documentation in words."""

    def norm(prefix: str) -> set[str]:
        return {f"{prefix}.{x}" for x in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")}

    names = {"conv1.weight"} | norm("bn1")
    for stage, depth in enumerate(depths, start=1):
        for block in range(depth):
            prefix = f"layer{stage}.{block}"
            for i in range(1, 4 if bottleneck else 3):
                names |= {f"{prefix}.conv{i}.weight"} | norm(f"{prefix}.bn{i}")
            if block == 0 and (stage > 1 or bottleneck):
                names |= {f"{prefix}.downsample.0.weight"} | norm(f"{prefix}.downsample.1")
    return names


@pytest.mark.parametrize(
    ("name", "parameters", "bottleneck", "depths"),
    [
        ("resnet18", 11_176_512, False, (2, 2, 2, 2)),
        ("resnet34", 21_284_672, False, (3, 4, 6, 3)),
        ("resnet50", 23_508_032, True, (3, 4, 6, 3)),
    ],
)
def test_parameters_are_torchvisions_without_the_classifier(
    name: str, parameters: int, bottleneck: bool, depths: tuple[int, ...]
) -> None:
    encoder = resnet(name, stem="ordinary")
    assert sum(parameter.numel() for parameter in encoder.parameters()) == parameters
    assert set(encoder.state_dict()) == torchvision_names(bottleneck, depths)


@pytest.mark.parametrize(("stem", "side"), [("small", 64), ("half", 32), ("ordinary", 16)])
def test_any_size_gives_one_vector_an_image(stem: str, side: int) -> None:
    encoder = resnet("small", stem=stem).eval()
    planes = []
    encoder.get_submodule("layer1").register_forward_hook(lambda *call: planes.append(call[2].shape[-2:]))
    with torch.no_grad():
        assert encoder(torch.randn(2, 3, 64, 64)).shape == (2, 256)
        assert encoder(torch.randn(1, 3, 65, 61)).shape == (1, 256)
    assert planes[0] == (side, side)


@pytest.mark.parametrize("name", FEATURES)
def test_features_is_the_dimension_that_comes_out_at_any_width(name: str) -> None:
    usual = 32 if name == "small" else 64
    for width, channels in ((usual, 3), (usual // 2, 1), (usual // 2, 2)):
        encoder = resnet(name, width=width, in_channels=channels).eval()
        assert encoder.features == FEATURES[name] * width // usual
    with torch.no_grad():
        assert encoder(torch.randn(2, 2, 8, 8)).shape == (2, encoder.features)


def test_the_last_stages_stand_side_by_side() -> None:
    encoder = make_encoder("small", scales=3).eval()
    outputs = []
    for stage in ("layer2", "layer3", "layer4"):
        encoder.get_submodule(stage).register_forward_hook(lambda *call: outputs.append(call[2].mean(dim=(2, 3))))
    with torch.no_grad():
        features = encoder(torch.randn(2, 3, 32, 32))
    assert encoder.features == 64 + 128 + 256
    torch.testing.assert_close(features, torch.cat(outputs, dim=1))


@pytest.mark.parametrize(("name", "channels"), [("small", 3), ("resnet50", 1)])
def test_the_memory_format_changes_the_time_and_nothing_else(name: str, channels: int) -> None:
    encoder = resnet(name, width=8, in_channels=channels).double()
    assert encoder.memory_format == MEMORY_FORMAT
    images, results = torch.randn(4, channels, 16, 16).double(), []
    for memory_format in (torch.channels_last, torch.contiguous_format):
        encoder.memory_format = memory_format
        encoder.zero_grad()
        features = encoder(images)
        features.square().sum().backward()
        results.append([features.detach(), *(parameter.grad for parameter in encoder.parameters())])
    torch.testing.assert_close(results[0], results[1])
    assert all(parameter.is_contiguous() for parameter in encoder.parameters())


def test_few_channels_of_larger_images() -> None:
    """A strided 1 x 1 convolution of these kills the process in its backward pass, sooner or later."""
    encoder, images = resnet("small", width=8), torch.randn(16, 3, 64, 64)
    weight = encoder.get_parameter("layer2.0.downsample.0.weight")
    gradients = []
    for precision in (torch.float32, torch.float64):
        encoder.to(precision).zero_grad()
        encoder(images.to(precision)).square().mean().backward()
        assert weight.grad is not None
        gradients.append(weight.grad.double())
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-5)


def test_activations_lie_in_the_memory_format_even_from_one_channel() -> None:
    encoder, lies = resnet("small", in_channels=1), []
    encoder.get_submodule("layer3").register_forward_hook(
        lambda *call: lies.append(call[2].is_contiguous(memory_format=MEMORY_FORMAT))
    )
    encoder(torch.randn(4, 1, 16, 16))
    assert lies == [True]


def test_wrong_settings_are_refused(without_shape_checks: None) -> None:
    with pytest.raises(
        ValueError, match="names the first layers of the network: expected one of small, half, ordinary, got tiny"
    ):
        make_encoder("small", stem="tiny")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the number of channels of an image: expected at least 1, got 0"):
        make_encoder("small", in_channels=0)
    with pytest.raises(ValueError, match="planes of the first stage: expected at least 1, got 0"):
        make_encoder("small", width=0)
    for scales in (0, 5):
        with pytest.raises(ValueError, match=f"stages that give features: expected 1 to 4, got {scales}"):
            make_encoder("small", scales=scales)
