"""The sets of the TU collection that are known by name, and their published numbers.

The collection has no checksums. Instead, the published numbers of a set are compared: graphs, classes, mean nodes and
mean edges. This refuses truncated files and files of another set.

Reference: https://chrsmrrs.github.io/datasets/docs/datasets
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pucl.data.download import Download
from pucl.data.errors import DataError
from pucl.data.source import Form, Found, Source
from pucl.graphs.cache import read_cached
from pucl.graphs.features import PlainGraphs
from pucl.graphs.sources.shapes import make_shapes
from pucl.graphs.sources.tu import REQUIRED

SITE = "https://www.chrsmrrs.com/graphkerneldatasets"
NEEDED = (*REQUIRED, "graph_labels")
ROUNDED = 0.0051  # Published means have two digits.


@dataclass(frozen=True)
class Published:
    """The published numbers of a set. An edge in both directions counts once."""

    name: str
    graphs: int
    classes: int
    mean_nodes: float
    mean_edges: float


def tu_source(name: str, published: Published | None = None) -> Source[PlainGraphs]:
    """A set of the collection; its numbers are compared with the published ones, if there are any."""
    files = tuple(f"{name}_{part}.txt" for part in NEEDED)
    # torch_geometric looks for the files in NAME/raw too; the archive has them in NAME.
    directories = (f"{name}/raw", name, "raw")
    return Source(
        name=name,
        read=partial(_read_known, name=name, published=published),
        samples="" if published is None else f"{published.graphs:,}",
        classes=0 if published is None else published.classes,
        size="" if published is None else f"{published.mean_nodes:.1f}",
        forms=(Form(files=files, directories=directories, optional=(f"{name}_*.txt", "README*.txt")),),
        downloads=(Download(url=f"{SITE}/{name}.zip"),),
    )


def _read_known(found: Found, *, name: str, published: Published | None) -> PlainGraphs:
    graphs = read_cached(found.directory, name, found.cache)
    if published is not None:
        _check_published(graphs, published, found.directory)
    return graphs


def _check_published(graphs: PlainGraphs, expected: Published, directory: Path) -> None:
    """Refuse graphs that differ from the published numbers."""
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
            f"{directory} does not hold {expected.name} as published: expected {expected.graphs:,} graphs of "
            f"{expected.classes} classes with {expected.mean_nodes:.2f} nodes and {expected.mean_edges:.2f} edges "
            f"on average, got {found[0]:,} of {found[1]} with {found[2]:.2f} and {found[3]:.2f}. To read graphs of "
            "your own, give the path of their directory"
        )


PUBLISHED: Mapping[str, Published] = {
    each.name: each
    for each in (
        Published("PTC_MR", 344, 2, 14.29, 14.69),
        Published("ENZYMES", 600, 6, 32.63, 62.14),
        Published("DD", 1178, 2, 284.32, 715.66),
        Published("REDDIT-BINARY", 2000, 2, 429.63, 497.75),
        Published("MUTAG", 188, 2, 17.93, 19.79),
        Published("PROTEINS", 1113, 2, 39.06, 72.82),
        Published("NCI1", 4110, 2, 29.87, 32.30),
        Published("IMDB-BINARY", 1000, 2, 19.77, 96.53),
        Published("IMDB-MULTI", 1500, 3, 13.00, 65.94),
    )
}
"""The sets of the papers, in the order of lists, and their published numbers."""

OTHERS = (
    *("AIDS", "BZR", "BZR_MD", "COX2", "COX2_MD", "DHFR", "DHFR_MD", "ER_MD", "FRANKENSTEIN", "Mutagenicity"),
    *("NCI109", "PTC_FM", "PTC_FR", "PTC_MM", "KKI", "OHSU", "Peking_1", "PROTEINS_full"),
    *("MCF-7", "MOLT-4", "NCI-H23", "OVCAR-8", "P388", "PC-3", "SF-295", "SN12C", "SW-620", "UACC257", "Yeast"),
    *("COIL-DEL", "COIL-RAG", "Cuneiform", "Fingerprint", "FIRSTMM_DB", "Letter-high", "Letter-low", "Letter-med"),
    *("MSRC_9", "MSRC_21", "MSRC_21C", "COLLAB", "DBLP_v1", "deezer_ego_nets", "github_stargazers"),
    *("REDDIT-MULTI-5K", "REDDIT-MULTI-12K", "reddit_threads", "twitch_egos", "TWITTER-Real-Graph-Partial"),
    *("COLORS-3", "SYNTHETIC", "SYNTHETICnew", "Synthie", "TRIANGLES"),
)
"""Further sets of the collection with classes. Their numbers are not compared."""

SHAPES = Source(
    name="shapes",
    read=lambda _found: make_shapes(),
    samples="400",
    classes=4,
    size="27.0",
    without_files="is generated",
)

COLLECTION: dict[str, Source[PlainGraphs]] = {
    source.name: source for source in (SHAPES, *map(tu_source, PUBLISHED, PUBLISHED.values()), *map(tu_source, OTHERS))
}
"""All sets that are known by name."""

ALIASES = {"ptc": "PTC_MR"}
"""Other names, in lower case, as papers use them."""


def known_graphs(name: str) -> Source[PlainGraphs] | None:
    """The set of this name, in upper or lower case; None if there is none."""
    by_name = {source.name.lower(): source for source in COLLECTION.values()}
    return by_name.get(ALIASES.get(name.lower(), name).lower())
