"""Load a set of graphs by its name or path."""

from pathlib import Path

from pucl.data.errors import DataError
from pucl.data.root import DataMissingError, data_root
from pucl.graphs.cache import read_cached
from pucl.graphs.features import NodeFeatures, PlainGraphs, with_features
from pucl.graphs.graphset import GraphSet
from pucl.graphs.sources.tu import find_tu
from pucl.graphs.sources.tu_collection import COLLECTION, known_graphs
from pucl.texts import did_you_mean


def load_graphs(
    name_or_path: str | Path, *, root: Path | None = None, features: str | NodeFeatures = "default"
) -> GraphSet:
    """Load a set of graphs.

    Args:
        name_or_path: ``shapes``, a name of the TU collection (PTC, ENZYMES, DD, REDDIT-BINARY, MUTAG, ..., upper or
            lower case), or a directory with files ``NAME_A.txt`` and so on. Write ``./DD`` for a directory that has the
            name of a known set.
        root: Directory of known sets and binary copies, see `data_root`.
        features: The features of a node, see `choose_features`; or the columns of another set, for an encoder that was
            trained on that set.

    Example:
        >>> graphs = load_graphs("shapes", features="ones")
        >>> len(graphs), graphs.classes, graphs.feature_count
        (400, ('ring', 'grid', 'hubs', 'communities'), 1)
    """
    return with_features(_load_plain(name_or_path, data_root(root)), features)


def _load_plain(name_or_path: str | Path, root: Path) -> PlainGraphs:
    if isinstance(name_or_path, str) and (source := known_graphs(name_or_path)) is not None:
        return source.load(root)
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        found = find_tu(path)
        if found is None:
            raise DataError(
                f"{path} holds no set of graphs: expected NAME_A.txt and NAME_graph_indicator.txt, got {_inside(path)}"
            )
        return read_cached(*found, root / "arrays")
    if path.exists():
        raise DataError(
            f"a set of graphs is a directory with NAME_A.txt and NAME_graph_indicator.txt, got the file {path}"
        )
    if isinstance(name_or_path, Path) or "/" in name_or_path:
        raise DataMissingError(f"there is no directory {path}")
    known = ", ".join(source.name for source in COLLECTION.values() if source.samples)
    raise DataMissingError(
        f"no set of graphs {name_or_path!r}.{did_you_mean(name_or_path, COLLECTION)} Known are {known} and others of "
        "the TU collection, and there is no directory of that name"
    )


def _inside(path: Path) -> str:
    names = sorted(entry.name for entry in path.iterdir())
    return "nothing" if not names else ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
