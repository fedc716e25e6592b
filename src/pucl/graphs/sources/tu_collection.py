"""The sets of the TU collection that are known by name, and what is published of them.

The collection has no check sums. What its page says of a set is compared instead: graphs, classes, mean numbers of
nodes and of edges. A file that is cut off or is of another set does not pass.

Reference: https://chrsmrrs.github.io/datasets/docs/datasets
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pucl.data.errors import DataError
from pucl.graphs.features import PlainGraphs
from pucl.graphs.sources.tu import REQUIRED, tu_file

SITE = "https://www.chrsmrrs.com/graphkerneldatasets"
NEEDED = (*REQUIRED, "graph_labels")
ROUNDED = 0.0051  # Published means have two digits.


@dataclass(frozen=True, kw_only=True)
class Published:
    """What is published of a set; an edge counts once, whatever its directions."""

    graphs: int
    classes: int
    mean_nodes: float
    mean_edges: float


@dataclass(frozen=True, kw_only=True)
class GraphSource:
    """A set of graphs that is known by name.

    Args:
        name: What users call it, and what its files begin with.
        published: What it should hold; None where nothing is compared.
    """

    name: str
    published: Published | None = None

    @property
    def url(self) -> str:
        """Where the collection has it."""
        return f"{SITE}/{self.name}.zip"

    def find(self, root: Path) -> Path | None:
        """The directory with its files: as torch_geometric lays them out, as the archive does, or loose."""
        return next((directory for directory, lacking in self._places(root) if not lacking), None)

    def missing(self, root: Path) -> str | None:
        """Which files are missing where some are there: a copy or an extraction that broke off."""
        for directory, lacking in self._places(root):
            if len(lacking) < len(NEEDED):
                return f"{directory} is there without {', '.join(lacking)}"
        return None

    def _places(self, root: Path) -> Iterator[tuple[Path, list[str]]]:
        """Where to look, and which files are missing there."""
        for directory in (root / self.name / "raw", root / self.name, root / "raw", root):
            files = (tu_file(directory, self.name, part) for part in NEEDED)
            yield directory, [file.name for file in files if not file.is_file()]

    def check(self, graphs: PlainGraphs, directory: Path) -> None:
        """Refuse graphs that are not those that are published."""
        if self.published is None:
            return
        expected = self.published
        found = (
            len(graphs),
            len(graphs.classes),
            graphs.node_start[-1] / len(graphs),
            graphs.edge_start[-1] / 2 / len(graphs),
        )
        if (
            found[:2] != (expected.graphs, expected.classes)
            or abs(found[2] - expected.mean_nodes) > ROUNDED
            or abs(found[3] - expected.mean_edges) > ROUNDED
        ):
            raise DataError(
                f"{directory} does not hold {self.name} as it is published: expected {expected.graphs:,} graphs of "
                f"{expected.classes} classes with {expected.mean_nodes:.2f} nodes and {expected.mean_edges:.2f} edges "
                f"in the mean, got {found[0]:,} of {found[1]} with {found[2]:.2f} and {found[3]:.2f}. Graphs of your "
                "own are read by the path of their directory"
            )


def _known(name: str, graphs: int, classes: int, mean_nodes: float, mean_edges: float) -> GraphSource:
    published = Published(graphs=graphs, classes=classes, mean_nodes=mean_nodes, mean_edges=mean_edges)
    return GraphSource(name=name, published=published)


LISTED = (
    _known("PTC_MR", 344, 2, 14.29, 14.69),
    _known("ENZYMES", 600, 6, 32.63, 62.14),
    _known("DD", 1178, 2, 284.32, 715.66),
    _known("REDDIT-BINARY", 2000, 2, 429.63, 497.75),
    _known("MUTAG", 188, 2, 17.93, 19.79),
    _known("PROTEINS", 1113, 2, 39.06, 72.82),
    _known("NCI1", 4110, 2, 29.87, 32.30),
    _known("IMDB-BINARY", 1000, 2, 19.77, 96.53),
    _known("IMDB-MULTI", 1500, 3, 13.00, 65.94),
)
"""The sets of the papers, in the order of lists."""

OTHERS = (
    *("AIDS", "BZR", "BZR_MD", "COX2", "COX2_MD", "DHFR", "DHFR_MD", "ER_MD", "FRANKENSTEIN", "Mutagenicity"),
    *("NCI109", "PTC_FM", "PTC_FR", "PTC_MM", "KKI", "OHSU", "Peking_1", "PROTEINS_full"),
    *("MCF-7", "MOLT-4", "NCI-H23", "OVCAR-8", "P388", "PC-3", "SF-295", "SN12C", "SW-620", "UACC257", "Yeast"),
    *("COIL-DEL", "COIL-RAG", "Cuneiform", "Fingerprint", "FIRSTMM_DB", "Letter-high", "Letter-low", "Letter-med"),
    *("MSRC_9", "MSRC_21", "MSRC_21C", "COLLAB", "DBLP_v1", "deezer_ego_nets", "github_stargazers"),
    *("REDDIT-MULTI-5K", "REDDIT-MULTI-12K", "reddit_threads", "twitch_egos", "TWITTER-Real-Graph-Partial"),
    *("COLORS-3", "SYNTHETIC", "SYNTHETICnew", "Synthie", "TRIANGLES"),
)
"""Further sets of the collection with classes; of these only the form of the files is checked."""

COLLECTION: Mapping[str, GraphSource] = {
    source.name: source for source in (*LISTED, *(GraphSource(name=name) for name in OTHERS))
}

ALIASES = {"ptc": "PTC_MR"}
"""Names in papers that mean one of several, in small letters."""


def known_graphs(name: str) -> GraphSource | None:
    """The set of this name, in capital letters or small; None if there is none."""
    by_name = {source.name.lower(): source for source in COLLECTION.values()}
    return by_name.get(ALIASES.get(name.lower(), name).lower())
