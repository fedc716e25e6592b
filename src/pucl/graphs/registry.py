"""Sets of graphs by name or path."""

from collections.abc import Callable, Mapping
from pathlib import Path

from pucl.data.errors import DataError
from pucl.data.root import ROOT_VARIABLE, DataMissingError, data_root
from pucl.graphs.cache import cached
from pucl.graphs.features import NodeFeatures, PlainGraphs, choose_features, with_features
from pucl.graphs.graphset import GraphSet
from pucl.graphs.sources.shapes import make_shapes
from pucl.graphs.sources.tu import find_tu, read_tu
from pucl.graphs.sources.tu_collection import COLLECTION, LISTED, GraphSource, known_graphs
from pucl.texts import did_you_mean

MADE: Mapping[str, Callable[[], PlainGraphs]] = {"shapes": make_shapes}
"""Sets that are made when they are asked for."""


def load_graphs(
    name_or_path: str | Path, *, root: Path | None = None, features: str | NodeFeatures = "default"
) -> GraphSet:
    """Load a set of graphs.

    Args:
        name_or_path: ``shapes``, a known name of the TU collection (PTC, ENZYMES, DD, REDDIT-BINARY, MUTAG, ..., in
            capital letters or small), or a directory with files ``NAME_A.txt`` and so on. A directory that is called
            like a known set is meant by ``./DD``.
        root: Where known sets and binary copies are kept, see `data_root`.
        features: What is seen of a node, see `choose_features`; or the columns of another set, for an encoder that was
            trained on that one.

    Example:
        >>> graphs = load_graphs("shapes", features="ones")
        >>> len(graphs), graphs.classes, graphs.feature_count
        (400, ('ring', 'grid', 'hubs', 'communities'), 1)
    """
    plain = _load_plain(name_or_path, data_root(root))
    return with_features(plain, features if isinstance(features, NodeFeatures) else choose_features(plain, features))


def unknown_graphs(name: str) -> str:
    """What to say of a name that is not known."""
    hint = did_you_mean(name, (*MADE, *COLLECTION))
    known = ", ".join((*MADE, *(source.name for source in LISTED)))
    return f"no set of graphs {name!r}.{hint} Known are {known} and others of the TU collection"


def _load_plain(name_or_path: str | Path, root: Path) -> PlainGraphs:
    if isinstance(name_or_path, str):
        if (make := MADE.get(name_or_path.lower())) is not None:
            return make()
        if (source := known_graphs(name_or_path)) is not None:
            return _load_known(source, root)
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        found = find_tu(path)
        if found is None:
            raise DataError(
                f"{path} is no set of graphs: expected NAME_A.txt and NAME_graph_indicator.txt, got {_inside(path)}"
            )
        return cached(*found, root / "arrays", read_tu)
    if path.exists():
        raise DataError(
            f"{path} is a file; a set of graphs is a directory with NAME_A.txt and NAME_graph_indicator.txt"
        )
    if isinstance(name_or_path, Path) or "/" in name_or_path:
        raise DataMissingError(f"there is no directory {path}")
    raise DataMissingError(f"{unknown_graphs(name_or_path)}, and there is no directory of that name")


def _load_known(source: GraphSource, root: Path) -> PlainGraphs:
    directory = source.find(root)
    if directory is None:
        broken = f" ({lacking})" if (lacking := source.missing(root)) else ""
        raise DataMissingError(
            f"{source.name} is not in {root}{broken}: `pucl data get {source.name}` fetches it; --root or the "
            f"environment variable {ROOT_VARIABLE} says where else to look"
        )
    graphs = cached(directory, source.name, root / "arrays", read_tu)
    source.check(graphs, directory)
    return graphs


def _inside(path: Path) -> str:
    names = sorted(entry.name for entry in path.iterdir())
    return "nothing" if not names else ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
