"""Taking an encoder away: files that run without pucl, and a folder that Hugging Face's hub accepts."""

from pucl.export.folder import export_run
from pucl.export.formats import FORMATS

__all__ = ["FORMATS", "export_run"]
