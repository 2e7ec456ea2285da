"""Recipe files: found by name or path, read strictly."""

from pathlib import Path

import pytest
import yaml

from maxsup.core.errors import StorageError
from maxsup.lab.core.config import parse_recipe
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.core.recipes import MAX_BYTES, MAX_DEPTH, load_recipe, parse_yaml, read_yaml, recipe_path, run_recipe


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: &x [1]\nb: *x", "aliases are not allowed"),
        ("a: 1\na: 2", "key 'a' stands twice"),
        ("a: !!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("a: !!python/name:os.system", "could not determine a constructor"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "nesting deeper than"),
        ("[" * 100_000, "nesting deeper than"),
        ("a: [1", "expected"),
        ("a: 1\n---\nb: 2", "expected a single document"),
    ],
)
def test_what_a_recipe_has_no_use_for_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match="must be valid YAML") as caught:
        parse_yaml(text, source="my.yaml")
    assert reason in str(caught.value)
    assert str(caught.value).startswith("my.yaml must be valid YAML; got an error: ")


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-4", 1e-4), ("5.0e-4", 5e-4), ("-2E3", -2000.0), ("null", None), ("true", True), ("'1e-4'", "1e-4")],
)
def test_scalars_are_what_they_look_like(text: str, value: object) -> None:
    assert parse_yaml(text) == value
    assert type(parse_yaml(text)) is type(value)


def test_a_huge_file_is_not_even_read(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    path.write_text("#" * (MAX_BYTES + 1))
    with pytest.raises(ValueError, match=f"must hold at most {MAX_BYTES} bytes; got {MAX_BYTES + 1}"):
        read_yaml(path)


@pytest.mark.parametrize("text", ["- 1\n- 2", "5", ""])
def test_a_file_without_keys_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "list.yaml").write_text(text)
    with pytest.raises(ValueError, match="must hold key: value lines"):
        load_recipe(str(tmp_path / "list.yaml"))


def test_a_file_is_named_in_its_errors(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("epoch: 3\n")
    with pytest.raises(ValueError, match=r"key of recipe mine must .*; got 'epoch'\. Did you mean 'epochs'"):
        load_recipe(str(tmp_path / "mine.yaml"))


def test_a_name_is_never_a_file_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("digits_cnn").write_text("epochs: 1")
    assert recipe_path("digits_cnn").parent.name == "recipes"


def test_a_run_of_an_earlier_version_has_not_every_key_and_is_read(tmp_path: Path) -> None:
    written = parse_recipe({}).model_dump(mode="json")
    run = RunDir(tmp_path)
    run.write_text(
        run.config,
        yaml.safe_dump({key: value for key, value in written.items() if key not in ("log_every", "teacher")}),
    )
    assert run_recipe(run) == parse_recipe({})
    run.write_text(run.config, yaml.safe_dump({key: value for key, value in written.items() if key != "loss"}))
    with pytest.raises(StorageError, match="got no 'loss'"):
        run_recipe(run)
