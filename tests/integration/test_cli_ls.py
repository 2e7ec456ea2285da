"""`maxsup ls` as a user meets it."""

import json
import sys
from typing import Any

import pytest
import torch

import maxsup
from maxsup.core.errors import DataError, Interruption, NonFiniteError, StorageError, out_of_memory
from maxsup.core.installation import install_command
from maxsup.lab.cli import main
from tests.integration.command import Cli, assert_refused, run_command
from tests.reference.cases import NUM_LOSSES

KEYS = ["name", "summary", "formula", "strength", "default", "source", "needs"]


@pytest.fixture
def listing(cli: Cli) -> list[dict[str, Any]]:
    outcome = cli("ls", "losses", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    return json.loads(outcome.out)


def test_an_error_is_an_object_with_its_code_when_json_is_asked_for(cli: Cli) -> None:
    outcome = cli("eval", "no-such-run", "--json")
    error = json.loads(outcome.out)["error"]
    assert error == {"code": "run-not-found", "message": error["message"], "exit_code": outcome.code}
    assert f"maxsup: {error['message']}" in outcome.err


def test_json_lists_every_registered_loss_with_all_its_facts(listing: list[dict[str, Any]]) -> None:
    assert [row["name"] for row in listing] == maxsup.list_losses()
    assert len(listing) == NUM_LOSSES
    for row in listing:
        assert list(row) == KEYS
        assert row["formula"]
        assert row["source"]
        assert (row["strength"] is None) == (row["default"] is None)
        assert isinstance(row["needs"], list)


def test_a_default_in_the_listing_is_the_default_of_the_loss(listing: list[dict[str, Any]]) -> None:
    strong = [row for row in listing if row["strength"]]
    assert {row["name"]: row["default"] for row in strong} == {
        row["name"]: getattr(maxsup.create_loss(row["name"]), row["strength"]) for row in strong
    }


def test_the_table_fits_80_columns_and_hides_nothing(cli: Cli, listing: list[dict[str, Any]]) -> None:
    outcome = cli("ls", "losses", COLUMNS="80")
    lines = outcome.out.splitlines()
    assert outcome.code == 0
    assert max(len(line) for line in lines) <= 80
    assert "…" not in outcome.out
    assert "\x1b" not in outcome.out
    assert {row["name"] for row in listing} <= {line.split()[0] for line in lines}
    for row in listing:
        for need in row["needs"]:
            assert f"needs: {need}" in outcome.out


def test_a_wide_terminal_gives_one_line_a_loss(cli: Cli, listing: list[dict[str, Any]]) -> None:
    lines = cli("ls", "losses", COLUMNS="330").out.splitlines()
    for row in listing:
        [line] = [line for line in lines if line.split()[0] == row["name"]]
        assert row["formula"] in line
        assert row["source"] in line
        assert ", ".join(row["needs"]) in line


@pytest.mark.parametrize(("setting", "coloured"), [("FORCE_COLOR", True), ("NO_COLOR", False)])
def test_colour_follows_the_environment(cli: Cli, setting: str, coloured: bool) -> None:
    assert ("\x1b[" in cli("ls", "losses", **{setting: "1"}).out) == coloured


def test_an_unknown_kind_names_the_nearest_one(cli: Cli) -> None:
    assert_refused(cli("ls", "losess"), 2, ": kind must be one of 'losses'", "; got 'losess'. Did you mean 'losses'?\n")


@pytest.mark.parametrize("words", [("--debug", "ls", "losess"), ("ls", "losess", "--debug")])
def test_debug_lets_the_error_through_wherever_it_stands(words: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="Did you mean 'losses'"):
        main(words)


@pytest.mark.parametrize(
    ("words", "what", "verb"),
    [
        (("lss",), "'lss'", "maxsup"),
        (("ls",), "'KIND'", "maxsup ls"),
        (("ls", "losses", "--jsn"), "--jsn", "maxsup ls"),
        (("compare", "--workers", "x"), "'--workers'", "maxsup compare"),
        (("study", "show"), "'STUDY'", "maxsup study show"),
    ],
)
def test_wrong_usage_is_one_sentence_that_names_the_help(cli: Cli, words: tuple[str], what: str, verb: str) -> None:
    assert_refused(cli(*words), 2, what, f". See `{verb} --help`.\n")


@pytest.mark.parametrize("words", [(), ("study",)])
def test_no_words_at_all_show_the_help(cli: Cli, words: tuple[str]) -> None:
    outcome = cli(*words)
    assert "Usage: maxsup" in outcome.out + outcome.err
    assert "Commands:" in outcome.out + outcome.err


@pytest.mark.parametrize("kind", ["data", "recipes", "analyses"])
@pytest.mark.parametrize("width", [80, 120])
def test_a_listing_fits_its_terminal_and_speaks_no_python(cli: Cli, kind: str, width: int) -> None:
    outcome = cli("ls", kind, COLUMNS=str(width))
    assert outcome.code == 0
    assert max(len(line) for line in outcome.out.splitlines()) <= width
    for python in ("None", "True", "False", "('", "(1,"):
        assert python not in outcome.out


def test_a_data_set_takes_four_lines_at_most(cli: Cli) -> None:
    _, _, *lines = cli("ls", "data", COLUMNS="80").out.splitlines()
    starts = [number for number, line in enumerate(lines) if not line.startswith(" ")]
    assert len(starts) == len(json.loads(cli("ls", "data", "--json").out))
    assert max(end - start for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)) <= 4


def test_a_command_of_a_recipe_can_be_copied_though_it_is_wrapped(cli: Cli) -> None:
    commands = [row["command"] for row in json.loads(cli("ls", "recipes", "--json").out)]
    shown = cli("ls", "recipes", COLUMNS="60").out.replace("\\\n", " ").splitlines()
    assert any(len(command) > 60 for command in commands)
    assert set(commands) <= {" ".join(line.split()) for line in shown}


def test_version_is_printed(cli: Cli) -> None:
    assert cli("--version") == (0, f"maxsup {maxsup.__version__}\n", "")


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_one_sentence_names_it(cli: Cli, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, "maxsup.lab.cli.app", raising=False)
    sentence = f"maxsup: the command line needs {missing}, which is not installed; run {install_command('lab')}.\n"
    assert cli("ls", "losses") == (2, "", sentence)


def fail_with(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(kind: str) -> None:
        raise error

    monkeypatch.setattr("maxsup.lab.cli.verbs.ls.read_rows", fail)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("alpha must be a number."), 2),
        (NonFiniteError("the loss became nan."), 3),
        (DataError("images must be readable."), 4),
        (StorageError("the disk is full."), 5),
        (PermissionError(13, "Permission denied", "runs/a"), 5),
        (out_of_memory(MemoryError()), 2),
        (Interruption("stopped by a signal.", signal_number=2), 130),
    ],
)
def test_an_error_is_one_sentence_and_its_documented_exit_code(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    fail_with(error, monkeypatch)
    assert cli("ls", "losses") == (code, "", f"maxsup: {error}\n")


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1024 bytes. Error code 12"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 1024 bytes."),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1024 bytes. GPU 0 has none left."),
        MemoryError("Unable to allocate 1024 bytes for an array"),
    ],
)
def test_too_little_memory_is_one_sentence_with_its_fix(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    fail_with(error, monkeypatch)
    assert_refused(cli("ls", "losses"), 2, "there is too little memory for 1024 bytes more. Set accumulation=auto")
    with pytest.raises(type(error)):
        main(["ls", "losses", "--debug"])


@pytest.mark.parametrize("error", [KeyError("formula"), RuntimeError("shapes do not fit in memory format")])
def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    fail_with(error, monkeypatch)
    with pytest.raises(type(error)):
        main(["ls", "losses"])


def test_an_error_in_a_process_of_its_own_has_no_traceback() -> None:
    assert_refused(run_command("ls", "losess"), 2)
