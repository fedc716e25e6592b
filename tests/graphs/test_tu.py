"""Graphs from TU text files: what is read, every error with its file and line, the binary copy, and the real sets."""

import errno
import io
import json
import os
import tarfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pucl.data.errors import DataError
from pucl.data.root import DataMissingError
from pucl.graphs import cache as graph_cache
from pucl.graphs.features import MOST_COLUMNS, MOST_DEGREES, NodeFeatures
from pucl.graphs.graphset import GraphSet
from pucl.graphs.registry import load_graphs
from pucl.graphs.sources.tu import read_tu
from tu_files import PARTS, write_tu

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "tu_graphs.tar.xz"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def degree_text(neighbours: int) -> dict[str, str | None]:
    """One graph: a star."""
    lines = [f"1, {node}\n{node}, 1\n" for node in range(2, neighbours + 2)]
    return {
        "A": "".join(lines),
        "graph_indicator": "1\n" * (neighbours + 1),
        "graph_labels": "0\n",
        "node_labels": None,
        "node_attributes": None,
    }


def test_what_is_read(tmp_path: Path, root: Path) -> None:
    graphs = load_graphs(write_tu(tmp_path / "any"), root=root)
    assert (graphs.name, len(graphs), graphs.nodes) == ("TINY", 3, 8)
    assert graphs.node_start.tolist() == [0, 3, 6, 8]
    assert graphs.edge_start.tolist() == [0, 6, 10, 12]
    assert graphs.edges.tolist() == [[0, 0, 1, 1, 2, 2, 0, 1, 1, 2, 0, 1], [1, 2, 0, 2, 0, 1, 1, 0, 2, 1, 1, 0]]
    assert graphs.labels is not None
    assert graphs.labels.tolist() == [1, 0, 1]
    assert graphs.classes == ("-1", "1")
    assert graphs.notes == ()
    # Labels 3..8 have six columns, of which three are in use; the attributes are there and not taken.
    assert graphs.feature_count == 6
    assert graphs.batch([0]).x.tolist() == [[0, 0, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]]
    assert graphs.batch([1]).x[1].tolist() == [0, 0, 0, 0, 0, 1]


def test_the_order_of_lines_is_of_no_account(tmp_path: Path, root: Path) -> None:
    lines = PARTS["A"].splitlines(keepends=True)
    other = load_graphs(write_tu(tmp_path / "b", A="".join(reversed(lines))), root=root)
    assert np.array_equal(other.edges, load_graphs(write_tu(tmp_path / "a"), root=root).edges)


def test_nodes_of_a_graph_need_not_follow_each_other(tmp_path: Path, root: Path) -> None:
    parts = {"A": "1, 3\n3, 1\n2, 4\n", "graph_indicator": "2\n1\n2\n1\n", "graph_labels": "7\n9\n"}
    write_tu(tmp_path, node_labels="0\n1\n2\n3\n", node_attributes=None, **parts)
    graphs = load_graphs(tmp_path, root=root)
    assert graphs.kinds[:, 0].tolist() == [1, 3, 0, 2]
    assert graphs.edges.tolist() == [[0, 0, 1], [1, 1, 0]]
    assert graphs.edge_start.tolist() == [0, 1, 3]
    assert graphs.notes == ("1 of 3 edges have no reverse edge, and are read as they are",)


def test_loops_repeats_and_unused_files_are_noted(tmp_path: Path, root: Path) -> None:
    write_tu(tmp_path, A=PARTS["A"] + "1, 1\n1, 2\n1, 2\n", edge_labels="1\n", graph_labels=None)
    graphs = load_graphs(tmp_path, root=root)
    assert graphs.edge_start.tolist() == [0, 6, 10, 12]
    assert graphs.labels is None
    assert graphs.notes == (
        "1 edges from a node to itself were skipped",
        "2 repeated edges were skipped",
        "edge labels are not used",
        "graphs have no labels, since there is no TINY_graph_labels.txt",
    )


def test_line_ends_and_spaces(tmp_path: Path, root: Path) -> None:
    texts = {part: text.replace("\n", "\r\n").replace(", ", " ,") for part, text in PARTS.items()}
    graphs = load_graphs(
        write_tu(tmp_path / "w", **{**texts, "graph_indicator": "1\n1\n1\n2\n2\n2\n3\n3\n\n\n"}), root=root
    )
    assert np.array_equal(graphs.edges, load_graphs(write_tu(tmp_path / "u"), root=root).edges)


@pytest.mark.parametrize(
    ("choice", "row"),
    [
        ("labels", [0, 0, 1, 0, 0, 0]),
        ("attributes", [0.5, 1]),
        ("labels+attributes", [0.5, 1, 0, 0, 1, 0, 0, 0]),  # As torch_geometric has them: attributes first.
        ("degree", [0, 0, 1]),
        ("ones", [1]),
    ],
)
def test_features(tmp_path: Path, root: Path, choice: str, row: list[float]) -> None:
    graphs = load_graphs(write_tu(tmp_path), root=root, features=choice)
    assert graphs.batch([0]).x[0].tolist() == row
    assert graphs.features is not None
    assert NodeFeatures.from_record(json.loads(json.dumps(asdict(graphs.features)))) == graphs.features


def test_default_features(tmp_path: Path, root: Path) -> None:
    without = load_graphs(write_tu(tmp_path / "a", node_labels=None), root=root)
    assert without.batch([0]).x[0].tolist() == [0.5, 1]
    neither = load_graphs(write_tu(tmp_path / "b", node_labels=None, node_attributes=None), root=root)
    assert neither.batch([1]).x.argmax(1).tolist() == [1, 2, 1]


def test_several_labels_for_a_node(tmp_path: Path, root: Path) -> None:
    two = "1, 7\n2, 7\n1, 9\n" + "1, 7\n" * 5
    assert load_graphs(write_tu(tmp_path, node_labels=two), root=root).batch([0]).x.tolist() == [
        [1, 0, 1, 0, 0],
        [0, 1, 1, 0, 0],
        [1, 0, 0, 0, 1],
    ]


def test_many_neighbours_are_one_number(tmp_path: Path, root: Path) -> None:
    below = load_graphs(write_tu(tmp_path / "a", **degree_text(MOST_DEGREES - 1)), root=root)
    assert below.feature_count == MOST_DEGREES
    x = load_graphs(write_tu(tmp_path / "b", **degree_text(MOST_DEGREES)), root=root).batch([0]).x
    assert x.shape == (MOST_DEGREES + 1, 1)
    assert x.mean() == pytest.approx(0, abs=1e-4)
    assert x.std() == pytest.approx(1, abs=1e-4)
    assert x[0] > 30
    assert x[1] < 0


def test_the_columns_of_another_set(tmp_path: Path, root: Path) -> None:
    trained = load_graphs(write_tu(tmp_path / "a"), root=root, features="degree")
    star = write_tu(tmp_path / "b", **degree_text(9))
    assert trained.features is not None
    later = load_graphs(star, root=root, features=trained.features)
    assert later.feature_count == trained.feature_count == 3
    assert later.batch([0]).x.argmax(1).tolist() == [2] + [1] * 9  # Nine neighbours count as the most that are known.

    labels = load_graphs(tmp_path / "a", root=root).features
    attributes = load_graphs(tmp_path / "a", root=root, features="attributes").features
    assert labels is not None
    assert attributes is not None
    with pytest.raises(DataError, match="TINY: expected 1 labels for each node, got 0"):
        load_graphs(star, root=root, features=labels)
    with pytest.raises(DataError, match="TINY: expected 2 attributes for each node, got 0"):
        load_graphs(star, root=root, features=attributes)
    other = write_tu(tmp_path / "c", node_labels="9\n" * 8)
    with pytest.raises(DataError, match="node labels have a column each: expected 3..8, got 9..9"):
        load_graphs(other, root=root, features=labels)


def test_features_that_cannot_be(tmp_path: Path, root: Path) -> None:
    write_tu(tmp_path, node_attributes=None)
    with pytest.raises(ValueError, match="expected one of default, labels, .*, got 'colour'"):
        load_graphs(tmp_path, root=root, features="colour")
    with pytest.raises(DataError, match="TINY has no node attributes: features can be labels, degree, ones, not attr"):
        load_graphs(tmp_path, root=root, features="attributes")
    write_tu(tmp_path / "b", node_labels=None)
    with pytest.raises(
        DataError, match="TINY has no node labels: features can be attributes, degree, ones, not labels"
    ):
        load_graphs(tmp_path / "b", root=root, features="labels")
    write_tu(tmp_path / "c", node_labels="1\n" * 7 + f"{MOST_COLUMNS + 1}\n")
    with pytest.raises(DataError, match="expected at most 100,000 columns, got 100,001"):
        load_graphs(tmp_path / "c", root=root)
    write_tu(tmp_path / "d", node_labels="-9223372036854775808\n" * 7 + "9223372036854775807\n")
    with pytest.raises(DataError, match="expected at most 100,000 columns, got 18,446,744,073,709,551,616"):
        load_graphs(tmp_path / "d", root=root)


@pytest.mark.parametrize(
    ("part", "text", "message"),
    [
        ("A", None, "TINY_A.txt is missing; a set of graphs has it beside TINY_graph_indicator.txt"),
        ("graph_indicator", None, "TINY_graph_indicator.txt is missing; a set of graphs has it beside TINY_A.txt"),
        ("A", "", "TINY_A.txt is empty"),
        ("A", " \n\n", "TINY_A.txt is empty"),
        ("graph_labels", "", "TINY_graph_labels.txt is empty"),
        ("A", "1, 2\n2, x\n", "TINY_A.txt, line 2: expected 2 whole numbers separated by commas, got '2, x'"),
        ("A", "1, 2\n2, 1\n3, ", "TINY_A.txt, line 3: expected 2 whole numbers separated by commas, got '3,'"),
        ("A", "1, 2\n\n2, 1\n", "TINY_A.txt, line 2: expected 2 .*, got an empty line"),
        ("A", "1\n2\n", "TINY_A.txt, line 1: expected 2 .*, got '1'"),
        ("A", "1, 2\n2, 1, 3\n", "TINY_A.txt, line 2: expected 2 .*, got '2, 1, 3'"),
        ("A", "1, 2\n2, 99999999999999999999\n", "TINY_A.txt, line 2: expected 2 .*, got '2, 9999"),
        ("A", "1 2\n" + "2 1\n", "TINY_A.txt, line 1: expected 2 .*, got '1 2'"),
        ("A", "1, " + "9" * 80 + "\n", f"TINY_A.txt, line 1: expected 2 .*, got '1, {'9' * 37}...'"),
        ("A", "1, 2\r2, 1\r", r"TINY_A.txt, line 1: expected 2 .*, got '1, 2\\r2, 1'"),
        ("A", "1, 2\n2, 9\n", "TINY_A.txt, line 2: node ids are 1..8, the lines of TINY_graph_indicator.txt; got 2, 9"),
        ("A", "0, 1\n", "TINY_A.txt, line 1: node ids are 1..8, .*; got 0, 1"),
        ("A", "1, 2\n2, 1\n3, 4\n", "line 3: an edge joins nodes of one graph; node 3 is of graph 1, node 4 of 2"),
        (
            "graph_indicator",
            "1\n1\n1\n2\n2\n2\n3\n4\n",
            "TINY_graph_indicator.txt, line 8: graph ids are 1..3, since TINY_graph_labels.txt has 3 graphs; got 4",
        ),
        (
            "graph_indicator",
            "0\n1\n1\n2\n2\n2\n3\n3\n",
            "TINY_graph_indicator.txt, line 1: graph ids are 1..3, .*; got 0",
        ),
        (
            "graph_indicator",
            "1\n1\n1\n2\n2\n2\n3\n3.5\n",
            "graph_indicator.txt, line 8: expected a whole number, got '3.5'",
        ),
        (
            "graph_indicator",
            "1\n1\n1\n2\n2\n2\n",
            "TINY_graph_labels.txt, line 3: graph 3 has no node in TINY_graph_indicator.txt; it ends after line 6",
        ),
        (
            "graph_labels",
            "1\n-1\n",
            "TINY_graph_indicator.txt, line 7: graph ids are 1..2, since .* has 2 graphs; got 3",
        ),
        (
            "graph_labels",
            "1\n-1\n1\n1\n1\n",
            "TINY_graph_labels.txt, line 4: graph 4 has no node .*, nor have 1 others",
        ),
        ("graph_labels", "1\ncat\n1\n", "TINY_graph_labels.txt, line 2: expected a whole number, got 'cat'"),
        ("graph_labels", "1, 1\n-1, 1\n1, 1\n", "TINY_graph_labels.txt, line 1: expected a whole number, got '1, 1'"),
        (
            "node_labels",
            "1\n" * 6,
            "TINY_node_labels.txt ends after line 6: expected a line for each of the 8 nodes in TINY_graph.*, got 6",
        ),
        ("node_labels", "1\n" * 9, "TINY_node_labels.txt goes on at line 9: expected a line for each of the 8 nodes"),
        ("node_labels", "1\n" * 7 + "é\n", "TINY_node_labels.txt, line 8: expected a whole number"),
        ("node_labels", "1\n" * 7 + "\0\0\n", "TINY_node_labels.txt, line 8: expected a whole number"),
        ("node_attributes", "1, 2\n" * 7 + "1\n", "node_attributes.txt, line 8: expected 2 finite numbers .*, got '1'"),
        ("node_attributes", "1, 2\n" * 7 + "1, nan\n", "node_attributes.txt, line 8: expected 2 finite numbers"),
        ("node_attributes", "1, inf\n" * 8, "node_attributes.txt, line 1: expected 2 finite numbers"),
        ("node_attributes", "1, 2\n" * 7 + "1, 1e39\n", r"attributes.txt, line 8: expected numbers up to 3.4e\+38"),
        ("node_attributes", "1.5\n" * 5, "TINY_node_attributes.txt ends after line 5"),
    ],
)
def test_broken_files(tmp_path: Path, root: Path, part: str, text: str | None, message: str) -> None:
    """Each error names file and line, and leaves no binary copy."""
    write_tu(tmp_path / "set", **{part: text})
    with pytest.raises(DataError, match=message):
        load_graphs(tmp_path / "set", root=root)
    assert not (root / "arrays").exists()


def test_text_that_numpy_refuses_for_reasons_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise ValueError("no")

    monkeypatch.setattr(np, "loadtxt", refuse)
    with pytest.raises(
        DataError, match="TINY_A.txt: expected lines of 2 whole numbers separated by commas, each with a line ending"
    ):
        read_tu(write_tu(tmp_path), "TINY")


def test_graph_ids_without_labels(tmp_path: Path, root: Path) -> None:
    write_tu(tmp_path / "a", graph_labels=None, graph_indicator="1\n1\n1\n2\n2\n2\n4\n4\n")
    with pytest.raises(DataError, match="TINY_graph_indicator.txt: graph 3 has no node in TINY_graph_indicator.txt"):
        load_graphs(tmp_path / "a", root=root)
    write_tu(tmp_path / "b", graph_labels=None, graph_indicator="1\n1\n1\n2\n2\n2\n3\n99999999999\n")
    with pytest.raises(
        DataError, match="line 8: graph ids are 1..8, since there are nodes for at most 8 graphs; got 99"
    ):
        load_graphs(tmp_path / "b", root=root)


def test_a_disk_that_refuses(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    write_tu(tmp_path)
    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(DataError, match="TINY_A.txt cannot be read: Input/output error"):
        load_graphs(tmp_path, root=root)


def test_paths_that_are_no_set(tmp_path: Path, root: Path) -> None:
    for missing in (tmp_path / "nowhere", str(tmp_path / "nowhere")):
        with pytest.raises(DataMissingError, match="there is no directory .*nowhere"):
            load_graphs(missing, root=root)
    with pytest.raises(DataError, match="holds no set of graphs: expected NAME_A.txt .*, got nothing"):
        load_graphs(tmp_path, root=root)
    for number in range(5):
        (tmp_path / f"{number}.csv").write_text("1")
    with pytest.raises(DataError, match="holds no set of graphs: .* got 0.csv, 1.csv, 2.csv and 2 more"):
        load_graphs(tmp_path, root=root)
    with pytest.raises(DataError, match="a set of graphs is a directory with .*, got the file .*0.csv"):
        load_graphs(tmp_path / "0.csv", root=root)
    write_tu(tmp_path, "B")
    write_tu(tmp_path, "A")
    with pytest.raises(DataError, match="holds several sets of graphs, A, B: give each its own directory"):
        load_graphs(tmp_path, root=root)


def test_names(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        DataMissingError, match="no set of graphs 'ENZYME'. Did you mean 'ENZYMES'. Known are shapes, PTC_MR"
    ):
        load_graphs("ENZYME", root=root)
    with pytest.raises(
        DataMissingError, match="no set of graphs 'qqq'. Known are .*, and there is no directory of that"
    ):
        load_graphs("qqq", root=root)
    with pytest.raises(DataMissingError, match="PTC_MR is not in .*root: `pucl data get PTC_MR` fetches it"):
        load_graphs("ptc", root=root)
    write_tu(root / "MUTAG", "MUTAG")
    with pytest.raises(DataError, match="does not hold MUTAG as published: expected 188 graphs .*, got 3 of 2 with"):
        load_graphs("mutag", root=root)
    write_tu(root / "KKI" / "raw", "KKI")  # Of this one only the form is known.
    assert load_graphs("kki", root=root).name == "KKI"
    (root / "KKI" / "raw" / "KKI_graph_labels.txt").unlink()
    with pytest.raises(DataMissingError, match="KKI is not in .* (.*raw is there without KKI_graph_labels.txt)"):
        load_graphs("KKI", root=root)
    write_tu(tmp_path / "mine")
    assert load_graphs("mine", root=root).name == "TINY"


def same(one: GraphSet, other: GraphSet) -> bool:
    fields = ("node_start", "edge_start", "edges", "values", "kinds", "labels")
    arrays = all(np.array_equal(getattr(one, field), getattr(other, field)) for field in fields)
    return arrays and (one.classes, one.widths, one.notes) == (other.classes, other.widths, other.notes)


def entries(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "arrays").iterdir())


def test_the_text_is_read_once(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tu(tmp_path / "set", edge_labels="1\n")
    first = {choice: load_graphs(tmp_path / "set", root=root, features=choice) for choice in ("default", "attributes")}

    def fail(*_: Any) -> None:
        raise AssertionError("the text was read again")

    monkeypatch.setattr(graph_cache, "read_tu", fail)
    for choice, graphs in first.items():
        assert same(load_graphs(tmp_path / "set", root=root, features=choice), graphs)


@pytest.mark.parametrize("change", ["edit", "touch", "add", "remove"])
def test_a_changed_file_is_read_again(tmp_path: Path, root: Path, change: str) -> None:
    write_tu(tmp_path / "set", node_attributes=None)
    load_graphs(tmp_path / "set", root=root)
    (kept,) = entries(root)
    before = (root / "arrays" / kept).read_bytes()
    if change == "edit":
        write_tu(tmp_path / "set", graph_labels="1\n1\n2\n", node_attributes=None)
        assert load_graphs(tmp_path / "set", root=root).classes == ("1", "2")
    elif change == "touch":
        os.utime(tmp_path / "set" / "TINY_A.txt", ns=(1, 1))
        load_graphs(tmp_path / "set", root=root)
    elif change == "add":
        write_tu(tmp_path / "set")
        assert load_graphs(tmp_path / "set", root=root, features="attributes").feature_count == 2
    else:
        (tmp_path / "set" / "TINY_node_labels.txt").unlink()
        assert load_graphs(tmp_path / "set", root=root).feature_count == 3  # Degrees.
    assert entries(root) == [kept]
    assert (root / "arrays" / kept).read_bytes() != before


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda _: b"PK\3\4 no archive",
        lambda whole: whole[:-400],
        lambda whole: with_array(whole, "node_labels", np.zeros(3)),
        lambda whole: with_array(whole, "node_attributes", np.array("text")),
        lambda whole: with_array(whole, "node_start", np.zeros((2, 2))),
        lambda whole: with_array(whole, "about", np.frombuffer(b"[" * 100_000, np.uint8)),
        lambda whole: with_array(whole, "about", np.frombuffer(b"7", np.uint8)),
    ],
)
def test_a_damaged_copy_is_replaced(tmp_path: Path, root: Path, damage: Callable[[bytes], bytes]) -> None:
    graphs = load_graphs(write_tu(tmp_path / "set"), root=root)
    (entry,) = (root / "arrays").iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    assert same(load_graphs(tmp_path / "set", root=root), graphs)
    assert entry.read_bytes() == whole


def with_array(whole: bytes, name: str, array: NDArray[Any]) -> bytes:
    """A copy in which one array is another."""
    content = io.BytesIO()
    with np.load(io.BytesIO(whole)) as kept:
        np.savez(content, **(dict(kept) | {name: array}))
    return content.getvalue()


def test_copies_of_an_older_form_are_not_taken(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_graphs(write_tu(tmp_path / "set"), root=root)
    (entry,) = (root / "arrays").iterdir()
    before = entry.read_bytes()
    monkeypatch.setattr(graph_cache, "FORMAT", graph_cache.FORMAT + 1)
    load_graphs(tmp_path / "set", root=root)
    assert entry.read_bytes() != before


def test_an_interrupted_write_leaves_nothing(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    write_tu(tmp_path / "set")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            load_graphs(tmp_path / "set", root=root)
    assert entries(root) == []
    load_graphs(tmp_path / "set", root=root)
    assert len(entries(root)) == 1


def test_a_full_disk_is_noted(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    graphs = load_graphs(write_tu(tmp_path / "set"), root=root)
    assert len(graphs) == 3
    assert graphs.notes[0].startswith("no binary copy could be kept in")
    assert "the disk is full" in graphs.notes[0]
    assert entries(root) == []


def test_files_that_change_while_they_are_read_are_not_kept(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(directory: Path, name: str) -> Any:
        graphs = read_tu(directory, name)
        write_tu(directory, graph_labels="1\n1\n22\n")
        return graphs

    write_tu(tmp_path / "set")
    with monkeypatch.context() as patch:
        patch.setattr(graph_cache, "read_tu", slow)
        assert load_graphs(tmp_path / "set", root=root).classes == ("-1", "1")
    assert load_graphs(tmp_path / "set", root=root).classes == ("1", "22")


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not SHARED.exists():
        pytest.skip("the real sets of graphs are not beside this checkout")
    root = tmp_path_factory.mktemp("graphs")
    with tarfile.open(SHARED) as archive:
        archive.extractall(root, filter="data")
    return root


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sizes", "nodes", "edges", "columns", "in_use"),
    [
        ("PTC", [192, 152], 4_915, 5_054, 18, 18),
        ("enzymes", [100] * 6, 19_580, 37_282, 3, 3),
        ("DD", [691, 487], 334_925, 843_046, 89, 82),
        ("REDDIT-BINARY", [1000, 1000], 859_254, 995_508, 1, 1),
    ],
)
def test_real_sets(real: Path, name: str, sizes: list[int], nodes: int, edges: int, columns: int, in_use: int) -> None:
    read = load_graphs(name, root=real)
    again = load_graphs(name, root=real)
    assert same(read, again)
    for graphs in (read, again):
        assert graphs.labels is not None
        assert np.bincount(graphs.labels).tolist() == sizes
        assert graphs.nodes == nodes
        assert graphs.edges.shape[1] == 2 * edges
        assert graphs.feature_count == columns
        assert sum(len(np.unique(column)) for column in graphs.kinds.T) + graphs.values.shape[1] == in_use
    assert read.batch(range(len(read))).edge_index.shape == (2, 2 * edges)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "attributes"), [("PTC_MR", False), ("ENZYMES", False), ("ENZYMES", True)])
def test_real_sets_as_torch_geometric_reads_them(real: Path, name: str, attributes: bool) -> None:
    torch_geometric = pytest.importorskip("torch_geometric.io")
    data, slices, sizes = torch_geometric.read_tu_data(str(real / name / "raw"), name)
    ours = load_graphs(name, root=real, features="labels+attributes" if attributes else "default")
    every = ours.batch(range(len(ours)))
    assert every.x.equal(data.x if attributes else data.x[:, sizes["num_node_attributes"] :])
    assert ours.node_start.tolist() == slices["x"].tolist()
    assert ours.edge_start.tolist() == slices["edge_index"].tolist()
    assert np.array_equal(ours.edges, data.edge_index.numpy())
    assert ours.labels is not None
    assert ours.labels.tolist() == data.y.tolist()
