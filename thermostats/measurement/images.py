"""Images as prompts: a set of 25 that code makes, or a user's folder, and through the model's own processor."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.errors import DataError, UsageError
from thermostats.measurement.batching import ImagePrompt
from thermostats.measurement.spec import MADE

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
"""Category → slope of the noise's spectrum, period of gratings, side of a checkerboard's squares, radius, corners."""


def render(recipe: str) -> Pixels:
    """The image (224 × 224 × 3) of a recipe such as ``noise 1.5``. Raises DataError for a recipe that there is not."""
    category, _, text = recipe.partition(" ")
    values = CATEGORIES.get(category, ())
    if text not in map(str, values):
        raise DataError("no such recipe for an image", got=recipe, allowed=f"{', '.join(CATEGORIES)} and a number")
    value = float(text)
    y, x = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2
    angle, radius = np.arctan2(y, x), np.hypot(x, y)
    made: dict[str, Callable[[], NDArray[np.float64]]] = {
        "noise": lambda: _noise(value),
        "grating": lambda: np.sin(2 * np.pi * (x + y) / value),
        "texture": lambda: np.where((np.floor(x / value) + np.floor(y / value)) % 2 == 0, 1.0, -1.0),
        "disc": lambda: np.where(radius < value, 1.0, -1.0),
        "polygon": lambda: np.where(radius * np.cos((angle % (2 * np.pi / value)) - np.pi / value) < 60, 1.0, -1.0),
    }
    grey = made[category]()
    tint = np.array([1.0, 0.6 + 0.4 * np.cos(value), 0.6 + 0.4 * np.sin(value)])
    scaled: Pixels = np.rint(127.5 * (1 + grey[..., None] / np.abs(grey).max() * tint)).astype(np.uint8)
    return scaled


def _noise(slope: float) -> NDArray[np.float64]:
    """Noise whose amplitude falls with frequency f as f^-slope."""
    frequency = np.hypot(np.fft.fftfreq(SIDE)[:, None], np.fft.rfftfreq(SIDE)[None, :])
    frequency[0, 0] = 1.0
    white = np.fft.rfft2(np.random.default_rng(0).standard_normal((SIDE, SIDE)))
    return np.fft.irfft2(white * frequency**-slope, s=(SIDE, SIDE))


def made_images() -> pd.DataFrame:
    """Rows of the table `prompts` of the set that is made by code: recipes, and hashes of what they give."""
    recipes = [(category, f"{category} {value}") for category, values in CATEGORIES.items() for value in values]
    return _rows(MADE, [(recipe.replace(" ", "-"), recipe, category, render(recipe)) for category, recipe in recipes])


def read_images(folder: Path) -> pd.DataFrame:
    """Rows of the table `prompts` of a folder of images, called as the folder is; a subfolder names the category.

    Raises UsageError where there is none, DataError where one cannot be read.
    """
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    if not paths:
        raise UsageError("no images in this folder", where=folder, allowed=", ".join(SUFFIXES))
    named = [(path.relative_to(folder).as_posix(), path) for path in paths]
    rows = [(name, name, path.parent.name if "/" in name else "", read_image(path)) for name, path in named]
    return _rows(folder.resolve().name, rows)


def read_image(path: Path) -> Pixels:
    """An image file as red, green and blue, whatever its colours are. Raises DataError where it is damaged."""
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415 - loaded only where images are

    try:
        with Image.open(path) as image:
            return np.asarray(image.convert("RGB"))
    except (OSError, ValueError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise DataError("image cannot be read", where=path, got=str(error)[:160]) from error


def processed(processor: Any, rows: Iterable[Any], folder: Path | None) -> list[ImagePrompt]:
    """Images of rows of `prompts` as the model's own processor makes them; `folder` of a user's own.

    Raises DataError where one is no longer what its hash is of.
    """
    images = []
    for row in rows:
        pixels = render(row.text) if folder is None else read_image(folder / row.text)
        if pixel_sha256(pixels) != row.text_sha256:
            raise DataError("an image does not match its hash", where=f"image {row.prompt_id}")
        made = processor(images=pixels, return_tensors="pt")["pixel_values"]
        images.append(ImagePrompt(str(row.prompt_id), made[0]))
    return images


def pixel_sha256(pixels: Pixels) -> str:
    """SHA-256 of an image's shape and bytes, in hexadecimal."""
    return hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes()).hexdigest()


def _rows(name: str, images: list[tuple[str, str, str, Pixels]]) -> pd.DataFrame:
    rows = [
        {"prompt_id": prompt_id, "text": text, "category": category, "text_sha256": pixel_sha256(pixels)}
        for prompt_id, text, category, pixels in images
    ]
    return pd.DataFrame(rows).assign(
        prompt_set=name, modality="image", complexity=pd.array([None] * len(rows), "Int64")
    )
