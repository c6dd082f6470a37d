"""Distances of weights and angles of spectra: closed forms, and a lineage of trainings got back
from its weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import small
import torch
import transformers
from safetensors.numpy import load_file

import thermostats
from thermostats.errors import UsageError
from thermostats.measurement.spectra import measure_weights
from thermostats.tables.tree_of_models import compare_groups

LINEAGE = "(((a:1,b:1)left:1,(c:1,d:1)right:1)base:1,(x:1,y:1)other:1)root;"
PARENTS = {
    "left": "base",
    "right": "base",
    "a": "left",
    "b": "left",
    "c": "right",
    "d": "right",
    "x": "other",
    "y": "other",
}
STEPS = 12


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two models drawn at random, and what comes of them by training, each on a sequence of its
    own."""
    folder = tmp_path_factory.mktemp("lineage")
    made = {
        "base": small.save_model(folder / "base", seed=1),
        "other": small.save_model(folder / "other", seed=2),
    }
    for number, (name, parent) in enumerate(PARENTS.items()):
        made[name] = tuned(made[parent], folder / name, seed=10 + number)
    return made


def tuned(parent: Path, folder: Path, seed: int) -> Path:
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_pretrained(parent).train()
    words, optimiser = torch.randint(0, 8, (4, 12)), torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        optimiser.zero_grad()
        model(words, labels=words).loss.backward()
        optimiser.step()
    model.save_pretrained(folder)
    return folder


def test_a_distance_is_that_of_numpy_on_the_files(trained: dict[str, Path]) -> None:
    names = ["base", "left", "a"]
    d = thermostats.weight_distances({name: trained[name] for name in names})
    flat = [
        np.concatenate(
            [x.ravel() for _, x in sorted(load_file(trained[n] / "model.safetensors").items())]
        )
        for n in names
    ]
    w = np.array(flat, dtype=np.float64)
    expected = np.square(w[:, None] - w).sum(axis=2) / np.square(w).sum(axis=1).mean()
    np.testing.assert_allclose(d.to_numpy(), expected, rtol=1e-10)
    assert list(thermostats.weight_distances(list(trained.values())[:2])) == ["base", "other"]
    assert d.loc["base", "left"] == pytest.approx(
        thermostats.compare(trained["base"], trained["left"]).distance ** 2, rel=0.1
    )


def test_a_lineage_of_trainings_is_got_back_from_the_weights(trained: dict[str, Path]) -> None:
    found = thermostats.neighbour_joining(thermostats.weight_distances(trained))
    table = compare_groups(thermostats.tree(LINEAGE), found, list(trained))
    assert table["recovered"].tolist() == [True] * len(table) and len(table) == 3
    nearest = thermostats.weight_distances(
        {name: trained[name] for name in ("base", "other", "a")}
    )["a"].drop("a")
    assert nearest.idxmin() == "base"


def test_an_angle_by_hand() -> None:
    """One head, two blocks: W_O and Frobenius norms are the same, spectral norms of W_V (1, 1) and
    (1, 0)."""
    rows = [
        (model, layer, matrix, "1", norm if matrix == "W_V" else 1.0, 1.0)
        for model, norms in (("p", (1.0, 1.0)), ("q", (1.0, 0.0)))
        for layer, norm in enumerate(norms, 1)
        for matrix in ("W_V", "W_O")
    ]
    table = pd.DataFrame(
        rows, columns=["model_id", "layer", "matrix", "head", "spectral_norm", "frobenius_norm"]
    )
    line = np.linspace(1, 0, 16)  # read at 16 depths
    cosine = (3 + line.sum() / np.linalg.norm(line) / 4) / 4
    assert thermostats.spectral_angles(table).loc["p", "q"] == pytest.approx(np.arccos(cosine))
    with pytest.raises(UsageError, match="a head has two rows"):
        thermostats.spectral_angles(pd.concat([table, table]))
    with pytest.raises(UsageError, match=r"no spectra of heads.*q.*no rows of W_O"):
        thermostats.spectral_angles(table[(table["model_id"] == "p") | (table["matrix"] == "W_V")])


def test_heads_for_a_task_are_left_out_and_named(trained: dict[str, Path], tmp_path: Path) -> None:
    """A classifier stores its body under the same names, without the language model's head, and
    with one of its own."""
    body = transformers.GPT2Model.from_pretrained(trained["a"])
    body.save_pretrained(tmp_path / "body")
    folders = {name: trained[name] for name in ("base", "left", "b")}
    bare = thermostats.weight_distances({**folders, "a": tmp_path / "body"})
    pd.testing.assert_frame_equal(
        bare, thermostats.weight_distances({**folders, "a": trained["a"]})
    )
    classifier = transformers.GPT2ForSequenceClassification.from_pretrained(trained["a"])
    classifier.save_pretrained(tmp_path / "classifier")
    headed = thermostats.weight_distances({**folders, "a": tmp_path / "classifier"})
    assert "a: 0.3% of its numbers not compared, score.weight" in headed.attrs["notes"]
    assert thermostats.neighbour_joining(headed).notes[0].startswith("a: 0.3%")
    np.testing.assert_allclose(headed, bare)


def test_squared_steps_add_along_a_lineage(trained: dict[str, Path]) -> None:
    """From a to c by left, base and right: four trainings, each on its own words."""
    d = thermostats.weight_distances(
        {name: trained[name] for name in ("a", "left", "base", "right", "c")}
    )
    steps = sum(
        d.loc[a, b] for a, b in (("a", "left"), ("left", "base"), ("base", "right"), ("right", "c"))
    )
    assert d.loc["a", "c"] == pytest.approx(steps, rel=0.35)
    assert d.loc["a", "c"] > max(d.loc["a", "left"], d.loc["a", "base"])


def test_angles_do_not_change_with_size_and_see_the_shape_of_spectra(
    trained: dict[str, Path],
) -> None:
    base = measure_weights(trained["base"]).assign(model_id="base")
    larger = base.assign(
        model_id="larger",
        spectral_norm=3 * base["spectral_norm"],
        frobenius_norm=5 * base["frobenius_norm"],
    )
    steeper = base.assign(model_id="steeper", spectral_norm=base["spectral_norm"] * base["layer"])
    angles = thermostats.spectral_angles(pd.concat([base, larger, steeper], ignore_index=True))
    assert (
        angles.loc["base", "larger"] == pytest.approx(0.0, abs=1e-7)
        and angles.loc["base", "steeper"] > 0.1
    )
    np.testing.assert_array_equal(angles, angles.T)
    assert not np.diagonal(angles).any()
