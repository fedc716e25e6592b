"""Hostile records: run directories and encoders made to do harm, through every command that reads them."""

import gzip
import json
import struct
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pucl
import pucl.cli
from faults.attempt import attempt
from faults.trial import PATIENCE, VICTIM, Kind, Outcome, Trial, Workspace, inside, judge
from faults.victims import collection, comparison, finished_run, half_run, table, train
from pucl.runs.collection import ENVIRONMENTS, METRICS, RUNS
from pucl.training.checkpoint import load_checkpoint, save_checkpoint

ENCODER = "encoder.safetensors"
SENTINEL = "faults_sentinel"
SCRIPT = "<script>alert(1)</script>"
FRAGMENTS = (
    *("[]", "{}", "null", "true", '""', '"x"', '[["a"]]', '{"alpha": []}', '{"a": {"b": null}}'),
    *("-1", "0", "0.5", "1e308", "1e400", "NaN", "-Infinity", "2147483648", "9" * 400, "9" * 5000),
    *("[" * 100_000, '{"a":' * 50_000, '"' + "x" * 100_000 + '"', '"\\ud800"', '"\\u0000"'),
    *(f'"{SENTINEL}:make"', '"../../../etc/passwd"', f'"{SCRIPT}"'),
)
"""JSON that replaces any value."""
WHOLE = (
    *(b"", b"{}", b"[]", b"null", b"1", b"NaN", b"\xff\xfe{}", b'{"a": 1, "a": 2}'),
    *(b"[" * 100_000, b'{"a":' * 100_000),
)
"""Bytes that replace a whole file."""
COMMANDS: dict[str, Callable[[str], list[str]]] = {
    "runs": lambda run: ["runs", run],
    "report": lambda run: ["report", run, "--out", "page.html", "--points=50", "--force"],
    "eval": lambda run: ["eval", run, "--probe=knn"],
    "embed": lambda run: ["embed", run, "shapes", "-o", "rows.npz", "--force"],
    "prior": lambda run: ["prior", run, "--anchors=32"],
    "train": lambda run: train("infograph", Path(run)),
}
READ_BY_PAGES = ("comparison.json", "table.json", RUNS, METRICS, ENVIRONMENTS)
"""Files of many runs, which only `pucl runs` and `pucl report` read."""
MARK = '"\\u0001 here \\u0001"'


def hostile_json(file: str, source: Callable[[Workspace], Path], trial: Trial) -> Outcome:
    """A record with one value that is something else, or a file that is something else altogether."""
    run = trial.copied(source(trial.workspace))
    path = next(run.rglob(file))
    if trial.rng.random() < 0.15:
        path.unlink()
        if trial.rng.random() < 0.8:
            path.write_bytes(trial.one_of(WHOLE))
        elif trial.rng.random() < 0.5:
            path.mkdir()
        what = "the whole file"
    else:
        unpack, pack = (gzip.decompress, gzip.compress) if file.endswith(".gz") else (bytes, bytes)
        what, text = _with_fragment(unpack(path.read_bytes()).decode(), trial)
        path.write_bytes(pack(text.encode()))
    command = trial.one_of(("runs", "report") if file in READ_BY_PAGES else sorted(COMMANDS))
    return _commanded(trial, command, f"{file}, {what}", [file, VICTIM])


def _with_fragment(text: str, trial: Trial) -> tuple[str, str]:
    """A record in which a fragment replaces one of the values, or a value is missing."""
    lines = text.splitlines() if text.count("\n{") else [text]
    number = int(trial.rng.integers(len(lines)))
    record = json.loads(lines[number])
    parent, key = trial.one_of(list(_positions(record)))
    if isinstance(parent, dict) and trial.rng.random() < 0.2:
        del parent[key]
        lines[number], what = json.dumps(record), f"without {key}"
    else:
        parent[key], fragment = json.loads(MARK), trial.one_of(FRAGMENTS)
        lines[number], what = json.dumps(record).replace(MARK, fragment), f"{key} is {fragment[:60]}"
    return what, "\n".join(lines) + "\n"


def _positions(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each value of a record, as its container and its key."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _positions(value[key])


def hostile_encoder(trial: Trial) -> Outcome:
    """An encoder's file whose note about itself is hostile, whose weights are of another shape, or not finite."""
    run = trial.copied(finished_run(trial.workspace, trial.one_of(("infograph", "simclr"))))
    path = run / ENCODER
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header, body = json.loads(content[8 : 8 + length]), content[8 + length :]
    way = trial.one_of(("note", "note", "note", "encoder", "shape", "nan"))
    if way == "note":
        what, header["__metadata__"]["pucl"] = _with_fragment(header["__metadata__"]["pucl"], trial)
    elif way == "encoder":
        what, note = f"its note names {SENTINEL}:make", json.loads(header["__metadata__"]["pucl"])
        note["config"]["encoder"] = f"{SENTINEL}:make"
        header["__metadata__"]["pucl"] = json.dumps(note)
        if trial.rng.random() < 0.5:
            config = json.loads((run / "config.json").read_text()) | {"encoder": f"{SENTINEL}:make"}
            (run / "config.json").write_text(json.dumps(config))
    elif way == "shape":
        entry = header[trial.one_of([name for name in header if name != "__metadata__"])]
        entry["shape"] = trial.one_of((entry["shape"][::-1], [*entry["shape"], 1], [1, *entry["shape"]]))
        what = f"a shape is {entry['shape']}"
    else:
        what, body = "its weights are NaN", b"\xff\xff\xff\x7f" * (len(body) // 4)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    command = trial.one_of(("eval", "embed", "prior", "load", "load a file", "report", "runs"))
    # Where the change left the encoder as it was, the data of another kind of run are what is refused.
    outcome = _commanded(trial, command, f"{ENCODER}, {what}", [ENCODER, "config.json", VICTIM, "shapes"])
    if way == "nan" and outcome.verdict == "accepted" and command not in ("report", "runs"):
        return Outcome("failed", f"{outcome.words}: weights that are not finite were used")
    return outcome


def hostile_checkpoint(trial: Trial) -> Outcome:
    """A checkpoint with one value replaced, in a valid file; the run is resumed from it."""
    run = trial.copied(half_run(trial.workspace, "infograph"))
    made = attempt(lambda: _spoil_checkpoint(run / "checkpoint.pt", trial))
    if made.how != "returned":
        raise RuntimeError(f"no hostile checkpoint could be made: {made.errors}")
    return _commanded(trial, "train", f"checkpoint.pt, {made.value}", ["checkpoint.pt", VICTIM])


def _spoil_checkpoint(path: Path, trial: Trial) -> str:
    import torch  # noqa: PLC0415 - in a process of its own.

    if trial.rng.random() < 0.15:
        content = trial.one_of(([], 1, "x", None, {}, {"format": 3}, torch.zeros(3), [{"format": 3}]))
        torch.save(content, path)
        return f"the whole file is {content!r}"[:200]
    state: Any = load_checkpoint(path)
    parent, key = trial.one_of(list(_positions(state)))
    if isinstance(parent, dict) and trial.rng.random() < 0.25:
        del parent[key]
        what = f"without {key}"
    else:
        numbers = (-1, 10**9, 10**30, 1.5, float("nan"), True)
        values: tuple[Any, ...] = (None, [], {}, "x", *numbers, torch.zeros(0), torch.zeros(2, 3), [[1]])
        parent[key] = trial.one_of(values)
        what = f"{key} is {parent[key]!r}"[:200]
    save_checkpoint(path, state)
    return what


def _commanded(trial: Trial, command: str, what: str, names: list[str]) -> Outcome:
    """Run a command beside a hostile directory, and look whether it ran what it should not."""
    code = f"from pathlib import Path\nPath({str(trial.directory / 'imported')!r}).touch()\ndef make(**_): ...\n"
    (trial.directory / f"{SENTINEL}.py").write_text(code)

    def work() -> int:
        sys.path.insert(0, str(trial.directory))
        with inside(trial.directory):
            if command.startswith("load"):
                try:
                    pucl.load(f"{VICTIM}/{ENCODER}" if "file" in command else VICTIM)
                except ValueError as error:  # As the commands report it.
                    print(error, file=sys.stderr)
                    return 2
                return 0
            return pucl.cli.main(COMMANDS[command](VICTIM))

    outcome = judge(attempt(work, PATIENCE), names)
    page = trial.directory / "page.html"
    if (trial.directory / "imported").exists():
        return Outcome("failed", f"{command}; {what}: a module that a file named was imported")
    if page.exists() and SCRIPT in page.read_text():
        return Outcome("failed", f"{command}; {what}: the page has a script of the record's")
    return Outcome(outcome.verdict, f"{command}; {what}: {outcome.words}")


def _infograph(workspace: Workspace) -> Path:
    return finished_run(workspace, "infograph")


def _half(workspace: Workspace) -> Path:
    return half_run(workspace, "infograph")


VALUES = "with hostile values"
JSON = (
    *(
        (file.partition(".")[0], file, _infograph, VALUES)
        for file in ("config.json", "result.json", "environment.json")
    ),
    ("metrics", "metrics.jsonl", _infograph, VALUES),
    ("resume", "metrics.jsonl", _half, "of an unfinished run, with hostile values"),
    ("comparison", "comparison.json", comparison, VALUES),
    ("table", "table.json", table, VALUES),
    ("collected-runs", RUNS, collection, VALUES),
    ("collected-metrics", METRICS, collection, VALUES),
    ("collected-environments", ENVIRONMENTS, collection, VALUES),
)
KINDS = (
    *(
        Kind(f"record-{name}", "hostile records", f"`{file}` {what}", partial(hostile_json, file, source), 1.5)
        for name, file, source, what in JSON
    ),
    Kind("record-encoder", "hostile records", f"`{ENCODER}` with a hostile note, shapes, NaN", hostile_encoder, 2),
    Kind("record-checkpoint", "hostile records", "`checkpoint.pt` with hostile values", hostile_checkpoint, 3),
)
