"""Formats of exported encoders: how each is written, read and checked."""

import contextlib
import io
import logging
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from pucl.data.errors import ExtraMissingError, reason_of
from pucl.modality import Portable
from pucl.samples import Features
from pucl.shapes import Tensor

TOLERANCE = 1e-5
"""Largest difference of a feature, relative to the largest feature or to 1."""

BATCHES = (1, 64)
"""Numbers of samples with which an exported encoder is compared with torch."""

Runner = Callable[[tuple[Tensor, ...]], Features]


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format for graphs of tensors.

    Args:
        file: The name of its file.
        need: Raises if a package is missing.
        write: Writes a portable encoder to a file.
        read: Reads the file, and returns a function that runs it.
        usage: Lines of Python that compute ``features`` from ``inputs``, a dictionary of arrays.
    """

    file: str
    need: Callable[[], None]
    write: Callable[[Portable, Path], None]
    read: Callable[[Path], Runner]
    usage: str


def write_checked(portable: Portable, kind: Format, path: Path) -> float:
    """Write an encoder, read it back, and return by how much it differs from pucl.

    Raises:
        ValueError: If it cannot be exported, or differs by more than `TOLERANCE`.
    """
    kind.need()
    portable.module.eval()
    # Before the export: constants that are kept between calls must be those of a real call.
    samples = [portable.draw(count, torch.Generator().manual_seed(count)) for count in BATCHES]
    try:
        with quiet():
            kind.write(portable, path)
    except (RuntimeError, TypeError, AttributeError, ValueError, NotImplementedError) as error:
        raise ValueError(
            f"torch cannot trace the encoder, a {type(portable.module).__name__}, to write {path.name}: "
            f"{reason_of(error)}"
        ) from error
    with quiet():
        run = kind.read(path)
        return max(check_rows(run(given), expected) for given, expected in samples)


def check_rows(rows: Features, expected: Features) -> float:
    """The largest difference of features, relative to the largest feature or to 1.

    Raises:
        ValueError: If it is more than `TOLERANCE`.
    """
    if rows.shape != expected.shape:
        raise ValueError(
            f"the exported encoder gives features of another shape: expected {list(expected.shape)}, got "
            f"{list(rows.shape)}; nothing is written"
        )
    difference = float(np.abs(rows - expected).max() / max(1.0, float(np.abs(expected).max())))
    if not difference <= TOLERANCE:  # NaN is refused too.
        raise ValueError(
            f"the exported encoder should give the features of the run: expected differences of at most {TOLERANCE:g}, "
            f"got {difference:.2g} for {len(rows)} samples; nothing is written"
        )
    return difference


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide what exporters print: notes about torchvision, progress, and that TorchScript is deprecated."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _need_onnx() -> None:
    try:
        import onnxruntime  # noqa: PLC0415 (an extra)
        import onnxscript  # noqa: F401, PLC0415 (an extra; torch needs it)
    except ImportError as error:
        raise ExtraMissingError("--format onnx", "onnxscript or onnxruntime", "export") from error
    onnxruntime.set_default_logger_severity(3)  # Errors alone.


def _write_onnx(portable: Portable, path: Path) -> None:
    given, _ = portable.draw(2, torch.Generator().manual_seed(2))
    shapes = [
        {axis: name for axis, name in enumerate(axes) if isinstance(name, str)} for axes in portable.axes.values()
    ]
    program = torch.onnx.export(
        portable.module,
        given,
        dynamo=True,
        input_names=list(portable.axes),
        output_names=["features"],
        dynamic_shapes=tuple(shapes),
        verbose=False,
    )
    if program is None:
        raise ValueError("torch.onnx.export returned no program")
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()  # They name files of this machine.
    program.save(path, external_data=False)


def _read_onnx(path: Path) -> Runner:
    import onnxruntime  # noqa: PLC0415 (an extra)

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]

    def run(given: tuple[Tensor, ...]) -> Features:
        values = {name: value.numpy() for name, value in zip(names, given, strict=True)}
        rows: Features = session.run(["features"], values)[0]
        return rows

    return run


def _write_torchscript(portable: Portable, path: Path) -> None:
    given, _ = portable.draw(2, torch.Generator().manual_seed(2))
    with torch.no_grad():
        traced = torch.jit.trace(portable.module, given, check_trace=False)  # It is checked on other sizes below.
    whole = io.BytesIO()
    torch.jit.save(traced, whole)
    with zipfile.ZipFile(whole) as archive, zipfile.ZipFile(path, "w") as kept:
        for entry in archive.infolist():
            if not entry.filename.endswith(".debug_pkl"):  # They name files of this machine.
                kept.writestr(entry, archive.read(entry))


def _read_torchscript(path: Path) -> Runner:
    module = torch.jit.load(path, map_location="cpu")

    def run(given: tuple[Tensor, ...]) -> Features:
        with torch.no_grad():
            rows: Features = module(*given).numpy()
        return rows

    return run


FORMATS: Mapping[str, Format] = {
    "onnx": Format(
        file="model.onnx",
        need=_need_onnx,
        write=_write_onnx,
        read=_read_onnx,
        usage='import onnxruntime\n\nsession = onnxruntime.InferenceSession("model.onnx")\n'
        '(features,) = session.run(["features"], inputs)',
    ),
    "torchscript": Format(
        file="model.pt",
        need=lambda: None,
        write=_write_torchscript,
        read=_read_torchscript,
        usage='import torch\n\nmodel = torch.jit.load("model.pt")\n'
        "features = model(*map(torch.from_numpy, inputs.values())).detach().numpy()",
    ),
}
"""The formats that every modality with a portable encoder has, by name."""
