"""What a project is expected to have: packages that install, and files for GitHub and for citing that hold together."""

import os
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import pucl

ROOT = Path(__file__).resolve().parents[1]
YAML = [ROOT / "CITATION.cff", ROOT / ".pre-commit-config.yaml", *sorted((ROOT / ".github").rglob("*.yml"))]


def read(path: Path) -> dict[Any, Any]:
    content: dict[Any, Any] = yaml.safe_load(path.read_text())
    return content


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_yaml_can_be_read(path: Path) -> None:
    assert isinstance(read(path), dict)


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.name)
def test_workflows_have_jobs_and_few_rights(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert True in workflow, "`on` says when it runs; YAML reads the word as True"
    for job in workflow["jobs"].values():
        assert job["steps"]
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            words = step.get("run", "").split()
            if words[:1] == ["make"]:
                assert f"\n{words[1]}:" in (ROOT / "Makefile").read_text()
            elif words[:1] == [".ci/run"]:
                assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_hooks_call_our_own_tools() -> None:
    hooks = [hook for repository in read(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repository["hooks"]]
    assert {hook["language"] for hook in hooks} == {"system"}, "tools are those of constraints.txt"


def test_templates_ask_for_something() -> None:
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        if path.stem != "config":
            template = read(path)
            assert template["name"]
            assert any(part.get("validations", {}).get("required") for part in template["body"])


def test_version_is_the_same_everywhere() -> None:
    assert read(ROOT / "CITATION.cff")["version"] == pucl.__version__
    assert f"to {pucl.__version__.removesuffix('.0')}" in (ROOT / "docs" / "upgrading.md").read_text()


NOT_IN_ALL = {
    "timm": "imports torchvision, which has no build for every build of torch",
    "mlflow": "the tests use mlflow-skinny, a tenth of its size",
    "trackio": "needs an older pillow than the other extras",
}
"""Extras that are installed by name alone, and why."""


def test_extras_are_part_of_all_and_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    names = {name for each in extras["all"] for name in each.removeprefix("pucl[").removesuffix("]").split(",")}
    assert names == extras.keys() - {"all", *NOT_IN_ALL}
    pinned = {
        _plain(line.split("==")[0]) for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
    }
    wanted = {_plain(_name(each)) for name, extra in extras.items() if name in names for each in extra}
    assert wanted <= pinned


def _name(requirement: str) -> str:
    return "".join(
        character if character.isalnum() or character in "-_." else " " for character in requirement
    ).split()[0]


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a wheel and a source archive of this tree."""
    pytest.importorskip("hatchling")
    target = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(target)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)  # noqa: S603
    return target


def outside(program: Path, *words: str, cwd: Path) -> str:
    """Run a program of another environment, away from this repository, and return what it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(  # noqa: S603
        [program, *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
class TestBuilt:
    def test_wheel_holds_the_package_alone(self, built: Path) -> None:
        (wheel,) = built.glob("*.whl")
        assert wheel.name == f"pucl-{pucl.__version__}-py3-none-any.whl"
        with zipfile.ZipFile(wheel) as archive:
            inside = {name for name in archive.namelist() if ".dist-info/" not in name}
            (about,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
            metadata = message_from_bytes(archive.read(about))
        source = ROOT / "src"
        files = [path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        assert inside == {str(path.relative_to(source)) for path in files if ".egg-info" not in str(path)}
        assert {"pucl/py.typed", "pucl/reports/page/page.js"} <= inside
        needed = [each for each in metadata.get_all("Requires-Dist", []) if "extra ==" not in each]
        assert sorted(_name(each) for each in needed) == ["numpy", "torch"]

    def test_source_archive_is_enough_to_build_the_wheel(self, built: Path, tmp_path: Path) -> None:
        (archive,) = built.glob("*.tar.gz")
        with tarfile.open(archive) as opened:
            opened.extractall(tmp_path, filter="data")
        (folder,) = tmp_path.iterdir()
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)  # noqa: S603
        (again,), (wheel,) = tmp_path.glob("*.whl"), built.glob("*.whl")
        assert again.read_bytes() == wheel.read_bytes()

    def test_installs_into_an_empty_environment(self, built: Path, tmp_path: Path) -> None:
        """Packages of this environment are borrowed: torch takes minutes to install. pucl is that of the wheel."""
        place, elsewhere = tmp_path / "environment", tmp_path / "elsewhere"
        elsewhere.mkdir()
        venv.create(place, with_pip=False)
        (wheel,) = built.glob("*.whl")
        python = place / "bin" / "python"
        install = ["-m", "pip", "--python", str(python), "install", "--quiet", "--no-index", "--no-deps", str(wheel)]
        outside(Path(sys.executable), *install, cwd=elsewhere)
        (packages,) = place.glob("lib/python*/site-packages")
        (packages / "borrowed.pth").write_text(f"{Path(torch.__file__).parents[1]}\n")
        command = place / "bin" / "pucl"
        assert outside(command, "--version", cwd=elsewhere) == f"pucl {pucl.__version__}\n"
        assert "usage: pucl" in outside(command, "--help", cwd=elsewhere)
        program = "import pucl, torch; print(pucl.__file__, float(pucl.PUCLLoss()(*torch.randn(2, 8, 4))) > 0)"
        printed = outside(python, "-c", program, cwd=elsewhere)
        assert printed == f"{packages / 'pucl' / '__init__.py'} True\n"
