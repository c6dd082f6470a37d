"""Which files make up a model in GGUF: one, the parts that llama.cpp splits it into, or pieces cut
by size.

Loads neither torch nor the package gguf.
"""

from __future__ import annotations

import re
from pathlib import Path

from thermostats.errors import DataError, UsageError

MAGIC = b"GGUF"
SPLIT = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
"""A part that is a GGUF file of its own, as llama.cpp's gguf-split names it."""
PIECE = re.compile(
    r"(?P<stem>.+)\.gguf(?P<mark>[._-]?(?:part|chunk|shard|split)?[._-]?)(?P<number>\d{1,5})",
    re.IGNORECASE,
)
"""A run of bytes of a GGUF file: model.gguf.part00, model.gguf.001."""
SUFFIX = ".gguf"


def is_gguf(model: str | Path) -> bool:
    """Whether a name is that of a GGUF file, or of a part of one, that is there."""
    path = Path(model).expanduser()
    named = path.suffix.lower() == SUFFIX or PIECE.fullmatch(path.name) is not None
    return named and path.is_file()


def name_gguf_model(path: Path) -> str:
    """Name of the model in a file: without suffix and number of the part."""
    part = SPLIT.fullmatch(path.name) or PIECE.fullmatch(path.name)
    return part["stem"] if part else path.stem


def list_parts(path: Path) -> tuple[Path, ...]:
    """The files that the model in `path` lies in, in order, whichever of them is named.

    Raises DataError where a part is missing, is no part of the same file by its length, or does not
    begin as a GGUF file does; UsageError where there is no such file.
    """
    path = path.expanduser().resolve()
    if not path.is_file():
        raise UsageError("no such GGUF file", got=path, next_step="check the path")
    if split := SPLIT.fullmatch(path.name):
        files = _split(path, split)
    elif piece := PIECE.fullmatch(path.name):
        files = _list_pieces(path, piece)
    else:
        files = (path,)
    opened = files if SPLIT.fullmatch(path.name) else files[:1]
    for file in opened:
        _check_magic(file, cut=len(files) > 1)
    return files


def _split(path: Path, named: re.Match[str]) -> tuple[Path, ...]:
    count = int(named["count"])
    rest = f"of-{named['count']}{path.suffix}"
    names = []
    for i in range(1, count + 1):
        names.append(f"{named['stem']}-{i:05d}-{rest}")
    files = tuple(path.with_name(name) for name in names)
    missing = [file for file in files if not file.is_file()]
    if missing or path not in files:
        step = f"put all {count} parts into one folder and name any of them"
        got = f"{len(missing)} of {count} are not there" if missing else path.name
        raise DataError(
            "a part of the GGUF model is missing",
            where=missing[0] if missing else path,
            got=got,
            next_step=step,
        )
    return files


def _list_pieces(path: Path, named: re.Match[str]) -> tuple[Path, ...]:
    """Pieces next to `path`, numbered without a gap from 0 or 1; all but the last are of one
    length."""
    start = path.name[: named.start("number")]
    pieces = {}
    for file in path.parent.iterdir():
        number = file.name.removeprefix(start)
        if file.name.startswith(start) and number.isascii() and number.isdecimal():
            pieces[int(number)] = file
    first = min(pieces)
    wanted = range(min(first, 1), max(pieces) + 1)
    if lacking := [number for number in wanted if number not in pieces]:
        name = f"{start}{lacking[0]:0{len(named['number'])}d}"
        step = "put all pieces into one folder and name any of them"
        raise DataError(
            "a piece of the GGUF file is missing",
            where=path.with_name(name),
            got=f"{len(pieces)} pieces",
            next_step=step,
        )
    files = tuple(pieces[number] for number in wanted)
    sizes = [file.stat().st_size for file in files]
    odd = next((i for i, size in enumerate(sizes[:-1]) if size != sizes[0]), None)
    if odd is None and sizes[-1] > sizes[0]:
        odd = len(files) - 1
    if odd is not None:
        step = (
            "download that piece again; pieces must be numbered in the order in which they follow "
            "each other"
        )
        allowed = f"{sizes[0]} bytes as the first, the last one at most as many"
        raise DataError(
            "the pieces are not of one file, or not in order",
            where=files[odd],
            got=f"{sizes[odd]} bytes",
            allowed=allowed,
            next_step=step,
        )
    return files


def _check_magic(file: Path, *, cut: bool) -> None:
    with file.open("rb") as stream:
        start = stream.read(len(MAGIC))
    if start == MAGIC:
        return
    step = (
        "number the pieces in their order: the first begins with GGUF"
        if cut
        else "download the file again"
    )
    raise DataError(
        "not a GGUF file",
        where=file,
        got=f"it begins with {start!r}",
        allowed=repr(MAGIC),
        next_step=step,
    )
