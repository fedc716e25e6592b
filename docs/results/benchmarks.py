"""What losses, training steps, evaluations and grids cost."""

from statistics import median
from typing import Any

from results.words import markdown, megabytes, milliseconds, ratio


def benchmarks_page(
    usual: dict[str, Any],
    large: dict[str, Any],
    training: dict[str, Any] | None,
    graphs: dict[str, Any] | None,
    one_thread: dict[str, Any] | None,
    grid: dict[str, Any] | None,
    retrieval: dict[str, Any] | None,
    one_correction: dict[str, Any] | None,
    auto: dict[str, Any] | None,
    ranking: dict[str, Any] | None = None,
) -> str:
    """docs/benchmarks.md from records/bench: losses, and the rest as far as it was measured."""
    machine = usual["machine"]
    lines = [
        "# Time and memory",
        "",
        f"Forward and backward of a loss of two views, float32, dimension {usual['settings']['dim']}, on "
        f"{machine['cores']} cores ({machine['cpu']}), torch {usual['versions']['torch']}. *Dense* holds the matrix of "
        "all pairs, *streaming* does not. All contenders run in turn on the same data, and ratios are the median over "
        "rounds, with quartiles. *Products* are the bare matrix products that streaming cannot do without. Peaks of "
        "memory are above inputs, each in a process of its own.",
        "",
        f"Made by `{command_of(usual)}`:",
        "",
        *benchmark_table(usual),
        "",
        f"Where the matrix would not fit ({large['machine']['cpu']}), made by `{command_of(large)}`:",
        "",
        *benchmark_table(large),
        "",
        "Left to itself (`streaming=None`) a loss streams where that is faster: plain, DEB, Hard and PUCL from batches "
        "of a few hundred samples on. Ring and the Jensen-Shannon objective, which are slower by rows than with the "
        "matrix, stream only where the matrix would take a quarter of a gigabyte.",
    ]
    if one_correction is not None:
        lines += [
            "",
            f"Streaming of a table of weights (Ratio) beside plain streaming, with one thread{busy(one_correction)}, "
            f"made by `{command_of(one_correction)}`:",
            "",
            *benchmark_table(one_correction),
        ]
    absent = ", ".join(usual["absent_peers"])
    if absent:
        lines += ["", f"Not installed where this was measured: {absent}."]
    if training is not None:
        lines += ["", *training_section(training)]
    if auto is not None:
        lines += ["", *auto_section(auto)]
    if graphs is not None:
        lines += ["", *graphs_section(graphs, one_thread)]
    if grid is not None:
        lines += ["", *grid_section(grid)]
    if retrieval is not None:
        lines += ["", *retrieval_section(retrieval)]
    if ranking is not None:
        lines += ["", *ranking_section(ranking)]
    return "\n".join(lines) + "\n"


def command_of(record: dict[str, Any]) -> str:
    """The command that measures this again. Older records name `pucl bench`, which had the same options."""
    command: str = record["command"]
    return command.replace("pucl bench ", "python -m benchmarks ", 1)


def training_section(record: dict[str, Any]) -> list[str]:
    """What a training step costs beyond its encoder, and what views cost."""
    machine, settings = record["machine"], record["settings"]
    lines = [
        "## A training step",
        "",
        f"A whole step (views, encoder, head, PUCL's loss, Adam, metrics) compared with the *bare encoder*: "
        f"forward and backward pass of the same tensors, and nothing else. For MoCo the "
        f"key encoder's forward pass counts as encoder too. Images of {settings['size']} x {settings['size']}, "
        f"float32, torch on {machine['threads']} of {machine['cores']} cores ({machine['cpu']}), torch "
        f"{record['versions']['torch']}. All take turns, and ratios are the median over rounds, with quartiles. "
        f"*Plain format* is the bare encoder in torch's default memory format over the same with channels last, "
        f"which is what encoders use. Peaks are those of a first step, the optimiser's state included.",
        "",
        f"Made by `{command_of(record)}`:",
        "",
        *training_table(record),
    ]
    if record["views"]:
        lines += [
            "",
            "SimCLR's views, of a whole batch at once and by Pillow image by image (crop, flip, jitter, grey, blur, "
            "to a tensor, normalised; nothing is decoded), which has one thread. *Pillow* draws its chances from torch "
            "and ends in torch, as torchvision's transforms do; *lean* is without torch:",
            "",
            *views_table(record),
        ]
    return lines


def auto_section(record: dict[str, Any]) -> list[str]:
    """What the correction auto adds to a training step."""
    header = ["encoder", "batch", "samples", "step, ms", "in the loss, ms", "to learn, ms", "end of an epoch, ms"]
    header += ["its share, ms", "added to a step, %"]
    table = []
    for cost in record["learning"]:
        times = {name: each["milliseconds"]["median"] for name, each in cost["contenders"].items()}
        low, middle, high = (100 * cost["added"][name] for name in ("lower_quartile", "median", "upper_quartile"))
        cells = [cost["encoder"], f"{cost['batch']:,}", f"{cost['samples']:,}", f"{times['step']:,.0f}"]
        cells += [f"{times['auto'] - times['plain']:.1f}", f"{times['learning']:.1f}", f"{times['end']:,.0f}"]
        table.append([*cells, f"{times['end'] / cost['steps']:.1f}", f"{middle:.1f} ({low:.1f} to {high:.1f})"])
    aim = record["learning"][0]["aim"]
    return [
        "What `auto` adds to a plain step of SimCLR, while it corrects: its loss less the plain one, what it remembers "
        "of a step, and the end of an epoch, shared by the steps of the epoch. The embeddings are drawn, of ten "
        f"classes. The aim is {100 * aim:g} % at most. Made by `{command_of(record)}` with "
        f"{record['machine']['threads']} of {record['machine']['cores']} cores "
        f"({record['machine']['cpu']}{busy(record, ', ')}):",
        "",
        *markdown(header, table),
    ]


def busy(record: dict[str, Any], before: str = " ") -> str:
    """That other programs were running, if they were."""
    load, cores = record["machine"]["load_average_before"], record["machine"]["cores"]
    return "" if load is None or load <= cores / 2 else f"{before}while other programs ran"


def training_table(record: dict[str, Any]) -> list[str]:
    """One row per framework and encoder."""
    header = ["framework", "encoder", "batch", "step, ms", "bare encoder, ms", "step / encoder"]
    header += ["views, ms", "loss, ms", "optimiser, ms", "plain format / channels last", "images / s", "step, MB"]
    table = []
    for row in record["rows"]:
        by_name, ratios = row["contenders"], row["ratios"]
        cells = [row["framework"], row["encoder"], f"{row['batch']:,}"]
        cells += [milliseconds(by_name[name]) for name in ("step", "encoder")]
        cells += [ratio(ratios["step/encoder"])]
        cells += [milliseconds(by_name[name]) for name in ("views", "loss", "optimiser")]
        cells += [ratio(ratios.get("encoder_plain_format/encoder")), f"{row['images_per_second']:,.0f}"]
        cells += [megabytes(by_name["step"])]
        table.append(cells)
    return markdown(header, table)


def views_table(record: dict[str, Any]) -> list[str]:
    """One row per number of threads."""
    header = ["images", "threads", "ours, ms", "Pillow, ms", "lean, ms", "Pillow / ours", "lean / ours"]
    table = []
    for cost in record["views"]:
        cells = [f"{cost['batch']:,} of {cost['size']} x {cost['size']}", f"{cost['threads']}"]
        cells += [milliseconds({"milliseconds": cost[name]}) for name in ("ours", "pillow", "lean")]
        table.append([*cells, ratio(cost["speedup"]), ratio(cost["lean_speedup"])])
    return markdown(header, table)


def benchmark_table(record: dict[str, Any]) -> list[str]:
    """One row per loss and batch size."""
    header = ["loss", "batch", "dense, ms", "streaming, ms", "dense / streaming", "streaming / products"]
    header += ["dense, MB", "streaming, MB", "pytorch-metric-learning, ms"]
    beside_plain = any("streaming/plain" in row["ratios"] for row in record["rows"])  # Older records have none.
    header += ["streaming / plain streaming"] if beside_plain else []
    table = []
    for row in record["rows"]:
        by_name, ratios = row["contenders"], row["ratios"]
        cells = [row["loss"], f"{row['batch']:,}"]
        cells += [milliseconds(by_name.get(name)) for name in ("dense", "streaming")]
        cells += [ratio(ratios.get(name)) for name in ("dense/streaming", "streaming/products")]
        cells += [megabytes(by_name.get(name)) for name in ("dense", "streaming")]
        cells += [milliseconds(by_name.get("pml"))]
        cells += [ratio(ratios.get("streaming/plain"))] if beside_plain else []
        table.append(cells)
    return markdown(header, table)


def graphs_section(record: dict[str, Any], one_thread: dict[str, Any] | None = None) -> list[str]:
    """What InfoGraph costs beyond its network, and its evaluation against scikit-learn's."""
    machine, settings = record["machine"], record["settings"]
    lines = [
        "## Graphs",
        "",
        f"Made by `{command_of(record)}` with torch {record['versions']['torch']}, {machine['threads']} threads.",
    ]
    if record["training"]:
        lines += [
            "",
            "A whole training (batches, GIN and heads, loss, Adam, metrics) compared with the *bare network*, "
            "forward and backward of GIN and its two heads on the same batches. It is measured twice: *ours*, and the "
            f"same network with the same weights made of *torch_geometric*'s layers. The aim is "
            f"{record['aims']['training/network']:g} at most. Medians over rounds, with quartiles; a step has "
            f"{settings['batch_size']} graphs.{folded_sentence(record)}",
            "",
            *graph_training_table(record),
        ]
    if one_thread is not None:
        lines += [
            "",
            "With one thread, which each run of a comparison or table has where there are as many runs as cores, made "
            f"by `{command_of(one_thread)}`:",
            "",
            *graph_training_table(one_thread),
        ]
    if record["svm"]:
        lines += [
            "",
            f"The SVM evaluation ({settings['folds']} folds, C by {settings['inner_folds']} inner folds) on the same "
            "embeddings, those of an untrained encoder: scikit-learn's GridSearchCV inside StratifiedKFold as it comes "
            "and on all cores, and ours. *Equal* is the accuracy on every fold and every chosen C. The aim is "
            f"{record['aims']['sklearn/ours']:g} at least, against scikit-learn as it comes.",
            "",
            *svm_table(record),
        ]
    return lines


def folded_sentence(record: dict[str, Any]) -> str:
    """Why a training can take less time than the network."""
    names = dict.fromkeys(row["data"] for row in record["training"] if "folded_network" in row["contenders"])
    if not names:
        return ""
    return (
        f" Training folds nodes that cannot be told apart into one on {' and '.join(names)}; the bare networks have "
        "all of them."
    )


def graph_training_table(record: dict[str, Any]) -> list[str]:
    """One row per set of graphs and correction."""
    header = ["graphs", "correction", "times of", "training, ms", "ours, ms", "torch_geometric, ms"]
    header += ["training / ours", "training / torch_geometric", "loss, ms"]
    table = []
    for row in record["training"]:
        by_name, ratios = row["contenders"], row["ratios"]
        cells = [row["data"], row["correction"], row["unit"]]
        cells += [milliseconds(by_name.get(name)) for name in ("training", "network", "torch_geometric")]
        cells += [ratio(ratios.get(f"training/{name}")) for name in ("network", "torch_geometric")]
        table.append([*cells, milliseconds(by_name["loss"])])
    return markdown(header, table)


def svm_table(record: dict[str, Any]) -> list[str]:
    """One row per set of embeddings."""
    header = ["graphs", "number", "classes", "scikit-learn, s", "on all cores, s", "ours, s", "scikit-learn / ours"]
    header += ["on all cores / ours", "equal"]
    table = []
    for row in record["svm"]:
        seconds = [f"{median(times):.2f}" for times in row["seconds"].values()]
        ratios = [f"{value:.2f}" for value in row["ratios"].values()]
        name = f"{row['name']}, scaled" if row["scaled"] else row["name"]
        table.append(
            [name, f"{row['graphs']:,}", str(row["classes"]), *seconds, *ratios, "yes" if row["equal"] else "no"]
        )
    return markdown(header, table)


def grid_section(record: dict[str, Any]) -> list[str]:
    """How much sooner a grid is done with several workers."""
    settings = record["settings"]
    table = [
        [str(number), *(f"{seconds[number - 1]:.1f}" for seconds in record["seconds"].values()), f"{speedup:.2f}"]
        for number, speedup in enumerate(record["speedups"], 1)
    ]
    return [
        "## Runs side by side",
        "",
        f"Made by `{command_of(record)}`: a grid of {settings['runs']} runs ({settings['framework']} on "
        f"{settings['data']}), each with one thread, one at a time and {settings['workers']} at a time. The numbers "
        f"that the runs came to are {'the same' if record['equal'] else 'NOT the same'}.",
        "",
        *markdown(["round", *(f"{workers} at a time, s" for workers in record["seconds"]), "times as fast"], table),
    ]


def retrieval_section(record: dict[str, Any]) -> list[str]:
    """What exact retrieval costs."""
    settings, seconds = record["settings"], record["seconds"]
    return [
        "## Retrieval",
        "",
        f"Made by `{command_of(record)}`: each of {settings['samples']:,} samples of {settings['dim']} dimensions is a "
        f"query among all others. It takes {median(seconds):.1f} s (rounds: {min(seconds):.1f} to {max(seconds):.1f}) "
        f"on {settings['threads']} threads ({record['machine']['cpu']}) and {megabytes(record)} MB. The average "
        f"precision of single queries differs from scikit-learn's by at most {record['error']:.0e}.",
    ]


def ranking_section(record: dict[str, Any]) -> list[str]:
    """Memory of cached ranking losses, in plain steps of one mini-batch."""
    settings, (plain, *cached) = record["settings"], record["peaks"].items()
    table = [
        [name, megabytes({"peak": peak}), "" if name == plain[0] else f"{peak['bytes'] / plain[1]['bytes']:.2f}"]
        for name, peak in (plain, *cached)
        if peak["bytes"]
    ]
    return [
        "## The cached ranking loss",
        "",
        f"Memory of one step (forward and backward, gradients included) of a MiniLM in sentence-transformers "
        f"{record['versions']['sentence-transformers']}: a plain step of {settings['mini_batch_size']} pairs with "
        f"MultipleNegativesRankingLoss, and cached steps of {settings['batch_size']:,} pairs in mini-batches of "
        f"{settings['mini_batch_size']}, texts of {settings['words']} words, each in a process of its own. The aim is "
        f"{record['aim']:g} plain steps at most. Made by `{command_of(record)}` ({record['machine']['cpu']}):",
        "",
        *markdown(["step", "memory, MB", "plain steps"], table),
    ]
