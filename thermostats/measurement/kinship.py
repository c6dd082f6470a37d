"""How far models are apart by their weights: of one shape by the weights themselves, of others by their spectra.

Models of one shape: d_ij = ‖W_i − W_j‖² / mean_k ‖W_k‖², Frobenius, over all tensors together. It is squared since
independent trainings move nearly at right angles in so many dimensions: squares of their steps add along a tree, as
variances of drift do, and lengths do not. Others: the angle between the spectra of their W_V and W_O, block by block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from thermostats.errors import UsageError
from thermostats.measurement.checkpoint import decode
from thermostats.measurement.compare import shared_tensors
from thermostats.measurement.same_function import function_distance
from thermostats.tables.tree import Array

MATRICES, MEASURES = ("W_V", "W_O"), ("spectral_norm", "frobenius_norm")
DEPTHS, RANKS = 16, 8
"""Places in depth and among the heads of a block, the largest first, at which spectra are read."""


FORMS = ("stored", "function")


def weight_distances(models: Mapping[str, str | Path] | Sequence[str | Path], *, form: str = "stored") -> pd.DataFrame:
    """Squared relative distances of models of one shape, models × models; for `neighbour_joining`.

    form: of the weights as ``stored``, or as a ``function``: in the canonical form that `compare` describes, in which
    models are at no distance that changes connect which leave every output; each is the mean of both directions.

    models: folders, by name or called as they are. Tensors that not all have, such as heads for a task, are left out
    and named in `attrs["notes"]`. One tensor of all models is in memory at a time, in float64.

    Raises UsageError for models of other blocks or shapes, DataError for folders that cannot be read.
    """
    folders = models if isinstance(models, Mapping) else {Path(model).name: model for model in models}
    if len(folders) < max(2, len(models)):
        raise UsageError("too few models, or two of one name", got=", ".join(folders), allowed="two or more")
    if form not in FORMS:
        raise UsageError("no such form", where="form", got=repr(form), allowed=" or ".join(FORMS))
    paths = [Path(folder) for folder in folders.values()]
    if form == "function":
        return _as_functions(list(folders), paths)
    shared, notes = shared_tensors(list(zip(map(str, folders), paths, strict=True)))
    apart, size = np.zeros((len(paths), len(paths))), np.zeros(len(paths))
    for tensors in shared:
        w = [decode(tensor.raw()).astype(np.float64) for tensor in tensors]
        size += [np.square(matrix).sum() for matrix in w]
        for i in range(len(w)):
            apart[i, i + 1 :] += [np.square(other - w[i]).sum() for other in w[i + 1 :]]
    distances = pd.DataFrame((apart + apart.T) / size.mean(), index=list(folders), columns=list(folders))
    distances.attrs["notes"] = notes
    return distances


def _as_functions(names: Sequence[str], paths: Sequence[Path]) -> pd.DataFrame:
    table, notes = pd.DataFrame(0.0, index=list(names), columns=list(names)), dict[str, None]()
    for i, j in combinations(range(len(paths)), 2):
        both = [function_distance(*pair) for pair in ((paths[i], paths[j]), (paths[j], paths[i]))]
        table.iloc[i, j] = table.iloc[j, i] = float(np.mean([each.distance**2 for each in both]))
        notes |= dict.fromkeys(both[0].notes)
    table.attrs["notes"] = list(notes)
    return table


def spectral_angles(weights: pd.DataFrame) -> pd.DataFrame:
    """Angles in radians between the spectra of models of any shape, models × models; for `neighbour_joining`.

    weights: rows as table `weights` has them (`layer`, `matrix`, `head`, `spectral_norm`, `frobenius_norm`), with
    `model_id`, of one run a model. Of W_V and W_O the norms of every head, the largest of a block first, are read at 16
    depths and 8 ranks; cos θ is the mean over the two matrices and two norms of the cosines between these. It does not
    change with the size of all weights.

    Raises UsageError for models without such rows, or with two for one head.
    """
    heads = weights[weights["matrix"].isin(MATRICES) & (weights["head"].astype(str) != "")]
    if heads.duplicated(["model_id", "layer", "matrix", "head"]).any():
        twice = heads.loc[heads.duplicated(["model_id", "layer", "matrix", "head"]), "model_id"].iloc[0]
        raise UsageError("a head has two rows", where=twice, allowed="spectra of one run a model")
    heads = heads.dropna(subset=list(MEASURES))
    names = list(dict.fromkeys(weights["model_id"].astype(str)))
    read = np.array([_spectra(name, heads[heads["model_id"] == name]) for name in names])
    cosines = np.einsum("asx,bsx->ab", read, read) / read.shape[1]
    angles = np.arccos(np.clip(cosines, -1.0, 1.0))
    np.fill_diagonal(angles, 0.0)
    return pd.DataFrame(angles, index=names, columns=names)


def _spectra(name: str, heads: pd.DataFrame) -> Array:
    """Unit vectors, matrix and measure × depth and rank."""
    spectra = []
    for matrix in MATRICES:
        rows = heads[heads["matrix"] == matrix]
        if rows.empty:
            raise UsageError("no spectra of heads", where=name, got=f"no rows of {matrix}", allowed="W_V and W_O")
        for measure in MEASURES:
            by_layer = [_at(np.sort(block)[::-1], RANKS) for _, block in rows.groupby("layer")[measure]]
            grid = np.apply_along_axis(_at, 0, np.array(by_layer, dtype=np.float64), DEPTHS).ravel()
            spectra.append(grid / np.linalg.norm(grid))
    return np.array(spectra)


def _at(values: Array, places: int) -> Array:
    """Values at evenly spaced places from the first to the last, linear between them."""
    return np.interp(np.linspace(0, 1, places), np.linspace(0, 1, len(values)), np.asarray(values, dtype=np.float64))
