"""A Ray cluster to run on: one that is there already, or one of this machine alone."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from pucl.texts import install

LOCAL = "local"
"""In place of an address: start a cluster here."""
PATIENCE = 10.0  # Seconds after which a host counts as silent.


@contextmanager
def ray_cluster(address: str, cores: int) -> Iterator[None]:
    """A connection to a cluster that joblib can use, for as long as it is needed.

    Args:
        address: HOST:PORT or ray://HOST:PORT, ``"auto"`` to find one here, or `LOCAL` to start one here.
        cores: How many one has that is started here.
    """
    try:
        import ray  # noqa: PLC0415 (an extra)
        from ray.util.joblib import register_ray  # noqa: PLC0415
    except ImportError as error:
        raise ValueError(f"--ray runs on a Ray cluster, which needs ray: {install('ray')}") from error
    begun = not ray.is_initialized()
    if begun and address == LOCAL:
        ray.init(num_cpus=cores, include_dashboard=False, log_to_driver=False)
    elif begun:
        _check_answer(address)
        try:
            ray.init(address=address, log_to_driver=False)
        except ConnectionError as error:
            raise ValueError(f"{_meaning(address)}, and there is none: {error}") from error
    register_ray()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if begun:
            ray.shutdown()


def _check_answer(address: str) -> None:
    """Refuse an address where nobody listens: Ray itself would try for minutes."""
    if address == "auto":
        return
    try:
        place = urlsplit(address if "://" in address else f"ray://{address}")
        host, port = place.hostname, place.port
    except ValueError:  # Of a port that is no number.
        host = port = None
    if host is None or port is None:
        raise ValueError(f"{_meaning(address)}: expected HOST:PORT, auto or {LOCAL}")
    try:
        socket.create_connection((host, port), timeout=PATIENCE).close()
    except OSError as error:
        raise ValueError(f"{_meaning(address)}, and nobody answers there: {error}") from error


def _meaning(address: str) -> str:
    return f"--ray {address} is the address of a Ray cluster"
