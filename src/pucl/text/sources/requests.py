"""Generated requests to an assistant, of eight intents, so that a first run needs no download."""

from collections.abc import Callable, Sequence

import numpy as np

from pucl.data.choosing import TEST_SHARE
from pucl.data.source import Source
from pucl.text.textset import TextData, TextSet

EACH = 90
"""Number of requests of each intent."""

INTENTS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "book a table": (
        ("book", "reserve", "get", "find"),
        ("a table", "seats at the restaurant", "a place to eat", "dinner for two", "somewhere to dine"),
    ),
    "play music": (
        ("play", "put on", "start", "find"),
        ("some jazz", "my favourite song", "the new album", "a playlist", "something with guitars"),
    ),
    "set an alarm": (
        ("set", "start", "put on", "make"),
        ("an alarm", "a wake-up call", "the clock to ring", "a timer", "something that wakes me"),
    ),
    "send money": (
        ("send", "transfer", "pay", "move"),
        ("fifty pounds", "the rent", "some cash to my sister", "what i owe", "money to savings"),
    ),
    "weather": (
        ("show", "tell me", "check", "find out"),
        ("the forecast", "if it will rain", "how warm it gets", "whether i need a coat", "the chance of snow"),
    ),
    "directions": (
        ("show", "find", "tell me", "check"),
        ("the way home", "the quickest route", "how to reach the station", "the road to the airport", "where to turn"),
    ),
    "shopping list": (
        ("add", "put", "write down", "move"),
        ("milk to my groceries", "eggs on the list", "what we must buy", "bread for the weekend", "more coffee"),
    ),
    "cancel a trip": (
        ("cancel", "call off", "undo", "drop"),
        ("my flight", "the hotel", "our holiday", "the journey", "the tickets to rome"),
    ),
}
"""By intent: verbs and objects. Some verbs are shared by several intents, and objects of one intent share few words."""

FRAMES = ("{}", "please {}", "can you {}", "i want to {}", "{} for me", "would you {}", "i need you to {}", "hey, {}")
DETAILS = ("", "now", "tomorrow", "at noon", "for tonight", "on friday", "when you can", "as i asked you yesterday")


def make_requests(each: int = EACH) -> TextData:
    """Make requests: a verb and an object of an intent, in a frame and with a detail that say nothing of it.

    Two requests of one intent may share no word, while requests of two intents may differ in two words alone. The
    requests are the same on every machine: only ``random`` is called, whose numbers stay the same in all versions of
    numpy. No request occurs twice.

    Args:
        each: Number of requests of each intent.

    Example:
        >>> data = make_requests(each=10)
        >>> len(data.train), len(data.test), len(data.train.classes)
        (64, 16, 8)
    """
    most = 4 * 5 * len(FRAMES) * len(DETAILS) // 2
    if not 5 <= each <= most:
        raise ValueError(f"each is the number of requests of each intent: expected 5 to {most}, got {each}")
    draw = np.random.Generator(np.random.PCG64(0)).random
    texts: dict[str, int] = {}
    for label, (verbs, objects) in enumerate(INTENTS.values()):
        while len(texts) < (label + 1) * each:
            action = f"{_one(verbs, draw)} {_one(objects, draw)}"
            texts.setdefault(f"{_one(FRAMES, draw).format(action)} {_one(DETAILS, draw)}".strip(), label)
    requests = TextSet(texts=tuple(texts), labels=np.array(list(texts.values()), np.int64), classes=tuple(INTENTS))
    parts = requests.split(TEST_SHARE)
    if parts is None:
        raise ValueError(f"a fifth of the requests is held out: expected more of each intent, got {each}")
    return TextData(name="requests", train=parts[0], test=parts[1])


def _one(words: Sequence[str], draw: Callable[[], float]) -> str:
    return words[int(draw() * len(words))]


REQUESTS = Source(
    name="requests",
    samples="576 + 144",
    classes=len(INTENTS),
    size="6 words",
    read=lambda _found: make_requests(),
    without_files="is generated",
)
