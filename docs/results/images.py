"""CIFAR10 in a quarter of an hour: single runs on images."""

from pathlib import Path
from typing import Any

from pucl.runs.collection import Collection
from pucl.texts import fixed
from results.words import OTHER_DIGITS, markdown, rows_of

RUNS = Path(__file__).resolve().parents[2] / "records" / "images" / "cifar10-small"


def images_page(comparison: dict[str, Any]) -> str:
    """docs/images.md from records/images/cifar10-small."""
    base = comparison["base"]
    runs = Collection(RUNS)
    paths = [path for paths in comparison["runs"].values() for path in paths]
    results = {path: runs.result(path) for path in paths}
    machine = runs.environment(paths[0])
    trained = [result for result in results.values() if "loss" in result]
    slowest = max(result["seconds"] for result in trained) / 60
    lines = [
        "# Images: results",
        "",
        "## CIFAR10 in a quarter of an hour",
        "",
        f"Made by `{comparison['command']}` with torch {comparison['torch']} and {machine['threads']} threads: SimCLR, "
        f"encoder `{base['encoder']}` with stem `{base['stem']}`, {base['epochs']} epochs of {trained[0]['images']:,} "
        f"images at batch {base['batch_size']}, temperature {base['temperature']:g}. For the first "
        f"{base['coarse']:.0%} of the steps views have half the side, and the last {base['scales']} stages of the "
        "encoder give features. Retrieval, a linear classifier and nearest neighbours on the frozen features, on the "
        "10,000 test images. Training took "
        f"{min(result['seconds'] for result in trained) / 60:.1f} to {slowest:.1f} minutes a seed; peak memory "
        f"{max(result['peak_memory_mib'] for result in trained):,.0f} MiB. {OTHER_DIGITS}",
        "",
    ]
    table = []
    for row in rows_of(comparison):
        mine = [results[path] for path in comparison["runs"][row.name]]
        speeds = [result["samples_per_second"] for result in mine if "samples_per_second" in result]
        cells = [
            row.name,
            str(row.scores["linear"]),
            ", ".join(fixed(100 * result["linear"]) for result in mine),
            str(row.scores["knn"]),
            str(row.scores["retrieval"]),
            f"{min(speeds):.0f} to {max(speeds):.0f}" if speeds else "",
        ]
        table.append(cells)
    header = ["row", "linear, %", "by seed", "nearest neighbours, %", "mAP, %", "images/s"]
    lines += [
        *markdown(header, table),
        "",
        "± is the standard deviation over seeds. The runs are in `records/images/cifar10-small`. The settings were "
        "chosen on validation images, which are training images that were held out, by shorter trials of one seed "
        "([decisions](decisions.md#training)). The temperature is among them, and was chosen for plain; "
        "the [measurement](measurement.md) chooses one for each correction.",
    ]
    return "\n".join(lines) + "\n"
