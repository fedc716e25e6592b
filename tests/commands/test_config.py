"""Settings in a file: the same file is the same run, the command line has precedence, and a file names no code."""

import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from pucl.cli import main
from pucl.commands.configfile import with_framework
from pucl.commands.parser import Parser, add_command
from pucl.commands.train import configuration_of
from pucl.config import RunConfig, settings_of
from pucl.corrections import CORRECTIONS
from pucl.frameworks import FRAMEWORKS
from pucl.frameworks.recipes import configurations, recipe
from pucl.runs.directory import RunDirectory
from pucl.runs.runfile import RUN_FILE, as_toml
from pucl.settings import read_settings
from small_runs import assert_same_bits, small_run


def configuration(*words: str) -> RunConfig:
    """The configuration that `pucl train` makes of its arguments."""
    parser = Parser(prog="pucl train")
    add_command("train", parser)
    arguments = parser.parse_args(with_framework(words))
    return configuration_of(arguments)


def written(path: Path, text: str) -> Path:
    file = path / "run.toml"
    file.write_text(text)
    return file


EXAMPLES = [
    recipe("simclr", "digits", correction="pucl", settings={"alpha": 0.2, "c": 0.0}, seed=7),
    recipe("simclr", "digits", image_size=None, clip=0.5, floor=0.1, limit=None),  # The recipe has a size of 16.
    recipe("moco", "cifar10", "small", queue_size=64, correction="clusters", settings={"k": None}),
    recipe("cmc", "digits", "reference", correction="oracle", settings={"beta": 0.5}),
    recipe("infograph", "shapes", correction="raw", probes="knn,linear"),
    recipe("pairs", "requests", text_column='a "quoted" \\ name\n\x7f\t\N{GREEK SMALL LETTER ALPHA}'),
]


@pytest.mark.parametrize("config", EXAMPLES, ids=lambda config: f"{config.framework}-{config.correction}")
def test_the_file_of_a_run_is_the_run(config: RunConfig, tmp_path: Path) -> None:
    file = written(tmp_path, as_toml(config))
    assert configuration("--config", str(file)) == config
    assert configuration(config.framework, config.data, f"--config={file}") == config


@pytest.mark.parametrize("config", EXAMPLES, ids=lambda config: f"{config.framework}-{config.correction}")
def test_every_setting_is_in_the_file(config: RunConfig) -> None:
    names = {each.name for each in read_settings(type(config))} - {"modality", "settings"}
    assert tomllib.loads(as_toml(config)).keys() == names | config.settings.keys()


def test_runs_are_corrected_unless_their_framework_says_otherwise(tmp_path: Path) -> None:
    """Plain for pairs of texts: communities are coarser than many classes there (docs/pairs.md)."""
    found = {framework: configuration(framework, "data").correction for framework in FRAMEWORKS}
    assert found == dict.fromkeys(FRAMEWORKS, "auto") | {"pairs": "plain"}
    plain = written(tmp_path, 'framework = "simclr"\ncorrection = "plain"\n')
    assert configuration("--config", str(plain), "data").correction == "plain"
    assert configuration("simclr", "data", "--config", str(plain), "--correction", "deb").correction == "deb"


def test_options_have_precedence(tmp_path: Path) -> None:
    file = written(tmp_path, as_toml(EXAMPLES[0]))
    found = configuration("--config", str(file), "--seed", "8", "--epochs", "3", "--alpha", "0.1", "--image-size", "8")
    settings = {**EXAMPLES[0].settings, "alpha": 0.1}
    assert found == replace(EXAMPLES[0], seed=8, epochs=3, settings=settings, image_size=8)  # type: ignore[call-arg]
    few = written(tmp_path, 'framework = "simclr"\nepochs = 2\n')
    assert configuration("simclr", "cifar10", "--config", str(few)) == recipe(
        "simclr", "cifar10", epochs=2, correction="auto"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epohcs = 3", "'epohcs' is no setting of simclr. Did you mean 'epochs'?"),
        ("queue_size = 64", "queue_size is a setting of moco, not of simclr"),
        ('epochs = "ten"', "'epochs' should be a whole number, got 'ten'"),
        ("epochs = true", "'epochs' should be a whole number, got True"),
        ("clip = true", "'clip' should be a number, got True, or false for none"),
        ("seed = 1.5", "'seed' should be a whole number, got 1.5"),
        ("epochs = -3", "epochs"),
        ('out = "elsewhere"', "out is no setting of a run, but where or how it is run: give --out on the command line"),
        ('correction = "puc"', "'puc' is no correction"),
        ("corrections = ['plain']", "'corrections' is no setting of simclr. Did you mean 'correction'?"),
        ("[views]\ncrop = 0.2", "expected views = ..., got a table [views]"),
        ("epochs 3", "holds settings as TOML, each on a line (epochs = 50)"),
        ('correction = "plain"\nalpha = 0.1', "--alpha is no setting of plain"),
    ],
)
def test_wrong_files(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str) -> None:
    file = written(tmp_path, f'framework = "simclr"\ndata = "digits"\n{text}\n')
    assert main(["train", "--config", str(file), "--out", str(tmp_path / "run")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "text", "message"),
    [
        (["--config", "run.toml"], "epochs = 3", 'names no framework: expected framework = "NAME"'),
        (["--config", "run.toml"], 'framework = "simclrr"', "'simclrr' is no framework"),
        (["simclr", "--config", "run.toml"], "epochs = 3", "DATA is what to train on: expected a name or a path, or"),
        (["--config", "none.toml"], "", "none.toml"),
        (["simclr"], "", "DATA is what to train on"),
    ],
)
def test_what_is_missing_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    text: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, text)
    assert main(["train", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_the_file_in_a_runs_directory_is_the_same_run(tmp_path: Path) -> None:
    """The same configuration, and the same bits."""
    small = ["--limit", "44", "--epochs", "2", "--batch-size", "22", "--hidden", "8", "--probes", "knn", "--seed", "3"]
    first, second = tmp_path / "first", tmp_path / "second"
    assert main(["train", "infograph", "shapes", *small, "--out", str(first)]) == 0
    assert main(["train", "--config", str(first / RUN_FILE), "--out", str(second)]) == 0
    assert RunDirectory(first).config() == RunDirectory(second).config()
    assert (first / RUN_FILE).read_text() == (second / RUN_FILE).read_text()
    assert_same_bits(first, second)


@pytest.mark.slow
def test_a_comparison_takes_the_settings_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, as_toml(small_run("pucl")))
    options = ["--corrections", "raw", "--seeds", "1", "--no-page", "--out", str(tmp_path / "runs")]
    assert main(["compare", "--config", str(file), *options]) == 0
    assert "is read without correction and seed, which this command chooses" in capsys.readouterr().err
    found = RunDirectory(tmp_path / "runs" / "raw" / "seed-0").config()
    assert found == small_run("raw")
    file.write_text('framework = "infograph"\ndata = "shapes"\ncorrections = ["rw"]\n')
    assert main(["compare", "--config", str(file), "--out", str(tmp_path / "other")]) == 2
    assert "Did you mean 'raw'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('framework = "simclr"\ndata = "digits"\nencoder = "trap:make"', "names the encoder 'trap:make', code outside"),
        (
            'framework = "pairs"\ndata = "requests"\nencoder = "some/model"',
            "names the encoder 'some/model', a model to",
        ),
    ],
)
def test_a_file_names_no_code_and_fetches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    """Neither a file of one's own nor that of a stranger: both are only files."""
    (tmp_path / "trap.py").write_text("from pathlib import Path\nPath('sprung').touch()\ndef make(): ...\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    written(tmp_path, text)
    for command in ("train", "compare"):
        assert main([command, "--config", "run.toml"]) == 2
        err = capsys.readouterr().err
        assert message in err
        assert "name it yourself with --encoder" in err
    assert "trap" not in sys.modules
    assert not (tmp_path / "sprung").exists()
    assert main(["train", "--config", "run.toml", "--encoder", "trap:make"]) == 2  # Now the user has named it.
    assert (tmp_path / "sprung").exists() == ("simclr" in text)
    sys.modules.pop("trap", None)


def test_settings_of_corrections_have_names_of_their_own() -> None:
    """A file has both on one level."""
    fields = {each.name for _, kind in configurations() for each in read_settings(kind)}
    assert not fields & {name for correction in CORRECTIONS for name in settings_of(correction)}


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for missing in (tmp_path / "run.toml", tmp_path):
        assert main(["train", "--config", str(missing)]) == 2
        assert "expected settings as TOML, such as the run.toml of a run" in capsys.readouterr().err
