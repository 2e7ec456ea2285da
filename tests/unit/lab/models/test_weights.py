"""Weights from files: formats, names, heads of another size, and everything that is refused."""

import argparse
import pickle
from pathlib import Path

import pytest
import timm
import torch
import torchvision
from safetensors.torch import save_file
from timm.models import PretrainedCfg

import maxsup.lab.models.libraries.timm_models as timm_models
from maxsup.core.errors import StorageError
from maxsup.lab.models import create_model, num_classes_of


def trained_cnn(num_classes: int = 10):
    """A small network that differs from every fresh one."""
    torch.manual_seed(7)
    return create_model("small_cnn", num_classes, in_channels=1).eval()


def saved_cnn(path: Path, num_classes: int = 10) -> Path:
    save_file(trained_cnn(num_classes).state_dict(), path)
    return path


def read_cnn(path: Path, num_classes: int = 10, **options: str):
    return create_model("small_cnn", num_classes, in_channels=1, pretrained=path, **options).eval()


DIGITS = torch.linspace(-1, 1, 128).reshape(2, 1, 8, 8)


@pytest.mark.parametrize("suffix", [".pt", ".pth"])
@pytest.mark.parametrize("envelope", [None, "state_dict", "model", "model_state_dict", "net", "weights"])
@pytest.mark.parametrize("wrapper", ["", "module.", "_orig_mod.", "_orig_mod.module.", "net._orig_mod."])
def test_a_torch_file_is_read_bare_or_inside_a_checkpoint(tmp_path: Path, suffix: str, envelope: str, wrapper: str):
    state = {wrapper + name: value for name, value in trained_cnn().state_dict().items()}
    path = tmp_path / f"weights{suffix}"
    torch.save({envelope: state, "epoch": 3} if envelope else state, path)
    assert torch.equal(read_cnn(path)(DIGITS), trained_cnn()(DIGITS))


def test_a_checkpoint_that_keeps_the_arguments_of_its_script_is_read(tmp_path: Path):
    path = tmp_path / "last.pth.tar"
    torch.save({"state_dict": trained_cnn().state_dict(), "args": argparse.Namespace(lr=0.1)}, path)
    assert torch.equal(read_cnn(path)(DIGITS), trained_cnn()(DIGITS))


def saved_by_lightning(path: Path, attributes: dict[str, dict[str, torch.Tensor]]) -> Path:
    """A checkpoint of a LightningModule that keeps these weights below its attributes."""
    state = {f"{owner}.{name}": value for owner, weights in attributes.items() for name, value in weights.items()}
    torch.save({"state_dict": state, "hyper_parameters": {"lr": 0.1}, "epoch": 3, "loops": {}}, path)
    return path


@pytest.mark.parametrize("attribute", ["model", "net", "backbone", "body"])
def test_a_checkpoint_of_lightning_is_read_without_the_attribute_and_what_stands_beside_it(
    tmp_path: Path, attribute: str
):
    others = {"criterion": {"weight": torch.ones(10)}, "val_accuracy": {"metric.total": torch.tensor(3)}}
    path = saved_by_lightning(tmp_path / "last.ckpt", {attribute: trained_cnn().state_dict(), **others})
    assert torch.equal(read_cnn(path)(DIGITS), trained_cnn()(DIGITS))


@pytest.mark.parametrize("name", ["timm:resnet18", "timm:swin_tiny_patch4_window7_224", "torchvision:resnet18"])
def test_a_checkpoint_of_lightning_may_have_the_names_of_a_library(tmp_path: Path, name: str):
    library, _, bare = name.partition(":")
    create = timm.create_model if library == "timm" else torchvision.models.get_model
    theirs = create(bare, num_classes=5)
    weights = {"model": theirs.state_dict(), "criterion": {"weight": torch.ones(5)}}
    path = saved_by_lightning(tmp_path / "last.ckpt", weights)
    assert num_classes_of(name, str(path)) == 5
    ours = create_model(name, 5, pretrained=path)
    for own, given in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(own, given)


def test_a_checkpoint_of_lightning_with_a_head_of_another_size_leaves_the_head_new(tmp_path: Path):
    path = saved_by_lightning(tmp_path / "last.ckpt", {"model": trained_cnn().state_dict()})
    with pytest.warns(UserWarning, match="The head of last.ckpt is for 10 classes and this model has 4"):
        model = read_cnn(path, num_classes=4)
    assert torch.equal(model.features(DIGITS), trained_cnn().features(DIGITS))


@pytest.mark.filterwarnings("ignore:The head of last.ckpt")
def test_two_networks_in_one_checkpoint_are_refused(tmp_path: Path):
    state = trained_cnn().state_dict()
    path = saved_by_lightning(tmp_path / "last.ckpt", {"student": state, "teacher": state})
    with pytest.raises(ValueError, match=r"unknown \(student\.body\.0\.0\.weight"):
        read_cnn(path)


def test_names_of_this_package_beside_others_are_refused(tmp_path: Path):
    weights = create_model("torchvision:resnet18", 5).state_dict() | {"criterion.weight": torch.ones(5)}
    save_file(weights, tmp_path / "more.safetensors")
    with pytest.raises(ValueError, match=r"with weights 1 unknown \(criterion\.weight\)"):
        create_model("torchvision:resnet18", 5, pretrained=tmp_path / "more.safetensors")


@pytest.mark.parametrize(("envelope", "average"), [("state_dict", "state_dict_ema"), ("model", "model_ema")])
def test_averaged_weights_that_are_not_read_are_named(tmp_path: Path, envelope: str, average: str):
    path, state = tmp_path / "last.pth", trained_cnn().state_dict()
    torch.save({envelope: state, average: {name: value + 1 for name, value in state.items()}}, path)
    with pytest.warns(UserWarning, match=f"last.pth also holds averaged weights, '{average}', which are not read"):
        model = read_cnn(path)
    assert torch.equal(model(DIGITS), trained_cnn()(DIGITS))


@pytest.mark.parametrize("kind", [str, Path])
def test_a_safetensors_file_is_read(tmp_path: Path, kind: type):
    path = saved_cnn(tmp_path / "model.safetensors")
    assert torch.equal(read_cnn(kind(path))(DIGITS), trained_cnn()(DIGITS))


def test_a_head_of_another_size_stays_new_and_one_sentence_says_so(tmp_path: Path):
    path = saved_cnn(tmp_path / "model.safetensors", num_classes=10)
    with pytest.warns(UserWarning, match="starts untrained") as caught:
        model = read_cnn(path, num_classes=4)
    assert [str(warning.message) for warning in caught] == [
        "The head of model.safetensors is for 10 classes and this model has 4, so the head of this model starts "
        "untrained."
    ]
    assert caught[0].filename.endswith("test_weights.py")
    assert model(DIGITS).shape == (2, 4)
    assert torch.equal(model.features(DIGITS), trained_cnn().features(DIGITS))


@pytest.mark.parametrize(("kept", "classifier"), [("", "tde"), ("body.", "linear")])
def test_a_head_of_another_kind_or_none_leaves_the_head_new(tmp_path: Path, kept: str, classifier: str):
    weights = {name: value for name, value in trained_cnn().state_dict().items() if name.startswith(kept)}
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.warns(UserWarning, match="is missing or of another kind"):
        model = read_cnn(tmp_path / "model.safetensors", classifier=classifier)
    assert torch.equal(model.features(DIGITS), trained_cnn().features(DIGITS))


@pytest.mark.parametrize("name", ["resnet18", pytest.param("swin_tiny_patch4_window7_224", marks=pytest.mark.slow)])
def test_a_file_with_the_names_of_timm_fits_a_model_of_timm(tmp_path: Path, name: str):
    theirs = timm.create_model(name, num_classes=5).eval()
    save_file(theirs.state_dict(), tmp_path / "theirs.safetensors")
    ours = create_model(name, 5, pretrained=tmp_path / "theirs.safetensors").eval()
    images = torch.randn(1, 3, 224, 224)
    with torch.no_grad():
        assert torch.allclose(ours(images), theirs(images), rtol=1e-5, atol=1e-6)


def test_a_pytorch_model_bin_of_transformers_is_read(tmp_path: Path):
    transformers = pytest.importorskip("transformers")
    config = transformers.ResNetConfig(embedding_size=4, hidden_sizes=[8], depths=[1], num_labels=5)
    config.architectures = ["ResNetForImageClassification"]
    config.save_pretrained(tmp_path)
    theirs = transformers.AutoModelForImageClassification.from_config(config).eval()
    torch.save(theirs.state_dict(), tmp_path / "pytorch_model.bin")
    ours = create_model(f"hf:{tmp_path}", 5, pretrained=tmp_path / "pytorch_model.bin").eval()
    images = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(ours(images), theirs(images).logits)


def test_position_embeddings_are_resized_to_another_image_size(tmp_path: Path):
    small = create_model("tiny_vit", 10, image_size=16, patch_size=4)
    save_file(small.state_dict(), tmp_path / "small.safetensors")
    large = create_model("tiny_vit", 10, image_size=32, patch_size=4, pretrained=tmp_path / "small.safetensors")
    assert large.body.pos_embed.shape[1] == 65
    assert torch.equal(large.body.blocks[0].attn.qkv.weight, small.body.blocks[0].attn.qkv.weight)


def test_weights_of_another_network_are_refused_with_examples(tmp_path: Path):
    path = tmp_path / "other.safetensors"
    save_file(create_model("resnet20", 10).state_dict(), path)
    with pytest.raises(ValueError, match=r"pretrained must fit the model; got .*other\.safetensors") as error:
        read_cnn(path)
    assert "of another shape (body.0.0.weight" not in str(error.value)
    assert "missing (body.0.0.weight, body.0.1.bias, body.0.1.num_batches_tracked, ...)" in str(error.value)
    assert "unknown (" in str(error.value)


def test_weights_for_other_channels_are_refused(tmp_path: Path):
    path = saved_cnn(tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"1 of another shape \(body\.0\.0\.weight\)"):
        create_model("small_cnn", 10, in_channels=3, pretrained=path)


class Marker:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_pickle_is_refused_and_not_run(tmp_path: Path):
    path = tmp_path / "evil.pth"
    path.write_bytes(pickle.dumps({"body.0.0.weight": Marker(tmp_path / "was_here")}, protocol=2))
    with pytest.raises(StorageError, match="pretrained must be a readable"):
        read_cnn(path)
    assert not (tmp_path / "was_here").exists()


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_a_truncated_file_is_refused(tmp_path: Path, suffix: str):
    path = tmp_path / f"model{suffix}"
    state = trained_cnn().state_dict()
    save_file(state, path) if suffix == ".safetensors" else torch.save(state, path)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(StorageError, match="pretrained must be a readable"):
        read_cnn(path)


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_a_file_without_a_byte_is_refused(tmp_path: Path, suffix: str):
    path = tmp_path / f"model{suffix}"
    path.touch()
    with pytest.raises(StorageError, match="pretrained must be a readable"):
        read_cnn(path)


def test_a_whole_network_is_refused_without_advice_to_run_it(tmp_path: Path):
    torch.save(trained_cnn(), tmp_path / "whole.pth")
    with pytest.raises(StorageError, match=r"\(it is damaged, or holds Python objects besides tensors\). Fetch"):
        read_cnn(tmp_path / "whole.pth")


def test_a_file_that_is_missing_or_holds_something_else_is_refused(tmp_path: Path):
    with pytest.raises(StorageError, match=r"pretrained must be a file that is there; got .*numbers\.pt"):
        read_cnn(tmp_path / "numbers.pt")
    torch.save({"epoch": 3, "lr": 0.1}, tmp_path / "numbers.pt")
    with pytest.raises(StorageError, match="pretrained must hold names and tensors"):
        read_cnn(tmp_path / "numbers.pt")


@pytest.mark.parametrize("name", ["small_cnn", "resnet18_cifar", "resnet18"])
def test_models_without_published_weights_say_so(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timm, "get_pretrained_cfg", lambda name: PretrainedCfg())
    with pytest.raises(ValueError, match=f"for model '{name}', which has no published weights; got True") as error:
        create_model(name, 10, pretrained=True)
    assert "model.pretrained=false" in str(error.value)
    assert "model.pretrained=FILE" in str(error.value)


def test_published_weights_out_of_reach_are_an_error_with_a_way_out(monkeypatch: pytest.MonkeyPatch):
    def unreachable(*args: object, **options: object) -> None:
        raise FileNotFoundError("no network")

    monkeypatch.setattr(timm, "create_model", unreachable)
    with pytest.raises(
        StorageError, match=r"published weights of 'resnet18' must be .*; got FileNotFoundError"
    ) as error:
        create_model("resnet18", 10, pretrained=True)
    assert "model.pretrained=false" in str(error.value)
    assert "model.pretrained=FILE" in str(error.value)


@pytest.mark.parametrize(("num_classes", "classifier", "said"), [
    (1000, "linear", []),
    (10, "linear", ["The head of the published resnet18 is for 1000 classes and this model has 10"]),
    (1000, "tde", ["The head of the published resnet18 is missing or of another kind"]),
])  # fmt: skip
def test_published_weights_with_another_head_say_so(
    num_classes: int,
    classifier: str,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
    recwarn: pytest.WarningsRecorder,
):
    create = timm.create_model
    monkeypatch.setattr(timm, "create_model", lambda name, pretrained, **options: create(name, **options))
    create_model("resnet18", num_classes, pretrained=True, classifier=classifier)
    heard = [str(warning.message).partition(",")[0] for warning in recwarn if "head" in str(warning.message)]
    assert heard == said


def test_timm_is_asked_for_its_weights(monkeypatch: pytest.MonkeyPatch):
    asked: list[object] = []
    create = timm.create_model

    def fetch(name: str, pretrained: bool, **options: object):
        asked.append((name, pretrained))
        return create(name, **options)

    monkeypatch.setattr(timm, "create_model", fetch)
    timm_models.create_timm_model("resnet18.a1_in1k", 1000, pretrained=True)
    assert asked == [("resnet18.a1_in1k", True)]
