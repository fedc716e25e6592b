"""Time and memory of a loss, forward and backward: dense, streaming, and in other libraries (peers).

The lower bound is the time of the bare matrix products. Streaming computes every tile of logits twice, once forward and
once backward, and multiplies it by the embeddings for the gradient. No streaming implementation can do less.
"""

import importlib.metadata
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from benchmarks.machine import library_versions, machine_facts
from benchmarks.memory import Peak, Step, available_memory, peak_in_child
from benchmarks.options import check_effort, option
from benchmarks.subject import Progress
from benchmarks.timing import Spread, interleave, torch_threads
from pucl.contrast.correction import check_range
from pucl.contrast.streaming import TILE
from pucl.devices import usable_cores
from pucl.losses import ContrastiveLoss, DebiasedLoss, FlooredWarning, HardLoss, NTXentLoss, PUCLLoss, RingLoss
from pucl.shapes import Float, Tensor

TwoViewLoss = Callable[[Tensor, Tensor], Tensor]

LOSSES: dict[str, Callable[..., ContrastiveLoss]] = {
    "plain": NTXentLoss,
    "deb": DebiasedLoss,
    "hard": HardLoss,
    "ring": RingLoss,
    "pucl": PUCLLoss,
}

SEED = 0
NOISE = 0.5  # Makes the cosine of two views about 0.9, so that no anchor is at the floor.
WARM_UP_BATCH = 32
FLOAT = 4  # Bytes of a float32.
DENSE_MATRICES = 8  # Matrices of logits, ranks and gradients that Ring holds at one time; the others hold about 6.
AGREEMENT = 1e-4  # Relative difference up to which two losses count as equal in float32.


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A loss of another library that equals one of ours.

    Args:
        distribution: Name of the library in the package index.
        loss: Which of our losses it computes.
        load: Imports the library and returns its loss at a temperature.
        floats: How many float32 numbers it holds at least at a batch size.
        cubic: Whether time and memory grow with the cube of the batch; such a peer runs at small batches only.
    """

    distribution: str
    loss: str
    load: Callable[[float], TwoViewLoss]
    floats: Callable[[int], int]
    cubic: bool = False


def _load_metric_learning(temperature: float) -> TwoViewLoss:
    losses = importlib.import_module("pytorch_metric_learning.losses")
    loss: TwoViewLoss = losses.SelfSupervisedLoss(losses.NTXentLoss(temperature=temperature))
    return loss


def _load_lightly(temperature: float) -> TwoViewLoss:
    loss: TwoViewLoss = importlib.import_module("lightly.loss").NTXentLoss(temperature=temperature)
    return loss


PEERS = {
    "pml": Peer(
        distribution="pytorch-metric-learning",
        loss="plain",
        load=_load_metric_learning,
        floats=lambda batch: 5 * (2 * batch) ** 3,  # Every positive pair against every negative pair.
        cubic=True,
    ),
    "lightly": Peer(
        distribution="lightly",
        loss="plain",
        load=_load_lightly,
        floats=lambda batch: DENSE_MATRICES * (2 * batch) ** 2,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is measured, and for how long."""

    batch_sizes: tuple[int, ...] = option((256, 1024, 4096), "samples in a batch, each in two views")
    losses: tuple[str, ...] = option(tuple(LOSSES), "which losses")
    dim: int = option(128, "length of an embedding")
    temperature: float = option(0.5, "divisor of the cosines")
    threads: int = option(usable_cores, "threads of torch")
    seconds: float = option(5.0, "about how long each loss is timed at each batch size")
    memory: bool = option(True, "measure peak memory too, each in a new process")
    peer_limit: int = option(256, "largest batch for peers whose cost grows with the cube of the batch")

    def __post_init__(self) -> None:
        if not self.batch_sizes or min(self.batch_sizes) < 2 or len(set(self.batch_sizes)) < len(self.batch_sizes):
            raise ValueError(
                f"batch sizes are the numbers of samples, each compared with the others: expected different numbers "
                f"from 2 up, got {', '.join(map(str, self.batch_sizes)) or 'none'}"
            )
        unknown = [name for name in self.losses if name not in LOSSES]
        if not self.losses or unknown or len(set(self.losses)) < len(self.losses):
            raise ValueError(
                f"losses are what is measured: expected different ones out of {', '.join(LOSSES)}, "
                f"got {', '.join(self.losses) or 'none'}"
            )
        check_range("dim", "the length of an embedding", self.dim, "at least 1", self.dim >= 1)
        check_range(
            "temperature",
            "what similarities are divided by",
            self.temperature,
            "0 < temperature < inf",
            0 < self.temperature < float("inf"),
        )
        check_effort(self.threads, self.seconds, "a loss is timed at a batch size")
        check_range(
            "peer_limit",
            "the largest batch for peers of cubic cost",
            self.peer_limit,
            "at least 0",
            self.peer_limit >= 0,
        )


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Figures of one contender for one loss at one batch size.

    Args:
        milliseconds: Time of forward and backward together.
        nanoseconds_by_round: The measured times; None in rounds that it skipped.
        loss: The value that it computed; None for the bare products, which compute none.
        peak: Peak memory; None if it was not measured.
        skipped: Why it did not run; None if it did.
    """

    milliseconds: Spread | None = None
    nanoseconds_by_round: list[int | None] | None = None
    loss: float | None = None
    peak: Peak | None = None
    skipped: str | None = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One loss at one batch size.

    Args:
        loss: Name of the loss.
        batch: Samples in the batch.
        rounds: Number of rounds.
        floored: Share of the anchors at the floor; they cost as much as others but learn less.
        contenders: ``"dense"``, ``"streaming"``, ``"products"`` (the bare matrix products), and peers.
        ratios: Ratios of times, such as ``"dense/streaming"``, taken round by round.
    """

    loss: str
    batch: int
    rounds: int
    floored: float
    contenders: dict[str, Figures]
    ratios: dict[str, Spread]

    @property
    def disagreement(self) -> str | None:
        """The contender whose loss differs from that of streaming, if there is one. Its times mean nothing."""
        ours = self.contenders["streaming"].loss
        for name, figures in self.contenders.items():
            if ours is not None and figures.loss is not None and abs(figures.loss - ours) > AGREEMENT * abs(ours):
                return f"{self.loss} at batch {self.batch}: {name} gives {figures.loss:.7g}, streaming {ours:.7g}"
        return None


@dataclass(frozen=True, kw_only=True)
class Report:
    """All rows, with the versions and the machine that they depend on."""

    versions: dict[str, str]
    absent_peers: dict[str, str]
    machine: dict[str, object]
    rows: list[Row]


def measure_losses(settings: Settings, progress: Progress) -> Report:
    """Measure every loss at every batch size."""
    machine = machine_facts() | {"threads": settings.threads}
    present, absent = find_peers() if any(peer.loss in settings.losses for peer in PEERS.values()) else ([], {})
    cells = [(loss, batch) for batch in settings.batch_sizes for loss in settings.losses]
    rows = []
    with torch_threads(settings.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore", FlooredWarning)  # The report has their share.
        for number, (loss, batch) in enumerate(cells, start=1):
            progress(f"{number} of {len(cells)}: {loss} at batch {batch}")
            rows.append(_measure_cell(loss, batch, present, settings))
    versions = library_versions()
    versions |= {PEERS[name].distribution: _version(PEERS[name].distribution) for name in present}
    return Report(versions=versions, absent_peers=absent, machine=machine, rows=rows)


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


def _measure_cell(loss: str, batch: int, peers: Sequence[str], settings: Settings) -> Row:
    names = ["dense", "streaming", *[name for name in peers if PEERS[name].loss == loss], "products"]
    contenders = {name: Figures(skipped=_why_skip(name, batch, settings)) for name in names}
    running = [name for name in names if contenders[name].skipped is None]
    embeddings = make_views(batch, settings.dim)
    steps = {name: make_step(name, loss, embeddings, settings.temperature) for name in running}
    values: dict[str, Tensor | None] = {}

    def keeping_value(name: str) -> Step:
        return lambda: values.update({name: steps[name]()})

    timings = interleave({name: keeping_value(name) for name in running}, seconds=settings.seconds)
    for name in running:
        value = values[name]
        contenders[name] = Figures(
            milliseconds=timings.milliseconds(name),
            nanoseconds_by_round=timings.nanoseconds[name],
            loss=None if value is None else value.item(),
        )
    if settings.memory:
        for name in running:
            if name != "products":
                peak = peak_in_child(
                    f"{__name__}:ready_step",
                    {
                        "contender": name,
                        "loss": loss,
                        "batch": batch,
                        "dim": settings.dim,
                        "temperature": settings.temperature,
                        "threads": settings.threads,
                    },
                )
                contenders[name] = replace(contenders[name], peak=peak)
    ratios = {
        f"{name}/{other}": timings.ratio(name, other)
        for name, other in [*((name, "streaming") for name in running), ("streaming", "products")]
        if name not in (other, "products")
    }
    return Row(
        loss=loss,
        batch=batch,
        rounds=timings.rounds,
        floored=floored_share(loss, batch, settings),
        contenders=contenders,
        ratios=ratios,
    )


def _why_skip(contender: str, batch: int, settings: Settings) -> str | None:
    """Why a contender cannot run at this batch size; None if it can."""
    if contender in ("streaming", "products"):
        return None
    peer = PEERS.get(contender)
    if peer is not None and peer.cubic and batch > settings.peer_limit:
        return (
            f"its cost grows with the cube of the batch, and batch {batch} is above the limit of {settings.peer_limit}"
        )
    needed = FLOAT * (DENSE_MATRICES * (2 * batch) ** 2 if peer is None else peer.floats(batch))
    available = available_memory()
    if available is not None and needed > available:
        return f"it needs about {needed / 1e9:.1f} GB at batch {batch}, and {available / 1e9:.1f} GB are available"
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
        return BareProducts(views).run
    if contender in PEERS:
        compute = PEERS[contender].load(temperature)
    else:
        compute = LOSSES[loss](temperature=temperature, streaming=contender == "streaming")

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


def floored_share(loss: str, batch: int, settings: Settings) -> float:
    """The share of the anchors at the floor of this loss."""
    module = LOSSES[loss](temperature=settings.temperature, streaming=True)
    with torch.no_grad():
        module(*make_views(batch, settings.dim))
    return 0.0 if module.last is None else module.last.floored.item()


class BareProducts:
    """The matrix products that streaming needs for two views, tile by tile, and nothing else.

    The matrix of all views against all views is symmetric, so tiles on and above the diagonal are enough. The forward
    pass computes each tile once. The backward pass computes it again and multiplies it by the embeddings of its columns
    for the gradient of its rows, and above the diagonal by those of its rows for the gradient of its columns.

    Args:
        views: Embeddings; only their shapes matter.
    """

    def __init__(self, views: tuple[Tensor, Tensor]) -> None:
        self.vectors = torch.cat([view.detach() for view in views])
        self.gradient = torch.empty_like(self.vectors)
        self.buffer = self.vectors.new_empty(TILE * TILE)
        starts = range(0, len(self.vectors), TILE)
        blocks = [slice(start, min(start + TILE, len(self.vectors))) for start in starts]
        self.tiles = [(rows, columns) for r, rows in enumerate(blocks) for columns in blocks[r:]]

    @torch.no_grad()
    def run(self) -> None:
        """All products of one forward and one backward pass, written into existing buffers."""
        for rows, columns in self.tiles:
            self._logits(rows, columns)
        for rows, columns in self.tiles:
            slopes = self._logits(rows, columns)
            torch.mm(slopes, self.vectors[columns], out=self.gradient[rows])
            if rows != columns:
                torch.mm(slopes.T, self.vectors[rows], out=self.gradient[columns])

    def _logits(self, rows: slice, columns: slice) -> Tensor:
        height, width = rows.stop - rows.start, columns.stop - columns.start
        logits = self.buffer[: height * width].view(height, width)
        return torch.mm(self.vectors[rows], self.vectors[columns].T, out=logits)


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
