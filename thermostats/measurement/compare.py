"""Two models of one shape: which tensors changed, by how much and in what rank, and what that did
to their gains.

Distance of a tensor: ‖B − A‖_F / ‖A‖_F. Rank of a change D = B − A of a matrix: (Σσ²)² / Σσ⁴ =
‖D‖_F⁴ / ‖DDᵀ‖_F², the participation ratio of its squared singular values, between 1 and the rank; a
change of rank r (LoRA) has at most r.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.errors import SHOWN_OF, DataError, ThermostatsError, UsageError, join_some
from thermostats.measurement.checkpoint import BUFFERS, StoredTensor, decode, open_checkpoint
from thermostats.measurement.gguf_files import prepare_gguf_folder
from thermostats.measurement.gguf_parts import SUFFIX
from thermostats.measurement.hub import fetch_model_folder
from thermostats.measurement.same_function import IN_BLOCK, measure_function_distance, measure_ratio
from thermostats.measurement.spectra import find_named, hash_model
from thermostats.next_steps import write_command, write_value
from thermostats.tables import reading, store
from thermostats.tables.choices import MAIN, split_revision
from thermostats.tables.frames import read_frame
from thermostats.tables.runs import read_hashes
from thermostats.tables.schemas import GAINS
from thermostats.tables.tree import Array

Matrix = NDArray[np.float64]
NAMED = 5
"""Tensors that a refusal names."""
SPECTRA = "spectra"
"""Folder for weights that are measured to be compared."""


@dataclass(frozen=True)
class Comparison:
    """What differs between two models; `tensors` and `gains` are tables, the rest their sums."""

    first: Path
    second: Path
    tensors: pd.DataFrame
    """tensor, shape, numbers, distance, rank (of matrices that changed), full_rank: the most that
    it could be."""
    gains: pd.DataFrame
    """gain, source, prompt_set, first, second, ratio of second to first; empty where no source has
    both on one set."""
    distance: float
    """Distance of all tensors together."""
    notes: tuple[str, ...] = ()
    """What is not compared: heads that only one of the two has."""
    function: float = math.nan
    """Distance as functions, see `same_function`: 0, but for rounding, says that they are the
    same."""
    function_parts: pd.DataFrame = field(default_factory=pd.DataFrame)
    """layer, part and distance of the canonical forms."""
    function_notes: tuple[str, ...] = ()
    """Why there is no such distance, or what it does not see."""

    def __repr__(self) -> str:
        apart = f"as functions {self.function:.4g}, as stored {self.distance:.4g}"
        lines = [f"{self.first} and {self.second}: {apart}"]
        changed = f"{len(self.changed)} of {len(self.tensors)} tensors differ"
        lines.append(f"{changed}; {len(self.gains)} gains of both")
        return "\n".join([*lines, *self.notes])

    @property
    def changed(self) -> pd.DataFrame:
        """Tensors that differ, those that changed most first."""
        rows = self.tensors[self.tensors["distance"] > 0]
        return rows.sort_values("distance", ascending=False, kind="stable", ignore_index=True)


def compare(first: str | Path, second: str | Path, *, data: str | Path | None = None) -> Comparison:
    """Compare two models, tensor by tensor, and their gains where the tables hold both.

    Models are folders, GGUF files or hub ids, behind an @ a revision; what is not on this machine
    is downloaded.

    Tensors are read one at a time and compared in float64; bfloat16 and float16 are exact there. Of
    masks, frequencies and numbers of positions nothing is said, and heads that only one has are
    named in `notes`. Gains are those of runs whose hash is the folder's, of one source on one
    prompt set. As functions models of some classes are compared, of others `function_notes` says
    why not.

    Raises UsageError for models of different blocks or shapes, DataError for folders that cannot be
    read.
    """
    here = find_folder(first)
    there = find_folder(second)
    named = [(str(first), here), (str(second), there)]
    shared, notes = find_shared_tensors(named)
    rows = []
    square = 0.0
    total = 0.0
    for first_tensor, second_tensor in shared:
        name = first_tensor.name
        x, y = map(_read_finite, (first_tensor, second_tensor))
        change = y - x
        moved = float(np.square(change).sum())
        size = float(np.square(x).sum())
        square = square + moved
        total = total + size
        matrix = change[:, None]
        if change.ndim > 1:
            matrix = change.reshape(change.shape[0], -1)
        shape = " × ".join(map(str, x.shape))
        relative = measure_ratio(moved, size)
        rank = measure_effective_rank(matrix)
        rows.append((name, shape, x.size, relative, rank, min(matrix.shape)))
    tensors = pd.DataFrame(
        rows, columns=["tensor", "shape", "numbers", "distance", "rank", "full_rank"]
    )
    as_functions = _compare_functions(here, there)
    gains = _compare_gains(here, there, data)
    distance = measure_ratio(square, total)
    return Comparison(here, there, tensors, gains, distance, tuple(notes), *as_functions)


def find_folder(model: str | Path) -> Path:
    """The folder of a model: of a hub id, behind an @ a revision, the one it is downloaded to; that
    of a GGUF file is made from it.

    Raises as `fetch_model_folder` does.
    """
    path = Path(model).expanduser()
    if path.exists():
        return prepare_gguf_folder(path) if path.suffix == SUFFIX and path.is_file() else path
    name, revision = split_revision(str(model))
    return fetch_model_folder(name, revision=revision or MAIN).path


def _read_finite(stored: StoredTensor) -> Matrix:
    """A tensor in float64; DataError by its name and file where a number of it is not finite."""
    tensor = decode(stored.read_raw()).astype(np.float64)
    if not np.isfinite(tensor).all():
        raise DataError(
            "a weight is no finite number",
            where=f"{stored.name} in {stored.path}",
            got="not a number, or infinite",
        )
    return tensor


def _compare_functions(here: Path, there: Path) -> tuple[float, pd.DataFrame, tuple[str, ...]]:
    try:
        apart = measure_function_distance(here, there)
    except ThermostatsError as error:
        details = (error.where, f"got {error.got}" if error.got else "")
        place = "; ".join(filter(None, details))
        said = f"not compared as functions: {error.what}"
        if place:
            said += f" ({place})"
        return math.nan, pd.DataFrame(), (said,)
    return apart.distance, apart.parts, apart.notes


def measure_effective_rank(change: Matrix) -> float:
    """(Σσ²)² / Σσ⁴ of a matrix, by the smaller of its two Gram matrices; NaN where nothing
    changed."""
    wide = change if change.shape[0] <= change.shape[1] else change.T
    largest = float(np.abs(wide).max(initial=0.0))
    if largest == 0 or not math.isfinite(largest):
        return math.nan
    gram = (wide / largest) @ (wide / largest).T
    return float(np.trace(gram) ** 2 / np.square(gram).sum())


def _count_dots(names: Collection[str]) -> float:
    """Mean number of dots in a name."""
    return float(np.mean([name.count(".") for name in names]))


def find_shared_tensors(
    models: Sequence[tuple[str, Path]],
) -> tuple[list[list[StoredTensor]], list[str]]:
    """Tensors that are weights and that every model has, and of each model what is left out.

    Names agree but for a prefix that models for a task put before those of the body. Raises
    UsageError where a block's tensor is not in all, or where shapes differ.
    """
    stored = []
    for _, folder in models:
        tensors = open_checkpoint(folder)
        weights = {}
        for name, each in tensors.items():
            if not name.endswith(BUFFERS):
                weights[name] = each
        stored.append(weights)
    bare = min(stored, key=_count_dots)
    shared = []
    for name in bare:
        found = [find_named(weights, (name,)) for weights in stored]
        same = [tensor for tensor in found if tensor is not None]
        if len(same) == len(stored):
            shared.append(same)
    left = list[str]()
    apart = list[str]()
    for i, ((model, _), tensors) in enumerate(zip(models, stored, strict=True)):
        common = {same[i].name for same in shared}
        alone = [name for name in tensors if name not in common]
        apart += [f"{name} of {model} is not in all" for name in alone if IN_BLOCK.search(name)]
        numbers = {name: math.prod(tensor.shape) for name, tensor in tensors.items()}
        share = sum(numbers[name] for name in alone) / sum(numbers.values())
        if alone:
            left.append(
                f"{model}: {share:.1%} of its numbers not compared, {_join_names(alone, 3)}"
            )
    for same in shared:
        first = same[0]
        others = [other.shape for other in same if other.shape != first.shape]
        apart += [f"{first.name} {first.shape} and {shape}" for shape in others]
    if apart or not shared:
        folders = ", ".join(str(folder) for _, folder in models)
        got = _join_names(apart, NAMED) if apart else "no tensor in common"
        command = _write_spectra_command([model for model, _ in models])
        raise UsageError(
            "the models have not the same tensors, so nothing can be subtracted",
            where=folders,
            got=got,
            allowed="models of one shape, such as a base model and those tuned from it",
            next_step=f"compare others by their spectra: {command}",
        )
    return shared, left


def _write_spectra_command(models: Sequence[str]) -> str:
    """The line for a shell that measures weights of models of any shape and prints the angles
    between their spectra."""
    measured = write_command("measure", *models, what="weights", data=SPECTRA)
    rows = f'rows = thermostats.load("weights", "{SPECTRA}", models=True)'
    names = []
    for model in models:
        folder = Path(model)
        names.append(folder.resolve().name if folder.is_dir() else model)
    angles = f"print(thermostats.spectral_angles(rows[rows.model_id.isin({write_value(names)})]))"
    return f"{measured} && python -c {shlex.quote(f'import thermostats; {rows}; {angles}')}"


def _join_names(names: list[str], most: int) -> str:
    more = len(names) - most
    joined = ", ".join(names[:most])
    return f"{joined} and {more} more" if more > 0 else joined


def _compare_gains(first: Path, second: Path, data: str | Path | None) -> pd.DataFrame:
    """Named gains of both models by sources that measured both."""
    columns = ["gain", "source", "prompt_set", "first", "second", "ratio"]
    runs = store.load("runs", data)
    hashes = read_hashes(runs)
    features = reading.features(data, every=True)
    sides = []
    keys = ["source", "prompt_set"]
    of_run = ["model_id", "revision", "source"]
    for folder in (first, second):
        of_folder = hashes == hash_model(folder)
        of_model = runs.loc[of_folder, of_run].drop_duplicates()
        measured = features.merge(of_model, on=of_run).drop_duplicates(keys)
        sides.append(measured.set_index(keys)[list(GAINS)].stack())
    joined = pd.concat(sides, axis=1, keys=["first", "second"], join="inner")
    both = joined.rename_axis([*keys, "gain"]).reset_index()
    return both.assign(ratio=both["second"] / both["first"])[columns]


MATRICES = ("W_V", "W_O")
MEASURES = ("spectral_norm", "frobenius_norm")
LARGEST_NORM = 1e100
"""Largest norm of a matrix, and one over it the smallest of which a direction is read: their
squares are within double precision."""
DEPTHS, RANKS = 16, 8
"""Places in depth and among the heads of a block, the largest first, at which spectra are read."""


HAS_SPECTRA = 'thermostats.load("weights") has such rows'

FORMS = ("stored", "function")


def weight_distances(
    models: Mapping[str, str | Path] | Sequence[str | Path], *, form: str = "stored"
) -> pd.DataFrame:
    """Compute squared relative distances of models of one shape from their weights.

    Tensors that not all have, such as heads for a task, are left out and named in `attrs["notes"]`.
    One tensor of all models is in memory at a time, in float64.

    Parameters
    ----------
    models : mapping of str to path, or sequence of path
        Folders or hub ids, behind an @ a revision, by name or called as they are.
    form : str
        Of the weights as `stored`, or as a `function`: in the canonical form that `compare`
        describes, in which models are at no distance that changes connect which leave every output;
        each is the mean of both directions.

    Returns
    -------
    DataFrame
        Models × models, without a unit; for `neighbour_joining`.

    Raises
    ------
    UsageError
        For models of other blocks or shapes.
    DataError
        For folders that cannot be read.

    Examples
    --------
    >>> import transformers
    >>> import thermostats
    >>> transformers.set_seed(1)
    >>> shape = {"n_layer": 2, "n_head": 2, "n_embd": 16, "vocab_size": 8, "n_positions": 8}
    >>> for name in ("base", "other"):
    ...     model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape))
    ...     model.save_pretrained(name)
    >>> thermostats.weight_distances(["base", "other"]).round(3)
            base  other
    base   0.000  0.043
    other  0.043  0.000
    """
    folders = (
        models if isinstance(models, Mapping) else {Path(model).name: model for model in models}
    )
    if len(folders) < max(2, len(models)):
        raise UsageError(
            "too few models, or two of one name", got=", ".join(folders), allowed="two or more"
        )
    if form not in FORMS:
        raise UsageError("no such form", where="form", got=repr(form), allowed=" or ".join(FORMS))
    paths = [find_folder(model) for model in folders.values()]
    if form == "function":
        return _measure_function_distances(list(folders), paths)
    named = list(zip(map(str, folders), paths, strict=True))
    shared, notes = find_shared_tensors(named)
    apart = np.zeros((len(paths), len(paths)))
    size = np.zeros(len(paths))
    for tensors in shared:
        w = [decode(tensor.read_raw()).astype(np.float64) for tensor in tensors]
        size += [np.square(matrix).sum() for matrix in w]
        for i, j in combinations(range(len(w)), 2):
            apart[i, j] += np.square(w[j] - w[i]).sum()
    names = list(folders)
    relative = (apart + apart.T) / size.mean()
    distances = pd.DataFrame(relative, index=names, columns=names)
    distances.attrs["notes"] = notes
    return distances


def _measure_function_distances(names: Sequence[str], paths: Sequence[Path]) -> pd.DataFrame:
    table = pd.DataFrame(0.0, index=list(names), columns=list(names))
    notes = dict[str, None]()
    for i, j in combinations(range(len(paths)), 2):
        both = []
        for pair in ((paths[i], paths[j]), (paths[j], paths[i])):
            both.append(measure_function_distance(*pair))
        mean = np.mean([each.distance**2 for each in both])
        table.iloc[i, j] = table.iloc[j, i] = float(mean)
        notes |= dict.fromkeys(both[0].notes)
    table.attrs["notes"] = list(notes)
    return table


def spectral_angles(weights: pd.DataFrame) -> pd.DataFrame:
    """Compute the angles between the spectra of models of any shape.

    Of W_V and W_O the norms of every head, the largest of a block first, are read at 16 depths and
    8 ranks; cos θ is the mean over the two matrices and two norms of the cosines between these. It
    does not change with the size of all weights.

    Parameters
    ----------
    weights : DataFrame
        Rows as table `weights` has them (`layer`, `matrix`, `head`, `spectral_norm`,
        `frobenius_norm`), with `model_id`, of one run a model.

    Returns
    -------
    DataFrame
        Models × models, in radians; for `neighbour_joining`.

    Raises
    ------
    UsageError
        For models without such rows, or with two for one head.

    Examples
    --------
    >>> import thermostats
    >>> names = ["rxnfp/bert_ft", "rxnfp/bert_ft_10k_25s"]
    >>> weights = thermostats.load("weights", model=names, models=True)
    >>> thermostats.spectral_angles(weights).round(2)
                           rxnfp/bert_ft_10k_25s  rxnfp/bert_ft
    rxnfp/bert_ft_10k_25s                   0.00           0.03
    rxnfp/bert_ft                           0.03           0.00
    """
    needed = ("model_id", "layer", "matrix", "head", *MEASURES)
    weights = read_frame(weights)
    if absent := [name for name in needed if name not in weights]:
        allowed = join_some(weights.columns, absent[0])
        raise UsageError(
            "no such column", got=", ".join(absent), allowed=allowed, next_step=HAS_SPECTRA
        )
    weights = weights.assign(**{name: _read_norms(weights[name]) for name in MEASURES})
    if weights.empty:
        raise UsageError("an empty table", got="0 rows", next_step=HAS_SPECTRA)
    of_head = weights["head"].astype(str) != ""
    heads = weights[weights["matrix"].isin(MATRICES) & of_head]
    twice = heads.loc[heads.duplicated(["model_id", "layer", "matrix", "head"]), "model_id"]
    if len(twice):
        where = twice.iloc[0]
        raise UsageError("a head has two rows", where=where, allowed="spectra of one run a model")
    heads = heads.dropna(subset=list(MEASURES))
    names = list(dict.fromkeys(weights["model_id"].astype(str)))
    stacked = []
    for name in names:
        stacked.append(_stack_spectra(name, heads[heads["model_id"] == name]))
    read = np.array(stacked)
    cosines = np.einsum("asx,bsx->ab", read, read) / read.shape[1]
    angles = np.arccos(np.clip(cosines, -1.0, 1.0))
    np.fill_diagonal(angles, 0.0)
    return pd.DataFrame(angles, index=names, columns=names)


def _read_norms(values: pd.Series) -> pd.Series:
    """Norms as numbers, of which some may be missing; UsageError for what is no norm."""
    norms = pd.to_numeric(values, errors="coerce").astype("float64")
    wrong = values.notna() & ~norms.between(0.0, LARGEST_NORM)
    wrong |= pd.api.types.is_datetime64_any_dtype(values.dtype) & values.notna()
    if wrong.any():
        wrong_value = values[wrong].iloc[0]
        raise UsageError(
            "these are no norms",
            where=values.name,
            got=repr(wrong_value)[:SHOWN_OF],
            allowed=f"numbers from 0 to {LARGEST_NORM:g}",
            next_step=HAS_SPECTRA,
        )
    return norms


def _stack_spectra(name: str, heads: pd.DataFrame) -> Array:
    """Unit vectors, matrix and measure × depth and rank."""
    spectra = []
    for matrix in MATRICES:
        rows = heads[heads["matrix"] == matrix]
        if rows.empty:
            raise UsageError(
                "no spectra of heads", where=name, got=f"no rows of {matrix}", allowed="W_V and W_O"
            )
        for measure in MEASURES:
            by_layer = []
            for _, block in rows.groupby("layer")[measure]:
                by_layer.append(_resample_values(np.sort(block)[::-1], RANKS))
            layers = np.array(by_layer, dtype=np.float64)
            grid = np.apply_along_axis(_resample_values, 0, layers, DEPTHS).ravel()
            length = np.linalg.norm(grid)
            if length < 1 / LARGEST_NORM:
                largest = grid.max(initial=0.0)
                raise UsageError(
                    "the norms of a model are all 0",
                    where=f"{name}, {matrix}",
                    got=f"a largest {measure} of {largest:g}",
                    allowed="norms above 0",
                    next_step="leave the model out",
                )
            spectra.append(grid / length)
    return np.array(spectra)


def _resample_values(values: Array, places: int) -> Array:
    """Values at evenly spaced places from the first to the last, linear between them."""
    wanted = np.linspace(0, 1, places)
    held = np.linspace(0, 1, len(values))
    return np.interp(wanted, held, np.asarray(values, dtype=np.float64))
