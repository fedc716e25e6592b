"""Data sets are found by name and path, and what is not found is said helpfully."""

from pathlib import Path

import pytest

from pucl.data.errors import DataError
from pucl.data.root import DataMissingError, data_root
from pucl.images.registry import SOURCES, load


def test_where_data_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PUCL_DATA", raising=False)
    assert data_root() == Path.home() / ".cache" / "pucl"
    monkeypatch.setenv("PUCL_DATA", str(tmp_path / "variable"))
    assert data_root() == tmp_path / "variable"
    assert data_root(tmp_path / "given") == tmp_path / "given"


@pytest.mark.parametrize("name", [name for name, source in SOURCES.items() if source.forms])
def test_a_set_that_is_not_there(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataMissingError, match=f"{name} is not in {tmp_path}: `pucl data get {name}` fetches it"):
        load(name, root=tmp_path)


def test_unknown_names(tmp_path: Path) -> None:
    with pytest.raises(
        DataMissingError, match="no data set 'cifr10'. Did you mean 'cifar10'.*Known are digits, cifar10"
    ):
        load("cifr10", root=tmp_path)
    with pytest.raises(DataMissingError, match="no data set 'CIFAR100'. Did you mean 'cifar100'"):
        load("CIFAR100", root=tmp_path)
    with pytest.raises(DataMissingError, match="no data set 'zzz'. Known are"):
        load("zzz", root=tmp_path)


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    for missing in (tmp_path / "nowhere", str(tmp_path / "nowhere"), "nowhere.npz"):
        with pytest.raises(DataMissingError, match="there is no folder or file .*nowhere"):
            load(missing, root=tmp_path)
    (tmp_path / "data.csv").write_text("1,2")
    with pytest.raises(DataError, match="data.csv cannot be read: expected a folder of pictures or a .npz file"):
        load(tmp_path / "data.csv", root=tmp_path)


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_has_a_directory_of_its_own(name: str) -> None:
    """New files are renamed to a directory of that name, so the first directory of a form must be inside it."""
    for form in SOURCES[name].forms:
        assert form.directories[0].split("/")[0] == name


def test_a_path_is_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(load("digits").pretrain) > 1000
    with pytest.raises(DataMissingError, match="there is no folder or file digits"):
        load(Path("./digits"))
