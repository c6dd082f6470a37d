"""Files that begin a piece of one's own work, from the starting points that ship with the package."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Sequence
from importlib import resources
from itertools import count
from pathlib import Path

from thermostats.claims.scripts import NAME
from thermostats.errors import UsageError
from thermostats.tables.atomic import write_all

LETTER = "u"
"""Whose claim it is: the user's."""
LETTERS = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i"})
"""Latin letters that are no letter with an accent, as a file's name writes them."""
HERITAGE = "heritage with my models"
"""What the question of the study is called, asked of one's own models too, where no other title is given."""


def new_claim(name: str, folder: str | Path = "analyses") -> Path:
    """Write an analysis that runs and the file of its words, named after the first free id; the analysis' path.

    name: what the claim is about, such as "depth helps". In the file's name letters lose their accents.

    Raises UsageError where the name has no Latin letters, the folder has an analysis of that name, or no id is free.
    """
    return _begun("claim", name, Path(folder))


def new_heritage(name: str | None = None, folder: str | Path = "analyses", *, gain: str = "penultimate_gain") -> Path:
    """Write an analysis of heritage, geometry and scale in the study's models and the user's; else as `new_claim`."""
    return _begun("heritage", HERITAGE if name is None else name, Path(folder), gain=gain)


def _other(slug: str, there: Sequence[str]) -> str:
    """The same name with a number that is free."""
    taken = {file[4:-3] for file in there}
    number = next(number for number in count(2) if f"{slug}_{number}" not in taken)
    return f"{slug.replace('_', '-')}-{number}"


def _begun(template: str, name: str, folder: Path, **more: str) -> Path:
    slug = re.sub(r"[^a-z0-9]+", "_", _plain(name)).strip("_")
    if not slug:
        allowed = "words in Latin letters, such as depth-helps"
        raise UsageError("a claim's name has no letters", got=repr(name), allowed=allowed)
    there = [path.stem + ".py" for path in folder.glob("*") if path.suffix in (".md", ".py")]
    there = [file for file in there if NAME.fullmatch(file)]
    if same := [file for file in there if file[4:] == f"{slug}.py"]:
        raise UsageError(
            "there is an analysis of that name",
            where=folder / same[0],
            next_step=f"thermostats new {template} {_other(slug, there)}, or open that one",
        )
    taken = {file[:3] for file in there}
    free = [f"{LETTER}{number:02d}" for number in range(1, 100) if f"{LETTER}{number:02d}" not in taken]
    if not free:
        raise UsageError("no id is free for another claim", where=folder, allowed=f"{LETTER}01 … {LETTER}99")
    words = re.sub(r"[\W_]+", " ", unicodedata.normalize("NFC", name)).strip()
    fields = {"id": free[0].upper(), "title": words[0].upper() + words[1:], **more}
    path = folder / f"{free[0]}_{slug}.py"
    templates = resources.files("thermostats").joinpath("starting_points")
    texts = {
        suffix: templates.joinpath(f"{template}{suffix}.txt").read_text(encoding="utf-8") for suffix in (".md", ".py")
    }
    filled = {path.with_suffix(suffix): string.Template(text).substitute(fields) for suffix, text in texts.items()}
    write_all(folder, {file: text.encode() for file, text in filled.items()})
    return path


def _plain(name: str) -> str:
    """A name in small letters without accents: NFKD, its combining marks left out."""
    parts = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", name).casefold().translate(LETTERS))
    return "".join(part for part in parts if not unicodedata.combining(part))
