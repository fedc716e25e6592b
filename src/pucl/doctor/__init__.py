"""What this installation is, what this machine can do, and whether the losses do here what they should.

Every check returns `Finding` records and none prints; ``pucl doctor`` does. Many processes are compared with one by
`certify`.
"""

from pucl.doctor.certificate import PATIENCE, Certificate, ProcessesError, certify, check_world_size, run_together
from pucl.doctor.finding import Finding, guarded
from pucl.doctor.installation import find_extras, find_versions
from pucl.doctor.losses import (
    check_alpha_zero_equals_plain,
    check_dense_equals_streaming,
    check_gradients_are_finite,
    check_pucl_equals_debiased,
)
from pucl.doctor.machine import find_devices, find_gloo, find_half_precision, find_machine

__all__ = [
    "PATIENCE",
    "Certificate",
    "Finding",
    "ProcessesError",
    "certify",
    "check_world_size",
    "examine",
    "run_together",
]


def examine() -> dict[str, list[Finding]]:
    """All checks that need no other processes than a child for a moment, by topic."""
    return {
        "Installation": [*find_versions(), *find_extras()],
        "Machine": [*find_machine(), *find_devices(), find_gloo(), *find_half_precision()],
        "Losses": [
            guarded("dense = streaming", check_dense_equals_streaming),
            guarded("PUCL = DEB at tau'", check_pucl_equals_debiased),
            guarded("alpha 0 = no correction", check_alpha_zero_equals_plain),
            guarded("gradients at t = 0.01", check_gradients_are_finite),
        ],
    }
