"""What a loss costs: forward and backward, held as a matrix, streamed, and as peers have it.

The measure of all of them are the bare matrix products. Whoever streams makes every tile of logits twice, forward and
again backward, and multiplies it by the embeddings for the gradient; nothing else has to be.
"""

import importlib.metadata
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch

from pucl.benchmarks.measure import (
    Peak,
    Spread,
    Step,
    available_memory,
    check_effort,
    interleave,
    library_versions,
    machine_facts,
    peak_in_child,
    torch_threads,
)
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
NOISE = 0.5  # Of the second view: its cosine to the first is then about .9, and no anchor is at the floor.
WARM_UP_BATCH = 32
FLOAT = 4  # Bytes.
DENSE_MATRICES = 8  # Matrices of logits, ranks and gradients that exist at one time: Ring's. The others hold about 6.
AGREEMENT = 1e-4  # Relative difference up to which two losses are the same number in float32.


@dataclass(frozen=True, kw_only=True)
class Peer:
    """Somebody else's form of one of our losses.

    Args:
        distribution: Its name in the package index.
        loss: Which of our losses it computes.
        load: Imports it and gives its loss at a temperature.
        floats: How many float32 numbers it holds at a batch size, at least.
        cubic: Whether time and memory grow with the cube of the batch, so that it has to stop early.
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
    """What is measured, and how long.

    Args:
        batch_sizes: Samples in a batch, each in two views; 2 or more.
        losses: Names out of `LOSSES`.
        dim: Length of an embedding.
        temperature: What cosines are divided by.
        threads: Threads of torch; by default as many as there are cores to use.
        seconds: About how long each loss is timed at each batch size.
        memory: Whether peaks of memory are measured too, each in a process of its own.
        peer_limit: The largest batch for peers whose cost grows with the cube of it.
    """

    batch_sizes: tuple[int, ...] = (256, 1024, 4096)
    losses: tuple[str, ...] = tuple(LOSSES)
    dim: int = 128
    temperature: float = 0.5
    threads: int = field(default_factory=usable_cores)
    seconds: float = 5.0
    memory: bool = True
    peer_limit: int = 256

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
    """One contender at one loss and batch size: what it took, or why it did not run.

    Args:
        milliseconds: Time of forward and backward together.
        nanoseconds_by_round: The same, as measured; None where it sat a round out.
        loss: The value that it gave; None for the bare products, which have none.
        peak: How far memory rose; None if that was not asked for.
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
        loss, batch: Which.
        rounds: How often the contenders were timed in turn.
        floored: Share of the anchors at the floor; those cost as much as others but learn less.
        contenders: ``"dense"``, ``"streaming"``, ``"products"`` (the bare matrix products), and peers.
        ratios: ``"dense/streaming"`` and so on: time by time, the median over the rounds.
    """

    loss: str
    batch: int
    rounds: int
    floored: float
    contenders: dict[str, Figures]
    ratios: dict[str, Spread]

    @property
    def disagreement(self) -> str | None:
        """Which contender gave another loss than streaming, if any: then the comparison is void."""
        ours = self.contenders["streaming"].loss
        for name, figures in self.contenders.items():
            if ours is not None and figures.loss is not None and abs(figures.loss - ours) > AGREEMENT * abs(ours):
                return f"{self.loss} at batch {self.batch}: {name} gives {figures.loss:.7g}, streaming {ours:.7g}"
        return None


@dataclass(frozen=True, kw_only=True)
class Report:
    """All rows, and what a reader needs to judge them."""

    versions: dict[str, str]
    absent_peers: dict[str, str]
    machine: dict[str, object]
    rows: list[Row]


def measure_losses(settings: Settings, progress: Callable[[str], object]) -> Report:
    """Measure every loss at every batch size.

    Args:
        settings: What and how long.
        progress: Told in a few words what comes next.
    """
    machine = machine_facts() | {"threads": settings.threads}
    present, absent = find_peers() if any(peer.loss in settings.losses for peer in PEERS.values()) else ([], {})
    cells = [(loss, batch) for batch in settings.batch_sizes for loss in settings.losses]
    rows = []
    with torch_threads(settings.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore", FlooredWarning)  # The report says how many are.
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
    """The reason why a contender cannot run at this batch size, if there is one."""
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
    """Two views as an encoder in training gives them: alike within a sample, unlike between samples."""
    generator = torch.Generator().manual_seed(SEED)
    first = torch.randn(batch, dim, generator=generator)
    second = first + NOISE * torch.randn(batch, dim, generator=generator)
    return first.requires_grad_(), second.requires_grad_()


def make_step(
    contender: str, loss: str, views: tuple[Tensor, Tensor], temperature: float
) -> Callable[[], Tensor | None]:
    """Forward and backward of one contender; the step gives the value of the loss, if there is one."""
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
    """A step in a fresh process, its inputs in place and its libraries at work already: what `peak_in_child` calls."""
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")  # What there is to warn of, the parent has said.
    make_step(contender, loss, make_views(WARM_UP_BATCH, dim), temperature)()
    return make_step(contender, loss, make_views(batch, dim), temperature)


def floored_share(loss: str, batch: int, settings: Settings) -> float:
    """The share of the anchors that this loss has at the floor."""
    module = LOSSES[loss](temperature=settings.temperature, streaming=True)
    with torch.no_grad():
        module(*make_views(batch, settings.dim))
    return 0.0 if module.last is None else module.last.floored.item()


class BareProducts:
    """The matrix products that streaming two views cannot do without, tile by tile, and nothing else.

    Of all views against all views a tile stands for its mirror image too, so the tiles on and above the diagonal will
    do. Forward, each is made once. Backward, it is made again, and multiplied by the embeddings of its columns for the
    gradient of its rows; above the diagonal also by those of its rows for the gradient of its columns.

    Args:
        views: Embeddings whose number and length count, and nothing else.
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
        """All products of one forward and one backward pass, into buffers that exist already."""
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
