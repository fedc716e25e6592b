"""Banking77: questions of a bank's customers, 77 intents.

Reference: I. Casanueva et al., Efficient Intent Detection with Dual Sentence Encoders, NLP for ConvAI 2020.
Licence: CC BY 4.0.
"""

from pucl.data.download import Download
from pucl.data.errors import DataError
from pucl.data.source import Form, Found, Source
from pucl.text.sources.files import Columns, read_texts
from pucl.text.sources.official import checked_paths
from pucl.text.textset import TextData

SITE = "https://raw.githubusercontent.com/PolyAI-LDN/task-specific-datasets/master/banking_data"
DOWNLOADS = (
    Download(url=f"{SITE}/train.csv", sha256="b06e26ac675513959a63135f11b94ea7786ed02da65db93a5650d8838cbc664b"),
    Download(url=f"{SITE}/test.csv", sha256="d12d6e3bc4c3103966ae786dc435913c0c563dfa328f5a3646d0e62cfeeb474d"),
)
COLUMNS = Columns(text="text", label="category")


def read_banking77(found: Found) -> TextData:
    """Read Banking77 with its own test texts."""
    train, test = (read_texts(path, COLUMNS).train for path in checked_paths(found, DOWNLOADS))
    if train.classes != test.classes:
        raise DataError(f"{found.directory}: train and test name different classes")
    return TextData(name="banking77", train=train, test=test)


BANKING77 = Source(
    name="banking77",
    samples="10,003 + 3,080",
    classes=77,
    size="12 words",
    read=read_banking77,
    forms=tuple(
        Form(files=files, directories=("banking77",))
        for files in (("train.csv", "test.csv"), ("banking77-train.csv", "banking77-test.csv"))
    ),
    downloads=DOWNLOADS,
)
