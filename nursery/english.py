"""English prose in the public domain: Jane Austen's six novels (1811–1818), from the Debian package
r-cran-janeaustenr.

The package keeps the texts of Project Gutenberg as R's lazy-load database `data/Rdata.rdb`: blocks
one after the other, each a length of four bytes and a zlib stream, in it a character vector in R's
XDR serialization (R Internals, "1.8 Serialization Formats"). Both are read here, so that R is not
needed. The novels are in the public domain; the package around them is under the MIT licence.
"""

from __future__ import annotations

import io
import re
import struct
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from thermostats.errors import DataError, ThermostatsError

PACKAGE = "r-cran-janeaustenr"
LICENCE = "public domain"
SHA256 = "f3351faf0be11ba4a7ca88bb309bdf5e2f34c19ef60fefbeeb925536f6aa7d4e"
"""Of `english.txt` made from version 1.0.0 of the package, the text the shipped models were trained
on."""
_MEMBER = "janeaustenr/data/Rdata.rdb"
_CHARACTERS = 16
_STRING = 9  # R's codes of a character vector and of one string
_HEADING = re.compile(r"^chapter +[\dIVXLC]+\b", re.IGNORECASE | re.MULTILINE)
_END = re.compile(
    r"^(?:the end|finis|volume +[\dIVXLC]+|a note on the text) *$", re.IGNORECASE | re.MULTILINE
)
_OTHER_TEXT = "or give a text of your own with --text FILE"


def fetch() -> str:
    """The novels, one after the other in alphabetical order of their titles; downloads 1.6 MB by
    `apt-get download`.

    Raises ThermostatsError where there is no apt-get, it has no such package, or the package is not
    as described above.
    """
    with tempfile.TemporaryDirectory() as folder:
        _run(["apt-get", "download", PACKAGE], Path(folder))
        packages = sorted(Path(folder).glob(f"{PACKAGE}_*.deb"))
        if len(packages) != 1:
            raise ThermostatsError(
                "apt-get downloaded no package", got=f"{len(packages)} files", next_step=_OTHER_TEXT
            )
        archive = _run(["dpkg-deb", "--fsys-tarfile", str(packages[0])], Path(folder))
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        names = [name for name in tar.getnames() if name.endswith(_MEMBER)]
        member = tar.extractfile(names[0]) if len(names) == 1 else None
        if member is None:
            raise DataError(
                "the package has no texts", where=PACKAGE, got=f"{len(names)} × {_MEMBER}"
            )
        return "\n\nTHE END\n\n".join("\n".join(lines) for lines in vectors(member.read()))


def vectors(database: bytes) -> Iterator[list[str]]:
    """The character vectors of a lazy-load database in their order. Raises DataError where it is
    not of that form."""
    while database:
        stream = zlib.decompressobj()
        try:
            block = stream.decompress(database[4:])
            if not stream.eof or len(block) != struct.unpack_from(">i", database)[0]:
                raise ValueError("a block is not as long as it says")
            yield _strings(block)
        except (ValueError, zlib.error, struct.error) as error:
            raise DataError(
                f"R's database cannot be read: {error}", next_step=_OTHER_TEXT
            ) from error
        database = stream.unused_data


def _strings(block: bytes) -> list[str]:
    """Strings of one serialised character vector; each is its type and flags, its length in bytes,
    and the bytes."""
    stream = io.BytesIO(block)

    def number() -> int:
        return int(struct.unpack(">i", stream.read(4))[0])

    head = stream.read(2)
    version = number()
    stream.read(8)  # the versions of R that wrote it and that can read it
    if version == 3:
        stream.read(number())  # the name of the writer's encoding; each string says its own
    if head != b"X\n" or version not in {2, 3} or number() & 0xFF != _CHARACTERS:
        raise ValueError("not a character vector")
    strings = []
    for _ in range(number()):
        if number() & 0xFF != _STRING:
            raise ValueError("not a string")
        strings.append(stream.read(number()).decode("utf-8"))
    return strings


def documents(text: str) -> list[str]:
    """The chapters of a text, in order: from the line `Chapter 1` on to the next such line, the end
    or a new volume.

    What stands before the first chapter and behind an end is left out. A text with form feeds is
    cut at these instead, and all of it is kept. Lines of a paragraph are joined by spaces, and
    paragraphs end with a line break.
    """
    text = text.replace("\r\n", "\n")
    if "\f" in text:
        parts = text.split("\f")
    else:
        starts = [match.start() for match in _HEADING.finditer(text)]
        chapters = [text[start:end] for start, end in pairwise([*starts, len(text)])]
        parts = [_END.split(chapter, maxsplit=1)[0] for chapter in chapters]
    paragraphs = [
        [
            " ".join(paragraph.split())
            for paragraph in re.split(r"\n\s*\n", part)
            if paragraph.strip()
        ]
        for part in parts
    ]
    return ["\n".join(part) + "\n" for part in paragraphs if part]


def _run(command: list[str], folder: Path) -> bytes:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)  # noqa: S603
    except FileNotFoundError as error:
        raise ThermostatsError(
            f"{command[0]} is not on this machine",
            next_step="run this on Debian or Ubuntu, " + _OTHER_TEXT,
        ) from error
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise ThermostatsError(
            f"{command[0]} failed",
            where=PACKAGE,
            got=lines[-1] if lines else f"exit code {done.returncode}",
            next_step="apt-get update as root, " + _OTHER_TEXT,
        )
    return done.stdout
