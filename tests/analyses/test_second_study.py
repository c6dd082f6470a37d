"""Findings over the second study, alone and with the first, on second studies of known truth: verdicts turn with it."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, UNMEASURED, YES, analysis, judged, shipped
from scipy import stats
from statsmodels.formula.api import ols

from nursery.recipes import drawn
from thermostats.studies.nursery import second, together
from thermostats.studies.nursery.components import REFERENCE, components

SHAPES = list(itertools.product((4, 8, 16), (0.125, 2.0), (32, 80)))


MORE = {"corpus": 0.0, "crossed": 1.0, "decayed": 0.0, "seed": 1}


def study(*, recipe=0.2, depth=-0.06, scale=0.0, follows=1.0, through=0.0, early=0.95, embed=0.0, **more):
    """Rows of `second.along` at a tenth and at the end: recipes drawn as the design's are, gains made of what is asked.

    follows: slope of the log spectra on log √(rate/decay); through: that of the gain on the spectra; embed: that of
    the recipe's gain on the log of its embedding. more: `corpus`, half of what the synthetic corpus does more than the
    English one; `crossed`, how many times as steep depth is in it; `decayed`, the exponent of decay alone; `seed`.
    """
    corpus, crossed, decayed, seed = (more.get(name, at) for name, at in MORE.items())
    rng, rows = np.random.default_rng(seed), []
    for own in drawn(48, 23, 64)[:40]:
        synthetic = own.corpus == "synthetic"
        effect = recipe * rng.normal() + embed * np.log(own.embed / 0.14) + corpus * (1 if synthetic else -1)
        steep = depth * (crossed if synthetic else 1)
        ratio = 0.5 * np.log(own.rate / own.decay) if own.decay else 0.0
        spectrum = follows * ratio + 0.2 * rng.normal() - decayed * (np.log(own.decay) if own.decay else 0.0)
        for L, rho, d in SHAPES:
            gain = effect + steep * np.log(L / 8) + scale * np.log(d / 50) + through * spectrum + 0.05 * rng.normal()
            before = early * gain + recipe * np.sqrt(1 - early**2) * rng.normal()
            for share, value in ((0.1, before), (1.0, gain)):
                facts = {"model": f"{own.name}-{L}-{rho}-{d}", "kind": "", "parent": "", "replicate_of": ""}
                rows.append(
                    facts
                    | {"n_layers": L, "rho": rho, "d_model": d, "recipe": own.name, "learned": True}
                    | {name: value for name, value in vars(own).items() if name != "name"}
                    | {"share": share}
                    | {"step": round(share * own.steps), "log_gain": value, "log_gain_sd": 0.05}
                    | {"log_wv": spectrum, "log_wo": spectrum + 0.1 * rng.normal()}
                )
    return with_names(pd.DataFrame(rows))


def with_names(rows):
    logs = {name: np.log(rows[column].astype(float)) for name, column in second.LOGS.items()}
    return rows.assign(model_id="nursery/" + rows["model"], heritage=rows["recipe"], **logs)


def with_tuned(rows, crossing):
    """Bases and tuned models, of which so many cross 1."""
    found = []
    for i in range(42):
        base, tuned = -0.2, 0.2 if i < crossing else -0.1
        facts = {"n_layers": 4, "rho": 2.0, "d_model": 32, "recipe": f"c{i:03d}"}
        facts |= {"steps": 400, "step": 400, "log_gain_sd": 0.02}
        found.append(facts | {"model": f"b{i}", "kind": "", "parent": "", "log_gain": base})
        found.append(facts | {"model": f"t{i}", "kind": "corpus", "parent": f"b{i}/step00400", "log_gain": tuned})
    return with_names(pd.DataFrame(found))


def verdicts(monkeypatch, claim, rows, *only):
    monkeypatch.setattr(second, "along", lambda tables: rows)
    return {name: found.verdict for name, found in judged(analysis(claim), shipped().fork(), *only).items()}


NEW = (
    "second",
    "corpus",
    "given_corpus",
    "together",
    "second.depth",
    "second.density",
    "together.depth",
    "together.density",
)


@pytest.mark.parametrize("claim", ["n01", "n02", "n03", "n04", "n05"])
def test_nothing_is_said_before_the_study_is_measured(claim, monkeypatch):
    empty = second.along(shipped())
    monkeypatch.setattr(second, "along", lambda tables: empty.iloc[:0])
    known = analysis(claim)
    asked = [q.id.partition(".")[2] for q in known.CLAIM.questions if q.id.partition(".")[2] in NEW]
    asked = asked or ["spectra.log_wv", "mediation"]
    assert {found.verdict for found in judged(known, shipped().fork(), *asked).values()} == {UNMEASURED}
    few = study()
    few = few[few["recipe"].isin(sorted(set(few["recipe"]))[:15])]
    assert set(verdicts(monkeypatch, claim, few, *asked).values()) == {UNMEASURED}


ORDERED, REVERSED = {"scale": 0.01, "depth": -0.1}, {"recipe": 0.01, "scale": 0.1, "depth": -0.2}
FALLS, RISES = {"depth": -0.3, "recipe": 0.05}, {"depth": 0.3, "recipe": 0.05}
THROUGH = {"through": 0.5, "recipe": 0.05}


@pytest.mark.parametrize(
    "claim, finding, truth, verdict",
    [
        ("n01", "second", ORDERED, YES),
        ("n01", "second", REVERSED, NO),
        ("n01", "second", {"corpus": 0.5, "recipe": 0.03, "depth": -0.15, "scale": 0.01}, NO),
        ("n01", "second", {"corpus": 0.5, "recipe": 0.08, "depth": -0.15, "scale": 0.01}, OPEN),
        ("n01", "corpus", {"corpus": 0.5, "depth": -0.1}, YES),
        ("n01", "corpus", {"corpus": 0.01, "depth": -0.3, "recipe": 0.05}, NO),
        ("n02", "second", {"embed": 0.3, "recipe": 0.1}, YES),
        ("n02", "second", {"recipe": 0.1}, OPEN),
        *(("n03", f"{which}.depth", FALLS, YES) for which in ("second", "together")),
        *(("n03", f"{which}.depth", RISES, NO) for which in ("second", "together")),
        ("n03", "second.density", RISES, NO),
        ("n04", "together", {"early": 0.0}, NO),
        *(("n05", f"spectra.{matrix}", {"follows": 1.0}, YES) for matrix in ("log_wv", "log_wo")),
        *(("n05", f"spectra.{matrix}", {"follows": 0.0}, NO) for matrix in ("log_wv", "log_wo")),
        ("n05", "spectra.log_wv", {"follows": 0.0, "decayed": 0.5}, NO),
        ("n05", "mediation", THROUGH, YES),
        ("n05", "mediation", THROUGH | {"through": 0.0}, OPEN),
        ("n04", "second", {"early": 0.99}, YES),
        ("n04", "second", {"early": 0.0}, NO),
    ],
)
def test_verdicts_turn_with_the_truth(monkeypatch, claim, finding, truth, verdict):
    assert verdicts(monkeypatch, claim, study(**truth), finding) == {finding: verdict}


def test_a_corpus_that_was_pooled_with_recipes_is_told_from_them():
    """A strong corpus and recipes that do as much as shape: pooled they looked as if recipe did more."""
    rows = study(recipe=0.05, depth=-0.12, scale=0.01, corpus=0.3, seed=4)
    rows = rows[rows["share"] == 1]
    found = components(second.by_corpus(rows), seed=1)
    truth = {"corpus": 0.3, "recipe": 0.05, "geometry": 0.12 * np.sqrt(REFERENCE[0, 0])}
    for name, value in truth.items():
        assert np.quantile(getattr(found, name), 0.5) == pytest.approx(value, rel=0.3), name
    assert np.median(found.corpus) > 4 * np.median(found.recipe)


def test_slopes_of_opposite_sign_in_two_studies_do_not_cancel():
    """Slopes of 0.2 and −0.2 on log d: pooled they are none, as squares they are what they are."""
    first, later = (study(recipe=0.05, depth=-0.05, scale=s, seed=i) for i, s in enumerate((0.2, -0.2)))
    rows = pd.concat([first.assign(study="first"), later.assign(study="second")], ignore_index=True)
    rows = rows[rows["share"] == 1].assign(recipe=lambda own: own["study"] + own["recipe"])
    assert together.slope(rows, "log_d").value == pytest.approx(0, abs=0.03)
    scale = np.median(together.components(rows, seed=1).scale)
    assert scale == pytest.approx(0.2 * np.sqrt(REFERENCE[2, 2]), rel=0.1)


def test_errors_of_recipes_are_those_of_least_squares_and_told_from_one_another():
    rows = study(recipe=0.1, corpus=0.2)
    rows = rows[rows["share"] == 1].reset_index(drop=True)
    alike = second.checked(rows)
    noisy = rows["recipe"] < "c010"
    unlike = second.checked(rows.assign(log_gain=rows["log_gain"] + noisy * np.random.default_rng(1).normal(size=480)))
    assert alike.p > 0.01 and unlike.p < 1e-6 and unlike.most / unlike.least > 10
    assert unlike.kurtosis > 3 > abs(unlike.kurtosis_by_recipe)
    off, sds = [], []
    for _, corpus in rows.groupby("corpus"):
        lines = [ols("log_gain ~ log_L + log_rho + log_d", recipe).fit() for _, recipe in corpus.groupby("recipe")]
        residuals = np.array([line.resid for line in lines])
        off += list(residuals - residuals.mean(axis=0))
        sds += list(np.sqrt(np.square(residuals - residuals.mean(axis=0)).sum(axis=1) / (8 * (1 - 1 / len(lines)))))
    assert (alike.least, alike.most) == pytest.approx((min(sds), max(sds)))
    assert (alike.p, alike.kurtosis) == pytest.approx((stats.levene(*off).pvalue, stats.kurtosis(np.ravel(off))))
    assert alike.kurtosis_by_recipe == pytest.approx(stats.kurtosis(np.ravel(np.array(off) / np.array(sds)[:, None])))


def test_contrasts_of_factors_are_those_of_least_squares():
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"study": list("ab") * 20, "kind": list("xyzz") * 10, "size": rng.normal(size=40)})
    table["log_gain"] = 0.3 * (table["kind"] == "y") + 0.1 * (table["study"] == "b") + 0.1 * rng.normal(size=40)
    alone = ols("log_gain ~ C(study)", table).fit()
    levels = ols("log_gain ~ C(kind, Treatment('x')) + C(study)", table).fit()
    line = ols("log_gain ~ size + C(study)", table).fit()
    low, high = levels.conf_int(0.05 / 2 / 3).loc["C(kind, Treatment('x'))[T.y]"]
    contrasts = together.contrasts(table, {"kind": "levels", "size": "number"}).set_index("factor")
    assert contrasts["what"].tolist() == ["y against x", "one SD more"]
    assert np.log(contrasts.loc["kind", ["lower", "upper"]].astype(float)).tolist() == pytest.approx([low, high])
    sd = table["size"].std()
    assert np.log(contrasts.loc["size", ["ratio", "lower", "upper"]].astype(float)).tolist() == pytest.approx(
        [line.params["size"] * sd, *line.conf_int(0.05 / 2).loc["size"] * sd]
    )
    assert contrasts["share"].tolist() == pytest.approx([1 - fit.ssr / alone.ssr for fit in (levels, line)])
    tests = [fit.compare_f_test(alone)[:2] for fit in (levels, line)]
    assert contrasts[["F", "p"]].to_numpy().tolist() == pytest.approx(np.array(tests))
    low, high = line.conf_int(0.05 / 7).loc["size"] * sd
    among = together.contrasts(table, {"size": "number"}, among=7)
    assert np.log(among.loc[0, ["lower", "upper"]].astype(float)).tolist() == pytest.approx([low, high])


def test_an_indirect_effect_by_hand():
    x = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    e = np.array([1.0, -2.0, 0.0, 2.0, -1.0])
    rows = pd.DataFrame(
        {"log_ratio": x, "log_norm": 2 * x + e, "log_gain": 3 * (2 * x + e) + 0.5 * x, "optimiser": "lion"}
        | {"synthetic": 0.0}
    )
    effect, vanishes = second.mediated(rows)
    assert effect == pytest.approx(3 * float(np.polyfit(x, 2 * x + e, 1)[0]))
    assert vanishes == pytest.approx(1.0)


def test_signs_say_nothing_where_nearly_all_are_on_one_side(monkeypatch):
    rows = study(early=0.99)
    rows["log_gain"] = rows["log_gain"].abs() + 0.01
    assert verdicts(monkeypatch, "n04", rows, "second") == {"second": OPEN}


@pytest.mark.parametrize("crossing, verdict", [(9, YES), (0, NO)])
def test_tuning_crosses_or_does_not(monkeypatch, crossing, verdict):
    assert verdicts(monkeypatch, "n04", with_tuned(study(), crossing), "tuning.share") == {"tuning.share": verdict}


def test_components_of_both_studies_are_those_they_were_made_of():
    """Recipe 0.1, slopes −0.2 on log L and 0.1 on log d, in two studies whose levels differ by 1; 95% intervals."""
    inside = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        first, later = (study(recipe=0.1, depth=-0.2, scale=0.1, seed=s) for s in (seed, 1000 + seed))
        rows = pd.concat([first.assign(study="first"), later.assign(study="second")], ignore_index=True)
        rows = rows[(rows["share"] == 1) & (rng.random(len(rows)) < 0.7)]
        rows["recipe"] = rows["study"] + rows["recipe"]
        rows["log_gain"] += rows["study"] == "first"
        found = together.components(rows, seed=seed)
        truth = {"recipe": 0.1, "geometry": 0.2 * np.sqrt(REFERENCE[0, 0]), "scale": 0.1 * np.sqrt(REFERENCE[2, 2])}
        ends = {name: np.quantile(getattr(found, name), [0.025, 0.975]) for name in truth}
        inside.append([ends[name][0] <= value <= ends[name][1] for name, value in truth.items()])
    assert (np.mean(inside, axis=0) > 0.85).all()
