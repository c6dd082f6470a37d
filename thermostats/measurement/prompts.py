"""Prompt sets: those of the data folder by name, and a user's own from a text, CSV or JSONL
file."""

from __future__ import annotations

import hashlib
import io
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.errors import DataError, UsageError
from thermostats.measurement.batching import ImagePrompt
from thermostats.measurement.spec import (
    MADE,
    Records,
    build_set_error,
    is_shipped_set,
    parse_csv_records,
    parse_jsonl_records,
    read_text,
)
from thermostats.tables import store
from thermostats.tables.labels import find_misspelt, find_repeated_texts
from thermostats.tables.runs import hash_prompts

Pixels = NDArray[np.uint8]
SIDE = 224
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tiff")
CATEGORIES: dict[str, tuple[float, ...]] = {
    "noise": (0.0, 0.5, 1.0, 1.5, 2.0),
    "grating": (4.0, 8.0, 16.0, 32.0, 64.0),
    "texture": (7.0, 14.0, 28.0, 56.0, 112.0),
    "disc": (10.0, 25.0, 40.0, 70.0, 100.0),
    "polygon": (3.0, 4.0, 5.0, 6.0, 8.0),
}
"""Category → slope of the noise's spectrum, period of gratings, side of a checkerboard's squares,
radius, corners."""


def render(recipe: str) -> Pixels:
    """The image (224 × 224 × 3) of a recipe such as ``noise 1.5``. Raises DataError for a recipe
    that there is not."""
    category, _, text = recipe.partition(" ")
    values = CATEGORIES.get(category, ())
    if text not in map(str, values):
        allowed = f"{', '.join(CATEGORIES)} and a number"
        raise DataError("no such recipe for an image", got=recipe, allowed=allowed)
    value = float(text)
    grey = _draw_noise(value) if category == "noise" else _draw_shape(category, value)
    green = 0.6 + 0.4 * np.cos(value)
    blue = 0.6 + 0.4 * np.sin(value)
    tint = np.array([1.0, green, blue])
    coloured = grey[..., None] / np.abs(grey).max() * tint
    pixels: Pixels = np.rint(127.5 * (1 + coloured)).astype(np.uint8)
    return pixels


def _draw_shape(category: str, value: float) -> NDArray[np.float64]:
    """A shape from −1, black, to 1, white, around the middle of the image."""
    middle = (SIDE - 1) / 2
    y, x = np.mgrid[:SIDE, :SIDE] - middle
    radius = np.hypot(x, y)
    if category == "grating":
        waves: NDArray[np.float64] = np.sin(2 * np.pi * (x + y) / value)
        return waves
    if category == "texture":
        squares = np.floor(x / value) + np.floor(y / value)
        inside = squares % 2 == 0
    elif category == "disc":
        inside = radius < value
    else:
        sector = np.arctan2(y, x) % (2 * np.pi / value)
        from_middle_of_side = sector - np.pi / value
        inside = radius * np.cos(from_middle_of_side) < 60
    return np.where(inside, 1.0, -1.0)


def _draw_noise(slope: float) -> NDArray[np.float64]:
    """Noise whose amplitude falls with frequency f as f^-slope."""
    rows = np.fft.fftfreq(SIDE)[:, None]
    columns = np.fft.rfftfreq(SIDE)[None, :]
    frequency = np.hypot(rows, columns)
    frequency[0, 0] = 1.0
    normal = np.random.default_rng(0).standard_normal((SIDE, SIDE))
    white = np.fft.rfft2(normal)
    return np.fft.irfft2(white * frequency**-slope, s=(SIDE, SIDE))


def build_made_images() -> pd.DataFrame:
    """Rows of the table `prompts` of the set that is made by code: recipes, and hashes of what they
    give."""
    images = []
    for category, values in CATEGORIES.items():
        for value in values:
            recipe = f"{category} {value}"
            images.append((recipe.replace(" ", "-"), recipe, category, render(recipe)))
    return _build_rows(MADE, images)


def read_images(folder: Path) -> pd.DataFrame:
    """Rows of the table `prompts` of a folder of images, called as the folder is; a subfolder names
    the category.

    Raises UsageError where there is none, DataError where one cannot be read.
    """
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    if not paths:
        raise UsageError("no images in this folder", where=folder, allowed=", ".join(SUFFIXES))
    rows = []
    for path in paths:
        name = path.relative_to(folder).as_posix()
        category = path.parent.name if "/" in name else ""
        rows.append((name, name, category, read_image(path)))
    return _build_rows(folder.resolve().name, rows)


def read_image(path: Path) -> Pixels:
    """An image file as red, green and blue, whatever its colours are. Raises DataError where it is
    damaged."""
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415

    try:
        with Image.open(path) as image:
            return np.asarray(image.convert("RGB"))
    except (
        OSError,
        ValueError,
        SyntaxError,
        UnidentifiedImageError,
        Image.DecompressionBombError,
    ) as error:
        raise DataError("image cannot be read", where=path, got=str(error)[:160]) from error


def prepare_images(processor: Any, rows: Iterable[Any], folder: Path | None) -> list[ImagePrompt]:
    """Images of rows of `prompts` as the model's own processor makes them; `folder` of a user's
    own.

    Raises DataError where one is no longer what its hash is of.
    """
    images = []
    for row in rows:
        pixels = render(row.text) if folder is None else read_image(folder / row.text)
        if hash_pixels(pixels) != row.text_sha256:
            raise DataError("an image does not match its hash", where=f"image {row.prompt_id}")
        made = processor(images=pixels, return_tensors="pt")["pixel_values"]
        images.append(ImagePrompt(str(row.prompt_id), made[0]))
    return images


def hash_pixels(pixels: Pixels) -> str:
    """SHA-256 of an image's shape and bytes, in hexadecimal."""
    return hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes()).hexdigest()


def _build_rows(name: str, images: list[tuple[str, str, str, Pixels]]) -> pd.DataFrame:
    rows = []
    for prompt_id, text, category, pixels in images:
        rows.append(
            {
                "prompt_id": prompt_id,
                "text": text,
                "category": category,
                "text_sha256": hash_pixels(pixels),
            }
        )
    unranked = pd.array([None] * len(rows), "Int64")
    return pd.DataFrame(rows).assign(prompt_set=name, modality="image", complexity=unranked)


Row = dict[str, Any]
LARGEST_RANK = 10**9
FIELDS = ("prompt_id", "text", "category", "complexity")


def load_prompts(name: str, data: str | Path | None = None) -> pd.DataFrame:
    """Rows of the table `prompts`, sorted by prompt_id, of the set called `name`, else of the file
    at that path.

    A folder is one of images; the set ``images`` is made by code.

    A file is `.txt` (one prompt per line), `.csv` (a column text, and where wanted prompt_id,
    category, complexity) or `.jsonl` (one object a line with the same names); its set is called as
    the file is, without the suffix.

    Raises UsageError where there is neither set nor file, DataError where a prompt is empty, a
    prompt_id occurs twice, a text is not UTF-8, or the texts of a set are not shipped and were not
    imported.
    """
    prompts = store.load("prompts", data)
    path = Path(name)
    rows = prompts[prompts["prompt_set"] == name].reset_index(drop=True)
    if len(rows) and (is_shipped_set(name) or not path.is_dir()):
        return rows if (rows["modality"] == "image").all() else _add_texts(rows, name)
    if name == MADE:
        return store.validate(build_made_images(), "prompts")
    if not path.exists():
        raise build_set_error(name, prompts["prompt_set"])
    rows = (
        store.validate(read_images(path), "prompts", path) if path.is_dir() else read_prompts(path)
    )
    taken = prompts[prompts["prompt_set"] == path.stem]
    if len(taken) and hash_prompts(taken) != hash_prompts(rows):
        what = (
            "the tables hold a prompt set of this name with other prompts, on which models were "
            "measured"
        )
        raise UsageError(
            what, where=path, got=path.stem, next_step="give the changed file another name"
        )
    return rows


def read_prompts(path: Path) -> pd.DataFrame:
    """Prompts of a user's file as rows of the table `prompts`; see `load_prompts`."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        allowed = ", ".join(READERS)
        raise UsageError(
            "prompts are read from text, CSV or JSONL", where=path, got=path.suffix, allowed=allowed
        )
    rows: dict[str, Row] = {}
    for where, fields in reader(read_text(path, "prompts"), path):
        row = _check_prompt(fields, where, len(rows) + 1)
        if row["prompt_id"] in rows:
            raise DataError("a prompt_id occurs twice", where=where, got=repr(row["prompt_id"]))
        rows[row["prompt_id"]] = row
    if not rows:
        raise DataError(
            "no prompts in this file", where=path, next_step="write one prompt per line"
        )
    frame = pd.DataFrame(rows.values(), columns=FIELDS).assign(prompt_set=path.stem)
    _check_unique(frame, path)
    frame["text_sha256"] = [hash_text(text) for text in frame["text"]]
    frame["complexity"] = pd.array(frame["complexity"].tolist(), dtype="Int64")
    return store.validate(frame, "prompts", path)


def _check_unique(prompts: pd.DataFrame, path: Path) -> None:
    """DataError where one text stands under several names, or two names differ in spelling
    alone."""
    if apart := find_misspelt(prompts["prompt_id"]):
        name, other = next(iter(apart.items()))
        what = "names of prompts that differ in spelling alone"
        raise DataError(
            what, where=path, got=f"{name!r} and {other!r}", next_step="call them by other names"
        )
    if repeated := find_repeated_texts(prompts["prompt_id"], prompts["text"]):
        text, names = next(iter(repeated.items()))
        once = path.with_stem(f"{path.stem}-once")
        alone = f"awk '!there[$0]++' {shlex.quote(str(path))} > {shlex.quote(str(once))}"
        n = len(names)
        got = f"{', '.join(names[:5])}: {text[:40]!r}"
        step = alone if path.suffix == ".txt" else "keep one of them"
        raise DataError(
            f"one text {n} times is not {n} prompts", where=path, got=got, next_step=step
        )


def hash_text(text: str) -> str:
    """SHA-256 of a text in UTF-8, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def _add_texts(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    if (rows["text"] == "").any():
        step = (
            "thermostats join FILE --data mine fills them in, from a file with prompt_set, "
            "prompt_id and text"
        )
        what = f"the texts of prompt set {name} are not shipped, since we may not ship them"
        raise DataError(what, got=f"{len(rows)} hashes", next_step=step)
    wrong = []
    for row in rows.itertuples():
        if hash_text(str(row.text)) != row.text_sha256:
            wrong.append(row.prompt_id)
    if wrong:
        raise DataError(
            f"a text of prompt set {name} does not match its hash", where=f"prompt {wrong[0]}"
        )
    return rows


def _read_text_lines(text: str, path: Path) -> Records:
    lines = enumerate(io.StringIO(text, newline=None), 1)
    text_lines = []
    for number, line in lines:
        text_lines.append((f"{path}, line {number}", {"text": line.rstrip("\n")}))
    return text_lines


READERS: dict[str, Callable[[str, Path], Records]] = {
    ".txt": _read_text_lines,
    ".csv": parse_csv_records,
    ".jsonl": parse_jsonl_records,
}


def _check_prompt(fields: dict[Any, Any], where: str, number: int) -> Row:
    """One prompt with all its fields; prompts without a prompt_id are numbered p001, p002, …."""
    names = [str(name) for name in fields if name is not None]
    unknown = [name for name in names if name not in FIELDS]
    if unknown or "text" not in fields:
        what = "unknown field" if unknown else "the field text is missing"
        raise DataError(
            what, where=where, got=", ".join(unknown or names), allowed=", ".join(FIELDS)
        )
    text = fields.get("text")
    name = fields.get("prompt_id")
    category = fields.get("category")
    for label, value in {"text": text, "prompt_id": name, "category": category}.items():
        if value is not None and not isinstance(value, str):
            raise DataError(f"{label} is not text", where=where, got=repr(value)[:60])
        if (
            value is not None
            and not value.isascii()
            and any("\ud800" <= character <= "\udfff" for character in value)
        ):
            raise DataError(f"{label} holds half a character", where=where, got=ascii(value)[:60])
    if None in fields or not text or not text.strip():
        what = "more cells than columns" if None in fields else "empty prompt"
        raise DataError(what, where=where, next_step="remove the line or fill it")
    rank = _rank(fields.get("complexity"), where)
    return {
        "prompt_id": name or f"p{number:03d}",
        "text": text,
        "category": category or "",
        "complexity": rank,
    }


def _rank(value: Any, where: str) -> int | None:
    if value is None or value == "":
        return None
    try:
        if isinstance(value, bool | float) or abs(int(value)) > LARGEST_RANK:
            raise ValueError
        return int(value)
    except (TypeError, ValueError) as error:
        raise DataError(
            "complexity is not a whole number", where=where, got=repr(value)[:60]
        ) from error
