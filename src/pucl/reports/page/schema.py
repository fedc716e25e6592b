"""The data between Python and the page's program. These classes are the only description of them.

The program reads the fields that are named here and no others; `tests/reports/test_page_schema.py` checks both sides.
Arrays of numbers are little-endian bytes in base64: bytes, or numbers of two or four bytes.
"""

from dataclasses import dataclass

from pucl.samples import Thumbnails


@dataclass(frozen=True, kw_only=True)
class Theme:
    """Colours that the program draws with."""

    paper: str
    ink: str
    line: str
    same: str
    other: str
    classes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PagePair:
    """A costly pair; see `pucl.diagnosis.pushes`.

    Args:
        first: Place of a sample among those of the page.
        second: Place of the other.
        similarity: Their cosine.
        share: Share of plain's push that the pair takes.
        r: Probability that it is a hidden positive; None where nothing but the similarity is known.
    """

    first: int
    second: int
    similarity: float
    share: float
    r: float | None


@dataclass(frozen=True, kw_only=True)
class PairList:
    """The costliest pairs, as one source of r sees them.

    Args:
        name: Where r is from, for the choice of a list.
        about: The same in a sentence or two.
        probability: Whether r is shown as a probability. Otherwise it orders the pairs and is not shown.
        pairs: The costliest first.
    """

    name: str
    about: str
    probability: bool
    pairs: tuple[PagePair, ...]


@dataclass(frozen=True, kw_only=True)
class Hidden:
    """R of each sample with its nearest ones.

    Args:
        codes: A byte for each, 255 r, in the order of similarity.
        checks: A number of two bytes for each sample, by which the program sees that it found the same neighbours.
        probability: Whether r is shown as a probability; otherwise it is a rank.
        about: What r is, and how good it was.
    """

    codes: str
    checks: str
    probability: bool
    about: str


@dataclass(frozen=True, kw_only=True)
class Map:
    """The samples as one run embeds them.

    Args:
        name: Its row.
        seed: Its seed.
        plane: Coordinates x and y of each sample on the map, in two bytes each.
        low: By principal component: the value of byte 0.
        step: By principal component: the difference of two bytes. Cosines are inner products of ``low + step * byte``.
        codes: A byte for each component of each sample.
        own: Share of each sample's push that goes to its own class, in two bytes each, 65535 for all of it. None
            without labels, for encoders that were not trained, and for corrections that learn and keep nothing.
        hidden: R, if the correction has it.
        about: What the map shows.
        fine: How exact similarities are.
    """

    name: str
    seed: int
    plane: str
    low: tuple[float, ...]
    step: tuple[float, ...]
    codes: str
    own: str | None
    hidden: Hidden | None
    about: str
    fine: str


@dataclass(frozen=True, kw_only=True)
class Space:
    """The samples of one part of the page, and how its runs embed them.

    Args:
        unit: What one sample is called.
        units: What several are called.
        count: Number of embedded samples, of which the page has some.
        indices: Index of each sample in the data, in four bytes each.
        labels: Class of each, in two bytes each; None if unknown.
        classes: Names of the classes.
        names: Where each sample is from; None if its index is enough.
        thumbnails: The samples themselves; None if the data were not found.
        maps: One for each run that is shown.
        base: Which of them the pairs are from, and stands on the left: plain, if it is there.
        first: Which of them stands on the right, or is shown alone.
        pairs: Lists of costliest pairs.
    """

    unit: str
    units: str
    count: int
    indices: str
    labels: str | None
    classes: tuple[str, ...]
    names: tuple[str, ...] | None
    thumbnails: Thumbnails | None
    maps: tuple[Map, ...]
    base: int
    first: int
    pairs: tuple[PairList, ...]


@dataclass(frozen=True, kw_only=True)
class Page:
    """All that the program reads.

    Args:
        light: Colours on a light background, and on paper.
        dark: Colours on a dark background.
        spaces: For each part of the page; None where there are no embeddings.
    """

    light: Theme
    dark: Theme
    spaces: tuple[Space | None, ...]
