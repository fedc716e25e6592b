"""``python -m benchmarks loss``: tables and sentences."""

from benchmarks.loss import PEERS, Report, Row, Settings, measure_losses
from benchmarks.subject import Section, Subject
from benchmarks.text import aligned, extremes, figure, peak, peak_bytes, ratio, time


def loss_table(report: Report) -> str:
    """A table with one row per loss and batch size."""
    peers = [name for name in PEERS if any(name in row.contenders for row in report.rows)]
    columns = [
        ("loss", ""),
        ("batch", ""),
        ("dense", "ms"),
        ("stream", "ms"),
        ("dense/stream", "(quartiles)"),
        *[(peer, "ms") for peer in peers],
        ("products", "ms"),
        ("stream/products", "(quartiles)"),
        ("dense", "peak MB"),
        ("stream", "peak MB"),
    ]
    rows = [
        [
            row.loss,
            str(row.batch),
            time(row.contenders, "dense"),
            time(row.contenders, "streaming"),
            ratio(row.ratios, "dense/streaming"),
            *[time(row.contenders, peer) for peer in peers],
            time(row.contenders, "products"),
            ratio(row.ratios, "streaming/products"),
            peak(row.contenders, "dense"),
            peak(row.contenders, "streaming"),
        ]
        for row in report.rows
    ]
    return aligned(columns, rows)


def loss_sentences(report: Report) -> list[str]:
    """Sentences that sum up the table and name what is missing from it."""
    sentences = []
    against_dense = _medians(report, "dense/streaming")
    if against_dense:
        faster = sum(times > 1 for _, times in against_dense)
        (least, slow), (most, fast) = extremes(against_dense)
        memory = [
            (row, streaming / dense)
            for row in report.rows
            if (streaming := peak_bytes(row.contenders, "streaming")) is not None
            and (dense := peak_bytes(row.contenders, "dense"))
        ]
        clause = ""
        if memory:
            (leanest, low), (fattest, high) = extremes(memory)
            clause = f", with {low:.0%} ({_place(leanest)}) to {high:.0%} ({_place(fattest)}) of its peak memory"
        sentences.append(
            f"Streaming is faster than dense in {faster} of {len(against_dense)} cases, {figure(slow)} times as fast "
            f"({_place(least)}) to {figure(fast)} times ({_place(most)}){clause}."
        )
    of_limit = [(row, 1 / times) for row, times in _medians(report, "streaming/products")]
    if of_limit:
        (least, low), (most, high) = extremes(of_limit)
        sentences.append(
            f"The bare matrix products, the limit, would take {low:.0%} ({_place(least)}) to {high:.0%} "
            f"({_place(most)}) of streaming's time."
        )
    for name, peer in PEERS.items():
        for row, times in _medians(report, f"{name}/streaming")[-1:]:
            theirs, ours = peak_bytes(row.contenders, name), peak_bytes(row.contenders, "streaming")
            clause = f" and {figure(theirs / ours)} times as much memory" if theirs and ours else ""
            sentences.append(
                f"{peer.distribution} takes {figure(times)} times as long as streaming{clause} ({_place(row)})."
            )
    return [*sentences, *_notes(report)]


def disagreements(report: Report) -> list[str]:
    """Rows in which contenders computed different losses."""
    return [
        f"contenders must compute the same loss, but do not: {row.disagreement}"
        for row in report.rows
        if row.disagreement is not None
    ]


def _notes(report: Report) -> list[str]:
    """Sentences on contenders that did not run, missing peaks and floored anchors."""
    notes = []
    for row in report.rows:
        for name, figures in row.contenders.items():
            who = PEERS[name].distribution if name in PEERS else name
            if figures.skipped is not None:
                notes.append(f"Not run: {who}: {figures.skipped}.")
            if figures.peak is not None and figures.peak.missing is not None:
                notes.append(f"No peak of {who}: {figures.peak.missing}.")
        if row.floored > 0.5:
            notes.append(f"{row.floored:.0%} of the anchors are at the floor ({_place(row)}).")
    return notes + [f"Not here: {peer} ({reason})." for peer, reason in report.absent_peers.items()]


def _medians(report: Report, name: str) -> list[tuple[Row, float]]:
    return [(row, row.ratios[name].median) for row in report.rows if name in row.ratios]


def _place(row: Row) -> str:
    return f"{row.loss}, batch {row.batch}"


LOSS = Subject(
    name="loss",
    purpose="time and peak memory of each loss, forward and backward: dense, streaming, and in other libraries",
    settings=Settings,
    measure=measure_losses,
    show=lambda report: [Section(loss_table(report), loss_sentences(report))],
    failures=disagreements,
)
