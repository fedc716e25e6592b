"""Files that appear whole or not at all."""

import json
from pathlib import Path

import pytest

from pucl.files import write_json, write_whole


def test_a_record_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    out = tmp_path / "record.json"
    record: dict[str, object] = {
        "text": "a [\n line",
        "numbers": [1, 2.5, None],
        "rows": [{"empty": [], "words": ["x  y", "["]}],
    }
    write_json(out, record)
    assert json.loads(out.read_text()) == record
    assert '"numbers": [ 1, 2.5, null ]' in out.read_text()
    with pytest.raises(TypeError):
        write_json(out, {("no", "key"): 1})  # type: ignore[dict-item]
    assert json.loads(out.read_text()) == record
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "result"
    write_whole(path, b"old")

    def full_disk(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
