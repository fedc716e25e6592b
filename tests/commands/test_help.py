"""The help of every command, the settings it is made from, and completion in a shell."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pucl.cli import main
from pucl.commands.parser import COMMANDS, Parser, add_command
from pucl.config import RunConfig
from pucl.corrections import CORRECTIONS
from pucl.frameworks import FRAMEWORKS
from pucl.frameworks.recipes import configurations
from pucl.settings import read_settings

ROOT = Path(__file__).resolve().parents[2]
HELPS = [[name] for name in COMMANDS] + [[command, name] for command in ("train", "compare") for name in FRAMEWORKS]


@pytest.fixture(autouse=True)
def narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def help_of(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stop:
        main([*words, "--help"])
    assert stop.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("words", HELPS, ids=" ".join)
def test_help_fits_a_terminal_and_ends_with_examples(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(*words, capsys=capsys)
    assert max(map(len, text.splitlines())) <= 80
    _, examples = text.rsplit("examples:\n", 1)
    for line in examples.splitlines():
        parse(line)


def parse(line: str) -> None:
    """Parse a command line; an unknown option or a missing argument raises an error."""
    pucl, name, *rest = shlex.split(line, comments=True)
    assert pucl == "pucl"
    if rest[:1] == ["--config"]:
        rest = ["simclr", *rest]  # The file has it.
    if "--help" not in rest:
        parser = Parser(prog=f"pucl {name}")
        add_command(name, parser)
        parser.parse_args(rest[: rest.index(">")] if ">" in rest else rest)


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
USAGE = re.compile(r"[\[|]|\.\.\.|\b(?:COMMAND|FRAMEWORK)\b")  # How commands are written, with placeholders.


def commands_in_docs() -> Iterator[str]:
    """The command lines of all code blocks."""
    for page in PAGES:
        for line in re.findall(r"^ {4}(pucl .*)$", page.read_text(), flags=re.MULTILINE):
            if not USAGE.search(line.split("#")[0]):
                yield line


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_commands_in_sentences_exist(page: Path) -> None:
    named = re.findall(r"`pucl ([\w-]+)", page.read_text()) + re.findall(r"^ {4}pucl (\S+)", page.read_text(), re.M)
    assert set(named) <= {*COMMANDS, "COMMAND", "--help"}


def test_command_lines_in_the_docs_are_true() -> None:
    lines = list(commands_in_docs())
    assert len(lines) >= 30
    for line in lines:
        try:
            parse(line)
        except (SystemExit, ValueError, KeyError) as error:
            pytest.fail(f"{line}: {error}")


def test_a_framework_shows_its_own_settings_alone(capsys: pytest.CaptureFixture[str]) -> None:
    simclr, moco = (help_of("train", name, capsys=capsys) for name in ("simclr", "moco"))
    assert "--queue-size" not in simclr
    assert "\nmoco:\n  --queue-size N" in moco
    for heading in ("data", "views", "encoder", "loss", "correction", "optimisation", "evaluation", "run"):
        assert f"\n{heading}:\n" in simclr
    assert "--stem {small,half,ordinary}" in simclr
    assert "--temperature X           cosines are divided by it (default: 0.5)" in simclr
    assert "--temperature X           cosines are divided by it (default: 0.1)" in moco
    infograph = help_of("train", "infograph", capsys=capsys)
    assert ("svm_scaled" in infograph, "svm_scaled" in simclr) == (True, False)  # Probes that fit graphs alone.


def test_every_setting_is_explained() -> None:
    kinds = [kind for _, kind in configurations()] + list(CORRECTIONS.values())
    unexplained = {
        f"{kind.__name__}.{each.name}"
        for kind in kinds
        for each in read_settings(kind)
        if not each.meaning and each.name not in ("framework", "modality", "data", "settings")
    }
    assert unexplained == set()


def test_a_default_may_change_without_its_meaning() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Longer(RunConfig):
        epochs: int = 7

    epochs = next(each for each in read_settings(Longer) if each.name == "epochs")
    assert (epochs.default, epochs.meaning, epochs.types) == (7, "passes over the training data", frozenset({int}))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "simclrr", "digits"], "'simclrr' is no framework: expected one of simclr, .* Did you mean 'simclr'"),
        (["data", "lst"], "'lst' is no action: expected one of list, get. Did you mean 'list'"),
        (["completion", "tcsh"], "expected one of bash, zsh, fish, got tcsh"),
        (["trian"], "no command 'trian'. Did you mean 'train'"),
    ],
)
def test_wrong_names(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert re.search(message, capsys.readouterr().err)


def test_an_unknown_option_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["train", "simclr", "digits", "--epohcs=3"])
    assert stop.value.code == 2
    assert "unrecognized arguments: --epohcs=3" in capsys.readouterr().err


def test_completion_without_its_extra_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    assert (
        "shell completion needs shtab, which is not installed: pip install '.[completion]'" in capsys.readouterr().err
    )


@pytest.fixture(scope="module")
def bash_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("shtab")
    file = tmp_path_factory.mktemp("completion") / "pucl.bash"
    with pytest.MonkeyPatch.context() as patch, file.open("w") as out:
        patch.setattr(sys, "stdout", out)
        assert main(["completion", "bash"]) == 0
    return file


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("pucl tr", "train"),
        ("pucl train ", "simclr moco cmc infograph pairs"),
        ("pucl train moco cif", "cifar10 cifar100"),
        ("pucl train infograph ENZ", "ENZYMES"),
        ("pucl train simclr mine", "mine.npz"),
        ("pucl train moco digits --q", "--queue-size"),
        ("pucl train simclr digits --q", ""),
        ("pucl train moco digits --correction p", "plain pucl"),
        ("pucl compare moco digits --schedule c", "cosine constant"),
        ("pucl eval mi", "mine.npz"),
        ("pucl data g", "get"),
        ("pucl train simclr digits --conf", "--config"),
        ("pucl compare simclr digits --log t", "tensorboard trackio"),
        ("pucl export mine.npz --format t", "torchscript"),
        ("pucl export mine.npz --fl", "--floats"),
    ],
)
def test_completion_in_bash(bash_script: Path, tmp_path: Path, typed: str, offered: str) -> None:
    (tmp_path / "mine.npz").touch()
    words = shlex.join(typed.split(" "))
    program = f"""
    source {shlex.quote(str(bash_script))}
    COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
    _shtab_pucl
    echo "${{COMPREPLY[*]}}"
    """
    done = subprocess.run(["bash", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)  # noqa: S603, S607
    assert done.stdout.strip() == offered


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_for_other_shells(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("infograph", "queue-size", "fashion-mnist", "jensen_shannon"):
        assert word in script


def test_help_does_not_wait_for_torch() -> None:
    program = "import sys; from pucl.cli import main; main(['--help']); print({'torch', 'numpy'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.endswith("set()\n")
