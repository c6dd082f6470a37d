"""Gains along a tree: known answers, the heritage model as a special case, recovery, and what is
refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import thermostats
from thermostats.errors import UsageError
from thermostats.modelling.draws import Settings
from thermostats.modelling.gaussian import Gaussian
from thermostats.modelling.lineage_law import Drift, compute_placed_descent
from thermostats.modelling.tree_likelihood import Process, build_sources, scale_height
from thermostats.tables.tree import Tree

FEW = Settings(draws=250)
PRIMATES = next(
    (
        p / "shared/reference/primates301"
        for p in Path(__file__).resolve().parents
        if (p / "shared").is_dir()
    ),
    None,
)
LABS = np.repeat(["A", "B", "C", "D", "E"], 6)


def made(seed: int = 1, lab_sd: float = 0.3) -> pd.DataFrame:
    """Thirty models of five labs and fifteen families, with an error of measurement each."""
    rng = np.random.default_rng(seed)
    family = np.array([f"{lab}{i // 2 % 3}" for i, lab in enumerate(LABS)])
    own = dict(zip("ABCDE", rng.normal(0, lab_sd, 5), strict=True))
    log_gain = 0.1 + np.array([own[lab] for lab in LABS]) + rng.normal(0, 0.1, 30)
    return pd.DataFrame(
        {
            "model_id": [f"{lab}/m{i}" for i, lab in enumerate(LABS)],
            "heritage": LABS,
            "family": family,
            "log_gain": log_gain,
            "error": 0.02,
            "gain": np.exp(log_gain),
            "gain_sd": 0.05,
            "n_prompts": 25,
            "n_layers": rng.integers(6, 80, 30),
            "n_heads": rng.integers(4, 64, 30),
            "d_head": rng.choice([64, 80, 128], 30),
            "n_params": np.exp(rng.normal(21, 1.5, 30)).round(),
        }
    )


def star(rows: pd.DataFrame) -> Tree:
    """Labs on the root, their models at the same place as the lab."""
    labs = sorted(set(rows["heritage"]))
    edges = pd.DataFrame(
        {
            "name": ["root", *labs, *rows["model_id"]],
            "parent": ["", *["root"] * len(labs), *rows["heritage"]],
            "length": [0.0, *[1.0] * len(labs), *[0.0] * len(rows)],
        }
    )
    return Tree.build(edges)


def test_on_a_star_of_labs_the_density_is_that_of_the_heritage_model() -> None:
    rows = made().drop(columns=["log_gain", "error"])
    heritage = thermostats.fit_heritage(rows.drop(columns="family"), settings=FEW).model
    lineage = thermostats.fit_lineage(rows, star(rows), settings=FEW).model
    theta = np.random.default_rng(0).normal(-1.5, 1.0, (50, 4))
    assert isinstance(heritage, Gaussian) and isinstance(lineage, Gaussian)
    assert lineage.log_density(theta) == pytest.approx(heritage.log_density(theta), abs=1e-6)


def test_by_levels_the_density_is_that_of_labs_with_families() -> None:
    rows = made().drop(columns=["log_gain", "error"])
    heritage = thermostats.fit_heritage(rows, settings=FEW).model
    lineage = thermostats.fit_lineage(
        rows, thermostats.tree(rows), process="levels", settings=FEW
    ).model
    assert isinstance(heritage, Gaussian) and isinstance(lineage, Gaussian)
    assert list(heritage.blocks) == ["u_heritage", "u_geometry", "u_scale", "u_family"]
    assert list(lineage.blocks) == ["u_lab", "u_family", "u_geometry", "u_scale"]
    theta = np.random.default_rng(0).normal(-1.5, 1.0, (50, 5))
    assert lineage.log_density(theta[:, [0, 3, 1, 2, 4]]) == pytest.approx(
        heritage.log_density(theta), abs=1e-6
    )


@pytest.mark.parametrize("process", [Process("free", 0.7, 0.0), Process("free", 0.7, 0.5)])
def test_processes_have_the_covariance_that_they_state(process: Process) -> None:
    tree = scale_height(thermostats.tree("((a:1,b:1)x:1,(c:0.5,d:1)y:1)r;"), ["a", "b", "c", "d"])
    k = build_sources(tree, process).rows
    k = k @ k.T
    place = {name: tree.place(name) for name in tree.names}
    r = np.exp(-0.7 * 0.5)
    assert k.diagonal() == pytest.approx(np.ones(len(tree)))
    assert k[place["a"], place["x"]] == pytest.approx(r)
    assert k[place["a"], place["b"]] == pytest.approx(r**2 + (1 - r**2) * process.common)
    assert k[place["c"], place["y"]] == pytest.approx(np.exp(-0.7 * 0.25))
    if process.common == 0:
        assert k[place["a"], place["d"]] == pytest.approx(np.exp(-0.7 * 2))


def test_draws_of_nodes_are_those_of_a_dense_normal_model() -> None:
    """Given the scales, ancestors have a closed form: K_ao (K_oo + D)⁻¹ (y − mean)."""
    rows = made()
    tree = thermostats.tree(rows)
    fit = thermostats.fit_lineage(rows, tree, blocks={}, seed=2)
    kept, values = fit.design.lineage.tree, fit.draws.few(4000)
    drift = fit.design.effects["u_descent"].basis
    scaled = drift.scale_sources(drift.sources.rows)
    every = scaled @ scaled.T
    at = [kept.place(name) for name in rows["model_id"]]
    expected = []
    for descent, own in values["scale"][:400]:
        v = descent**2 * every[np.ix_(at, at)] + (own**2 + 0.02**2) * np.eye(30) + np.ones((30, 30))
        expected.append((descent**2 * every[:, at] + 1.0) @ np.linalg.solve(v, rows["log_gain"]))
    drawn = values["beta"] + compute_placed_descent(
        fit.design, values, Drift.project_nodes, len(kept)
    )
    assert drawn.mean(axis=0) == pytest.approx(np.mean(expected, axis=0), abs=0.02)


def test_base_and_tuned_models_enter_together_and_the_next_model_is_predicted() -> None:
    rows = made(lab_sd=0.4)
    tuned = rows.iloc[::3].assign(
        model_id=lambda t: t["model_id"] + "-it", log_gain=lambda t: t["log_gain"] + 0.02
    )
    both = pd.concat(
        [rows.assign(parent=""), tuned.assign(parent=rows["model_id"].iloc[::3])], ignore_index=True
    )
    fit = thermostats.fit_lineage(both, thermostats.tree(both), settings=FEW)
    ahead = fit.table("next").set_index("below")
    spread = ahead["upper"] - ahead["lower"]
    assert ahead.loc["A/m0", "what"] == "child" and ahead.loc["root", "what"] == "top"
    assert spread["A/m0"] < spread["A"] < spread["root"]
    sides = fit.table("sides").set_index("kind")
    assert sides.loc["both measured", "branches"] == 10
    opposite = (tuned["log_gain"].to_numpy() < 0) != (rows["log_gain"].iloc[::3].to_numpy() < 0)
    assert (
        sides.loc["both measured", "lower"] <= opposite.sum() <= sides.loc["both measured", "upper"]
    )


def test_instruments_and_repeats_are_told_from_models() -> None:
    rng = np.random.default_rng(3)
    rows = made().drop(columns="error")
    twice = pd.concat(
        [
            rows.assign(who=who, log_gain=rows["log_gain"] + shift + rng.normal(0, 0.02, 30))
            for who, shift in (("here", 0.0), ("there", 0.3), ("elsewhere", -0.2))
        ]
    )
    fit = thermostats.fit_lineage(
        twice, thermostats.tree(rows), blocks={}, instrument="who", settings=FEW
    )
    mean = fit.params
    assert mean["sd_instrument"] == pytest.approx(np.std([0.0, 0.3, -0.2]), rel=0.1)
    assert mean["sd_repeat"] == pytest.approx(0.02, rel=0.2)
    assert mean["share_descent"] + mean["share_model"] == pytest.approx(1.0)


def test_a_free_process_is_fitted_by_quadrature() -> None:
    rows = made(lab_sd=0.4)
    fit = thermostats.fit_lineage(
        rows, thermostats.tree(rows), blocks={}, process="free", settings=FEW
    )
    drawn = fit.quantities
    assert fit.status == "passed" and drawn["lambda"].min() > 0 and drawn["lambda"].max() < 1
    assert (
        (drawn["parent_child"] ** 2 <= drawn["siblings"] + 1e-12) & (drawn["siblings"] < 1)
    ).all()
    assert len(fit.table("next")) == len(fit.design.lineage.tree)


def test_where_lambda_cannot_be_told_the_fit_says_so_with_the_size_that_could() -> None:
    rows = made(seed=5, lab_sd=0.05).groupby("heritage").head(4)
    fit = thermostats.fit_lineage(rows, thermostats.tree(rows), settings=FEW)
    said = " ".join(fit.warnings)
    assert "λ cannot be estimated from 20 models in 5 clades" in said and "it takes" in said
    told = thermostats.fit_lineage(
        made(lab_sd=1.0), thermostats.tree(rows := made(lab_sd=1.0)), settings=FEW
    )
    assert "λ cannot be estimated" not in " ".join(told.warnings)


def calls() -> Mapping[str, tuple[type[Exception], str, pd.DataFrame, object]]:
    rows = made()
    flat = pd.DataFrame(
        {
            "name": ["r", *rows["model_id"]],
            "parent": ["", *["r"] * 30],
            "length": [0.0] + [1.0] * 30,
        }
    )
    return {
        "rows without a tip": (
            UsageError,
            r"1 model with rows and no place.*E/m29.*rows\[",
            rows,
            thermostats.tree(rows[:-1]),
        ),
        "no tree": (UsageError, "no tree: got str", rows, "(A:1,B:1);"),
        "a star": (UsageError, "as much of the tree as any other two", rows, Tree.build(flat)),
        "few models": (UsageError, "too few models: got 3", rows[:3], thermostats.tree(rows)),
        "a gain": (
            UsageError,
            "not positive and finite",
            rows.drop(columns="log_gain").assign(gain=-1.0),
            thermostats.tree(rows),
        ),
        "all the same": (UsageError, "log gain", rows.assign(log_gain=0.2), thermostats.tree(rows)),
    }


@pytest.mark.parametrize("name", calls())
def test_what_cannot_be_fitted_is_refused(name: str) -> None:
    error, words, rows, tree = calls()[name]
    with pytest.raises(error, match=words):
        thermostats.fit_lineage(rows, tree)  # type: ignore[arg-type]


def test_options_that_do_not_exist_are_refused() -> None:
    rows, tree = made(), thermostats.tree(made())
    with pytest.raises(UsageError, match=r"no such process.*brown"):
        thermostats.fit_lineage(rows, tree, process="brown")
    with pytest.raises(UsageError, match="groups belong into the tree"):
        thermostats.fit_lineage(rows, tree, blocks={"lab": ["heritage"]})
    with pytest.raises(UsageError, match="no such blocks"):
        thermostats.fit_lineage(rows, tree, blocks={"descent": ["n_params"]})


def test_models_that_hang_on_another_lab_are_said() -> None:
    rows = made()
    borrowed = rows.iloc[[0, 6]].assign(model_id=["A/of-b", "B/of-a"], parent=["B/m6", "A/m0"])
    both = pd.concat([rows.assign(parent=""), borrowed], ignore_index=True)
    tree = thermostats.tree(both)
    assert tree.clades(["A/of-b", "B/of-a"]) == ["B", "A"]
    said = " ".join(thermostats.fit_lineage(both, tree, blocks={}, settings=FEW).warnings)
    assert "hang on models of another lab, whose clade they count for: A/of-b, B/of-a" in said


@pytest.mark.slow
@pytest.mark.skipif(PRIMATES is None, reason="the reference data do not ship")
def test_the_posterior_of_primates_stands_by_the_published_figures() -> None:
    """R's `gls` (REML): body 0.76556168 (SE 0.02872451), group 0.02568074 (0.01876562), λ
    0.96060554.

    The posterior: body 0.762 (SD 0.031), group 0.025 (0.019), λ 0.956 (0.017). The tree is got back
    by neighbour joining from the paths between species, which the covariance states.
    """
    assert PRIMATES is not None
    rows = pd.read_csv(PRIMATES / "primates.csv").rename(
        columns={"species": "model_id", "brain": "log_gain"}
    )
    species = rows["model_id"].tolist()
    k = pd.read_csv(PRIMATES / "tree_covariance.csv", index_col=0).loc[species, species].to_numpy()
    paths = pd.DataFrame(np.diag(k)[:, None] + np.diag(k) - 2 * k, index=species, columns=species)
    tree = thermostats.neighbour_joining(paths)
    assert tree.covariance(species) == pytest.approx(k / k.max(), abs=1e-6)
    fit = thermostats.fit_lineage(
        rows, tree, {"body": ["body"], "group": ["group_size"]}, total_sd=1.0
    )
    slopes = fit.table("slopes").set_index(["model", "slope on"])
    likeliest, posterior = slopes.loc["Pagel's λ"], slopes.loc["posterior"]
    assert likeliest["estimate"].to_numpy() == pytest.approx([0.76556168, 0.02568074], abs=1e-4)
    assert posterior["estimate"].to_numpy() == pytest.approx([0.762, 0.025], abs=0.004)
    assert posterior["se"].to_numpy() == pytest.approx([0.031, 0.019], abs=0.003)
    drawn = fit.summary().loc["lambda"]
    assert (
        drawn["mean"] == pytest.approx(0.956, abs=0.004)
        and drawn["lower"] < 0.96060554 < drawn["upper"]
    )


@pytest.mark.parametrize("process", ["brownian", "free"])
def test_a_saved_fit_has_its_tree_and_predicts(process: str, tmp_path: Path) -> None:
    rows = made()
    fit = thermostats.fit_lineage(
        rows, thermostats.tree(rows), process=process, seed=np.int64(2), settings=FEW
    )
    again = thermostats.load_fit(fit.save(tmp_path / "lineage.nc"))
    new = rows.head(2).assign(model_id=["new", "newer"], parent=["A", "E/m29"])
    assert again.predict(new).equals(fit.predict(new)) and again.table("nodes").equals(
        fit.table("nodes")
    )
    with pytest.raises(UsageError, match="no such column: got parent"):
        again.predict(new.drop(columns="parent"))
    with pytest.raises(UsageError, match="no such column: got n_heads"):
        again.predict(new.drop(columns="n_heads"))


@pytest.mark.slow
def test_a_clade_left_out_is_predicted_as_by_a_fit_without_it() -> None:
    rows = made(lab_sd=0.4)
    tree = thermostats.tree(rows)
    table = thermostats.fit_lineage(rows, tree, settings=FEW).table("left out").set_index("fit")
    assert set(table.index) == {"all", "without descent", "without geometry", "without scale"}
    assert table.loc["without descent", "elpd"] < table.loc["all", "elpd"]


def test_the_rows_of_a_merged_model_one_a_parent_are_one_measurement() -> None:
    rows = made().assign(parent="", share=np.nan)
    mix = pd.DataFrame(
        {
            "model_id": "mix",
            "parent": ["A/m0", "B/m7"],
            "share": [0.3, 0.7],
            "heritage": "A",
            "family": "",
        }
    )
    numbers = rows.columns.difference(mix.columns)
    both = pd.concat([rows, mix.assign(**rows.loc[0, numbers])], ignore_index=True)
    tree = thermostats.tree(both)
    fit = thermostats.fit_lineage(both, tree, {}, settings=FEW)
    assert len(fit.rows) == 31 and "sd_repeat" not in set(fit.summary().index)
    once = thermostats.fit_lineage(both.drop_duplicates("model_id"), tree, {}, settings=FEW)
    pd.testing.assert_frame_equal(fit.summary(), once.summary())
