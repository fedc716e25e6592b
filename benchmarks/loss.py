"""Time and memory of a loss, forward and backward: dense, streaming, and in other libraries (peers).

The lower bound is the time of the bare matrix products. Streaming computes every tile of logits twice, once forward and
once backward, and multiplies it by the embeddings for the gradient. No streaming implementation can do less.
"""

import importlib
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import torch

from benchmarks.memory import Step, available_memory, peak_in_child
from benchmarks.options import Settings, option
from benchmarks.report import Figures, Report, Row
from benchmarks.timing import interleave, torch_threads
from pucl.config import check_known
from pucl.contrast.streaming import TILE
from pucl.devices import usable_cores
from pucl.losses import (
    AutoLoss,
    BCLLoss,
    ClustersLoss,
    ContrastiveLoss,
    DebiasedLoss,
    FlooredWarning,
    HardLoss,
    NTXentLoss,
    PUCLLoss,
    RatioLoss,
    RingLoss,
)
from pucl.shapes import Float, Tensor
from pucl.texts import table

TwoViewLoss = Callable[[Tensor, Tensor], Tensor]

LOSSES: dict[str, Callable[..., ContrastiveLoss]] = {
    "plain": NTXentLoss,
    "deb": DebiasedLoss,
    "hard": HardLoss,
    "ring": RingLoss,
    "pucl": PUCLLoss,
    "bcl": BCLLoss,
    "clusters": ClustersLoss,
    "ratio": partial(RatioLoss, 0.1, warm_up=1),  # Its first step is plain, and no figure is of the first step.
    "auto": AutoLoss,
}

SEED = 0
NOISE = 0.5  # Makes the cosine of two views about 0.9, so that no anchor is at the floor.
WARM_UP_BATCH = 32
FLOAT = 4  # Bytes of a float32.
DENSE_MATRICES = 8  # Matrices of logits, ranks and gradients that Ring holds at one time; the others hold about 6.
YARDSTICKS = ("products", "plain")  # Contenders that compute no loss, or another one.
AGREEMENT = 1e-4  # Relative difference up to which two losses count as equal in float32.


class Peer(NamedTuple):
    """The plain loss of another library.

    Args:
        distribution: Name of the library in the package index.
        load: Imports the library and returns its loss at a temperature.
        cubic: Whether time and memory grow with the cube of the batch; such a peer runs at small batches only.
    """

    distribution: str
    load: Callable[[float], TwoViewLoss]
    cubic: bool = False


def _load_metric_learning(temperature: float) -> TwoViewLoss:
    losses = importlib.import_module("pytorch_metric_learning.losses")
    loss: TwoViewLoss = losses.SelfSupervisedLoss(losses.NTXentLoss(temperature=temperature))
    return loss


def _load_lightly(temperature: float) -> TwoViewLoss:
    loss: TwoViewLoss = importlib.import_module("lightly.loss").NTXentLoss(temperature=temperature)
    return loss


PEERS = {
    "pml": Peer("pytorch-metric-learning", _load_metric_learning, cubic=True),
    "lightly": Peer("lightly", _load_lightly),
}


@dataclass(frozen=True, kw_only=True)
class LossSettings(Settings):
    """What is measured, and for how long."""

    batch_sizes: tuple[int, ...] = option((256, 1024, 4096), "samples in a batch, each in two views", least=2)
    losses: tuple[str, ...] = option(tuple(LOSSES), "which losses")
    dim: int = option(128, "length of an embedding")
    temperature: float = option(0.5, "divisor of the cosines")
    threads: int = option(usable_cores, "threads of torch")
    seconds: float = option(5.0, "about how long each loss is timed at each batch size")
    memory: bool = option(True, "measure peak memory too, each in a new process")
    peer_limit: int = option(256, "largest batch for peers whose cost grows with the cube of the batch", least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.losses:
            check_known("loss", name, LOSSES)


@dataclass(frozen=True, kw_only=True)
class LossRow(Row):
    """One loss at one batch size.

    Contenders: ``"dense"``, ``"streaming"``, ``"products"`` (bare), and peers; beside a corrected loss ``"plain"``, the
    plain loss, streaming.

    Args:
        loss: Name of the loss.
        batch: Samples in the batch.
        floored: Share of the anchors at the floor; they cost as much as others but learn less.
    """

    loss: str
    batch: int
    floored: float

    @property
    def case(self) -> str:
        """Name of the row in sentences."""
        return f"{self.loss} at batch {self.batch}"


@dataclass(frozen=True, kw_only=True)
class LossReport(Report):
    """All rows, and the peers that cannot be imported here with the reason."""

    rows: list[LossRow]
    absent_peers: dict[str, str]

    def table(self) -> str:
        """One line per loss and batch size."""
        peers = [name for name in PEERS if any(name in row.contenders for row in self.rows)]
        header = ["loss", "batch", "dense ms", "stream ms", "dense/stream", *[f"{peer} ms" for peer in peers]]
        header += ["stream/products", "stream/plain", "dense MB", "stream MB"]
        lines = [
            [
                row.loss,
                str(row.batch),
                row.time("dense"),
                row.time("streaming"),
                row.ratio("dense/streaming"),
                *[row.time(peer) for peer in peers],
                row.ratio("streaming/products"),
                row.ratio("streaming/plain"),
                row.memory("dense"),
                row.memory("streaming"),
            ]
            for row in self.rows
        ]
        return table([header, *lines])

    def notes(self) -> list[str]:
        """What did not run, and rows with many floored anchors."""
        notes = [f"Not here: {peer} ({reason})." for peer, reason in self.absent_peers.items()]
        for row in self.rows:
            notes += row.notes(row.case)
            if row.floored > 0.5:
                notes.append(f"{row.case}: {row.floored:.0%} of the anchors are at the floor.")
        return notes

    def failures(self) -> list[str]:
        """Contenders whose loss differs from that of streaming. Their times mean nothing."""
        failures = []
        for row in self.rows:
            ours = row.contenders["streaming"].loss
            for name, figures in row.contenders.items():
                if ours is not None and figures.loss is not None and abs(figures.loss - ours) > AGREEMENT * abs(ours):
                    failures.append(
                        f"contenders must compute the same loss, but do not: {row.case}: {name} gives "
                        f"{figures.loss:.7g}, streaming {ours:.7g}"
                    )
        return failures


def measure_losses(settings: LossSettings, progress: Callable[[str], object]) -> LossReport:
    """Time and peak memory of each loss, forward and backward: dense, streaming, and in other libraries."""
    present, absent = find_peers() if "plain" in settings.losses else ([], {})
    cases = [(loss, batch) for batch in settings.batch_sizes for loss in settings.losses]
    rows = []
    with torch_threads(settings.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore", FlooredWarning)  # The report has their share.
        for number, (loss, batch) in enumerate(cases, start=1):
            progress(f"{number} of {len(cases)}: {loss} at batch {batch}")
            rows.append(_measure_case(loss, batch, present if loss == "plain" else (), settings))
    return LossReport(rows=rows, absent_peers=absent)


def find_peers() -> tuple[list[str], dict[str, str]]:
    """The peers that can be imported here, and why the others cannot."""
    present, absent = [], {}
    for name, peer in PEERS.items():
        try:
            peer.load(0.5)
        except (ImportError, RuntimeError) as error:  # torchvision beside a torch of another build: RuntimeError.
            absent[peer.distribution] = f"{type(error).__name__}: {error}"
        else:
            present.append(name)
    return present, absent


def _measure_case(loss: str, batch: int, peers: Collection[str], settings: LossSettings) -> LossRow:
    names = ["dense", "streaming", *peers, "products", *(["plain"] if loss != "plain" else [])]
    contenders = {name: Figures(skipped=_why_skip(name, batch, settings)) for name in names}
    running = [name for name in names if contenders[name].skipped is None]
    views = make_views(batch, settings.dim)
    steps = {name: make_step(name, loss, views, settings.temperature) for name in running}
    values: dict[str, Tensor | None] = {}

    def keeping_value(name: str) -> Step:
        return lambda: values.update({name: steps[name]()})

    timings = interleave({name: keeping_value(name) for name in running}, seconds=settings.seconds)
    for name in running:
        value = None if name in YARDSTICKS else values[name]
        contenders[name] = replace(timings.figures(name), loss=None if value is None else value.item())
        if settings.memory and name not in YARDSTICKS:
            case = {"contender": name, "loss": loss, "batch": batch, "dim": settings.dim}
            case |= {"temperature": settings.temperature, "threads": settings.threads}
            contenders[name] = replace(contenders[name], peak=peak_in_child(f"{__name__}:ready_step", case))
    ratios = {
        f"{name}/streaming": timings.ratio(name, "streaming")
        for name in running
        if name not in ("streaming", *YARDSTICKS)
    }
    ratios |= {f"streaming/{name}": timings.ratio("streaming", name) for name in running if name in YARDSTICKS}
    return LossRow(
        loss=loss,
        batch=batch,
        rounds=timings.rounds,
        floored=floored_share(loss, batch, settings),
        contenders=contenders,
        ratios=ratios,
    )


def _why_skip(contender: str, batch: int, settings: LossSettings) -> str | None:
    """Why a contender cannot run at this batch size; None if it can."""
    if contender in ("streaming", *YARDSTICKS):
        return None
    cubic = contender in PEERS and PEERS[contender].cubic
    if cubic and batch > settings.peer_limit:
        return f"its cost grows with the cube of the batch, which is above the limit of {settings.peer_limit}"
    # A cubic peer compares every positive pair with every negative pair.
    needed = FLOAT * (5 * (2 * batch) ** 3 if cubic else DENSE_MATRICES * (2 * batch) ** 2)
    available = available_memory()
    if available is not None and needed > available:
        return f"it needs about {needed / 1e9:.1f} GB, and {available / 1e9:.1f} GB are available"
    return None


def make_views(batch: int, dim: int) -> tuple[Float[Tensor, "batch dim"], Float[Tensor, "batch dim"]]:
    """Two random views: similar within a sample, dissimilar between samples, as in training."""
    generator = torch.Generator().manual_seed(SEED)
    first = torch.randn(batch, dim, generator=generator)
    second = first + NOISE * torch.randn(batch, dim, generator=generator)
    return first.requires_grad_(), second.requires_grad_()


def make_step(
    contender: str, loss: str, views: tuple[Tensor, Tensor], temperature: float
) -> Callable[[], Tensor | None]:
    """A step of one contender: forward and backward. It returns the loss, or None for the bare products."""
    if contender == "products":
        return bare_products(torch.cat(views).detach())
    if contender in PEERS:
        compute = PEERS[contender].load(temperature)
    else:
        name = "plain" if contender == "plain" else loss
        compute = LOSSES[name](temperature=temperature, streaming=contender != "dense")

    def step() -> Tensor:
        for view in views:
            view.grad = None
        value = compute(*views)
        value.backward()
        return value.detach()

    return step


def ready_step(
    *, contender: str, loss: str, batch: int, dim: int, temperature: float, threads: int
) -> Callable[[], Tensor | None]:
    """A step for `peak_in_child`, with inputs allocated and libraries warmed up."""
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")  # The parent process has warned already.
    make_step(contender, loss, make_views(WARM_UP_BATCH, dim), temperature)()
    return make_step(contender, loss, make_views(batch, dim), temperature)


def floored_share(loss: str, batch: int, settings: LossSettings) -> float:
    """The share of the anchors at the floor of this loss."""
    module = LOSSES[loss](temperature=settings.temperature, streaming=True)
    with torch.no_grad():
        module(*make_views(batch, settings.dim))
    return 0.0 if module.last is None else module.last.floored.item()


def bare_products(vectors: Float[Tensor, "view dim"]) -> Callable[[], None]:
    """A step that computes the matrix products which streaming needs, tile by tile, and nothing else.

    The matrix of all views against all views is symmetric, so tiles on and above the diagonal are enough. The forward
    pass computes each tile once. The backward pass computes it again and multiplies it by the embeddings of its columns
    for the gradient of its rows, and above the diagonal by those of its rows for the gradient of its columns.
    """
    gradient, buffer = torch.empty_like(vectors), vectors.new_empty(TILE * TILE)
    blocks = [slice(start, min(start + TILE, len(vectors))) for start in range(0, len(vectors), TILE)]
    tiles = [(rows, columns) for r, rows in enumerate(blocks) for columns in blocks[r:]]

    def logits_of(rows: slice, columns: slice) -> Tensor:
        height, width = rows.stop - rows.start, columns.stop - columns.start
        logits = buffer[: height * width].view(height, width)
        return torch.mm(vectors[rows], vectors[columns].T, out=logits)

    def step() -> None:
        for rows, columns in tiles:
            logits_of(rows, columns)
        for rows, columns in tiles:
            slopes = logits_of(rows, columns)
            torch.mm(slopes, vectors[columns], out=gradient[rows])
            if rows != columns:
                torch.mm(slopes.T, vectors[rows], out=gradient[columns])

    return step
