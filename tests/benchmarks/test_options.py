"""Settings become options, and options become the same settings."""

import argparse
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.__main__ import SUBJECTS
from benchmarks.options import add_options, command_line, option, read_options


@dataclass(frozen=True, kw_only=True)
class Settings:
    sizes: tuple[int, ...] = option((1, 2), "which sizes")
    names: tuple[str, ...] = option(("a",), "which names")
    share: float = option(0.5, "what share")
    limit: int | None = option(None, "how many (default: all)")
    root: Path | None = option(None, "where (default: here)")
    cores: int = option(lambda: 3, "how many cores")
    kind: str = option("plain", "which kind")
    memory: bool = option(True, "measure memory")


def read(words: list[str]) -> Settings:
    parser = argparse.ArgumentParser()
    add_options(parser, Settings)
    return read_options(Settings, parser.parse_args(words))


GIVEN = Settings(sizes=(7,), names=("b", "c"), share=0.25, limit=3, root=Path("x"), cores=1, kind="new", memory=False)


def test_options_default_to_the_settings() -> None:
    assert read([]) == Settings()


@pytest.mark.parametrize("settings", [Settings(), GIVEN])
def test_command_line_repeats_the_settings(settings: Settings) -> None:
    words = shlex.split(command_line("loss", settings, Path("figures.json")))
    assert words[:4] == ["python", "-m", "benchmarks", "loss"]
    assert words[-1] == "--out=figures.json"
    assert read(words[4:-1]) == settings


def test_help_names_meaning_and_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    for words in ("which sizes (default: 1,2)", "how many (default: all)", "(default: 3)", "memory (default: yes)"):
        assert words in text


@pytest.mark.parametrize("name", SUBJECTS)
def test_every_benchmark_has_options_that_repeat_its_defaults(name: str) -> None:
    subject = SUBJECTS[name]
    parser = argparse.ArgumentParser()
    subject.add_arguments(parser)
    settings = subject.settings()
    words = shlex.split(command_line(name, settings, Path("figures.json")))[4:]
    assert read_options(subject.settings, parser.parse_args(words)) == settings
