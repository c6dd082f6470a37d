"""What a fit is asked: predictions, comparisons, statements and levels, and what it says to those
that cannot be."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bad_inputs import CASES

import thermostats
from thermostats.errors import UsageError
from thermostats.modelling.fit import Fit
from thermostats.modelling.heritage.fit_heritage import fit_heritage
from thermostats.modelling.heritage.simulated import simulate_facts
from thermostats.modelling.transition import fit_transition

Table = pd.DataFrame


def rows(n: int = 24) -> Table:
    rng = np.random.default_rng(1)
    x = rng.normal(size=n)
    names = {
        "model_id": [f"m{i}" for i in range(n)],
        "heritage": [f"lab{i % 4}" for i in range(n)],
        "notes": [1, "a"] * (n // 2),
    }
    return pd.DataFrame({**names, "x": x, "width": np.exp(x), "y": 0.2 * x + rng.normal(0, 0.1, n)})


@pytest.fixture(scope="module")
def line() -> Fit:
    return thermostats.fit_line(rows(), "y ~ x + np.log(width ** x)", seed=1)


@pytest.fixture(scope="module")
def heritage() -> Fit:
    facts = simulate_facts(12, 4, np.random.default_rng(1))
    table = facts.assign(gain=np.exp(np.random.default_rng(2).normal(0, 0.2, 12)))
    return fit_heritage(
        table, blocks={"heritage": "heritage", "shape": ["n_layers", "n_heads"]}, seed=1
    )


def test_any_table_may_be_predicted(line: Fit) -> None:
    new = rows().head(2)
    first = line.predict(new)
    for other in (
        new.to_dict("records"),
        new.to_dict("list"),
        new.set_index("model_id", drop=False),
    ):
        assert line.predict(other)["y_mean"].tolist() == first["y_mean"].tolist()
    alone = line.predict(new.iloc[0].to_dict())
    assert alone["y_mean"].tolist() == [pytest.approx(first["y_mean"][0], rel=0.05)]


BAD_ROWS: dict[str, Callable[[Table], Any]] = {
    r"an empty table": lambda t: t.head(0),
    r"not a table.*read_csv": lambda t: "rows.csv",
    r"lacks a column of the formula \(width\)": lambda t: t.drop(columns="width"),
    r"no finite prediction \(line\): got 2 of 2 outcomes": lambda t: t.assign(width=-1.0),
    r"no finite prediction \(line\): got 1 of 2 outcomes": lambda t: t.assign(x=[1.0, np.inf]),
    r"missing values \(x\): got 1 of 2 rows": lambda t: t.assign(x=[1.0, np.nan]),
}


@pytest.mark.parametrize("words", BAD_ROWS)
def test_rows_that_cannot_be_predicted_are_refused(line: Fit, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        line.predict(BAD_ROWS[words](rows().head(2)))


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("x", np.nan, r"missing or infinite values \(x\)"),
        ("x", "a", r"a column is not numeric \(x\)"),
        ("n_layers", 0, r"a logarithm is taken of this column \(n_layers\)"),
    ],
)
def test_numbers_that_enter_no_law_are_named(column: str, value: Any, words: str) -> None:
    fit: Fit
    if column == "x":
        fit, table = thermostats.fit_line(rows(), "y", "x", seed=1), rows()
    else:
        table = simulate_facts(12, 4, np.random.default_rng(1))
        fit = fit_heritage(
            table.assign(gain=np.exp(np.random.default_rng(2).normal(0, 0.2, 12))), seed=1
        )
    with pytest.raises(UsageError, match=words):
        fit.predict(table.head(2).assign(**{column: value}))


def test_columns_of_free_blocks_are_needed(heritage: Fit) -> None:
    new = heritage.rows.head(2)
    with pytest.raises(
        UsageError,
        match=r"blocks: n_heads.*Next: fit.predict\(df.assign\(\*\*{\"n_heads\": VALUES}\)\)",
    ):
        heritage.predict(new.drop(columns="n_heads"))
    assert len(heritage.predict(new)) == 2


READS = [
    ("slopes", "value"),
    ("sources", "dtype"),
    ("spectral", "ratio"),
    ("benchmark", "category"),
]


@pytest.mark.parametrize(("name", "lacks"), READS)
def test_columns_that_a_law_reads_are_needed(name: str, lacks: str) -> None:
    case = CASES[name]
    table = case.good(12, 4)
    with pytest.raises(UsageError, match=f"no such column: got {lacks}"):
        case.fit(table).predict(table.head(4).drop(columns=lacks))


def test_a_fit_without_labs_is_written_whole() -> None:
    facts = simulate_facts(12, 4, np.random.default_rng(1))
    fit = fit_heritage(
        facts.assign(gain=np.exp(np.random.default_rng(2).normal(0, 0.2, 12))), lab=None, seed=1
    )
    assert "left out" not in fit.to_dict()["tables"] and "dominance" in fit.to_dict()["tables"]


@pytest.mark.parametrize("level", [0.0, 1.0, 95])
def test_a_level_is_a_probability(line: Fit, level: float) -> None:
    for ask in (
        line.summary,
        line.conf_int,
        lambda level: line.predict(rows().head(1), level=level),
    ):
        with pytest.raises(UsageError, match="not a level of intervals"):
            ask(level=level)


def test_statements_are_put_to_quantities_that_there_are(line: Fit) -> None:
    with pytest.raises(
        UsageError, match=r"none of \(line\): got 'residual'.*did you mean residual_sd"
    ):
        line.probability(lambda q: q["residual"] > 0)
    with pytest.raises(UsageError, match="none of"):
        line.check({"a": lambda q: q["nothing"] > 0})
    with pytest.raises(UsageError, match=r"not one truth value a draw.*all\(axis=-1\)"):
        line.probability(lambda q: np.stack([q["mean"]] * 3, axis=-1) > 0)


@pytest.mark.parametrize("out", [np.ones(3, dtype=bool), np.zeros(24), ["m1"]])
def test_rows_are_left_out_one_by_one(line: Fit, out: Any) -> None:
    with pytest.raises(UsageError, match="for each of 24 rows"):
        line.exclude_rows(out)
    assert len(line.exclude_rows(line.rows["heritage"] == "lab1").rows) == 18


@pytest.mark.slow
def test_both_engines_leave_the_same_out() -> None:
    """Of 120 outcomes the exact engine by itself leaves six out together, which is no fold of the
    other's."""

    def mean(data: Any) -> None:
        import pymc as pm

        pm.Normal("y", pm.Normal("a", 0, 2), pm.HalfNormal("sigma", 1), observed=data["y_observed"])

    table = rows(120)
    exact = thermostats.fit_line(table, "y", scale=1.0, group=None, seed=1)
    sampled = thermostats.fit(table, model=mean, per_row=[], seed=1)
    compared = thermostats.compare({"exact": exact, "sampled": sampled})
    assert 0 < compared["elpd_diff"].max() < 0.3 and 0 < compared["dse"].max() < 0.1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"scale": "1"}, r"no number \(scale\): got '1'"),
        ({"scale": True}, r"no number \(scale\): got True"),
        ({"seed": 1.5}, r"no number \(seed\): got 1.5"),
        ({"seed": -1}, "a seed below 0"),
        ({"outcome": None}, r"missing \(outcome\)"),
    ],
)
def test_arguments_of_another_kind_are_named(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        thermostats.fit_line(**{"table": rows(), "outcome": "y", **arguments})


def test_one_name_is_a_list_of_one() -> None:
    table = rows().assign(source=["s", "t"] * 12)
    fit = thermostats.fit_line(table, "y", levels="source", sources="a file", seed=1)  # type: ignore[arg-type]
    assert fit.sources == ("a file",) and "source_sd" in fit.quantities
    with pytest.raises(UsageError, match=r"no mapping \(blocks\)"):
        fit_heritage(table.assign(gain=2.0), blocks=["heritage"])  # type: ignore[arg-type]


def test_a_table_with_columns_of_no_kind_is_saved(tmp_path) -> None:
    fit = thermostats.fit_line(rows(), "y", "x", seed=1)
    again = thermostats.load_fit(fit.save(tmp_path / "line.nc"))
    assert again.summary().equals(fit.summary())
    assert again.rows["notes"].tolist() == ["1", "a"] * 12


def test_a_published_formula_has_three_terms() -> None:
    with pytest.raises(UsageError, match=r"three terms: got \(1, 2\)"):
        fit_transition(CASES["transition"].good(12, 4), "peak", published=(1, 2), seed=1)  # type: ignore[arg-type]


def test_predictions_are_of_the_gain_and_say_how_likely_it_dampens() -> None:
    """A law of logs: medians and ends are those of the draws, exponentiated; the mean is that of a
    log-normal."""
    facts = simulate_facts(24, 4, np.random.default_rng(1))
    fit = fit_heritage(
        facts.assign(gain=np.exp(np.random.default_rng(2).normal(0.1, 0.2, 24))), seed=1
    )
    new = facts.head(3).drop(columns="heritage").assign(heritage=["lab000", "New", "lab001"])
    drawn, gains, logs = fit.predicted(new), fit.predict(new), fit.predict(new, scale="log")
    assert gains["gain_median"].to_numpy() == pytest.approx(
        np.exp(logs["log_gain_median"]), rel=1e-3
    )
    for end, share in (("lower", 0.03), ("upper", 0.97)):
        assert gains[f"gain_{end}"].to_numpy() == pytest.approx(
            np.exp(np.quantile(drawn, share, axis=0)), rel=1e-3
        )
    normal = np.exp(drawn.mean(axis=0) + drawn.var(axis=0) / 2)
    assert gains["gain_mean"].to_numpy() == pytest.approx(normal, rel=0.01)
    assert (
        gains["P(gain < 1)"].tolist()
        == (drawn < 0).mean(axis=0).tolist()
        == logs["P(gain < 1)"].tolist()
    )
    assert gains["new"].tolist() == ["", "lab New", ""] and gains["gain_sd"].idxmax() == 1
    with pytest.raises(
        UsageError, match=r"no such scale.*'logit'; allowed: outcome, log.*Next: .*scale=\"log\""
    ):
        fit.predict(new, scale="logit")


def test_one_row_may_be_a_dict_and_what_lies_outside_the_fit_is_said() -> None:
    facts = simulate_facts(24, 4, np.random.default_rng(1))
    fit = fit_heritage(
        facts.assign(gain=np.exp(np.random.default_rng(2).normal(0.1, 0.2, 24))), seed=1
    )
    inside = facts.iloc[0].to_dict()
    assert fit.predict(inside)["outside"].tolist() == [""]
    far = fit.predict(inside | {"n_layers": 1000, "n_params": 1.0})["outside"].item()
    low, high = facts["n_layers"].min(), facts["n_layers"].max()
    assert far.startswith(f"n_layers 1000 outside {low} to {high}; n_params 1 outside")


SCALES: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray], str]] = {
    "np.log(y) ~ x": ("log", np.exp, "log_y"),
    "np.log10(y) ~ x": ("log10", lambda v: 10.0**v, "log10_y"),
    "np.log2(y) ~ x": ("log2", np.exp2, "log2_y"),
}


@pytest.mark.parametrize("formula", SCALES)
def test_a_formula_of_a_log_predicts_its_column(formula: str) -> None:
    word, back, name = SCALES[formula]
    table = rows().assign(y=lambda t: np.exp(t["y"]))
    fit = thermostats.fit_line(table, formula, group=None, seed=1)
    drawn = fit.predicted(table)
    assert fit.predict(table)["y_mean"].to_numpy() == pytest.approx(back(drawn).mean(axis=0))
    assert fit.predict(table, scale=word)[f"{name}_mean"].to_numpy() == pytest.approx(
        drawn.mean(axis=0)
    )
    assert fit.predict(table)["P(y < 1)"].between(0, 1).all()


@pytest.mark.parametrize("law", ["crowding", "threshold", "spectral", "sources", "matched"])
def test_laws_of_logs_predict_gains(law: str) -> None:
    table = CASES[law].good(12, 4)
    fit = CASES[law].fit(table)
    predicted = fit.predict(table)
    assert predicted["penultimate_gain_median"].to_numpy() == pytest.approx(
        np.exp(np.median(fit.predicted(table), axis=0)), rel=1e-3
    )
    assert "P(penultimate_gain < 1)" in predicted


def test_predictions_of_transitions_are_shares_of_the_depth() -> None:
    table = CASES["transition"].good(24, 4)
    predicted = CASES["transition"].fit(table).predict(table)
    assert predicted["share_of_depth_median"].between(0, 1).all()
    assert (
        np.corrcoef(predicted["share_of_depth_median"], table["L_star_peak"] / table["n_layers"])[
            0, 1
        ]
        > 0.5
    )


def test_a_summary_is_indexed_by_quantity_and_holds_what_differs(line: Fit) -> None:
    table = line.summary(level=0.9)
    assert table.index.name == "quantity" and list(table) == [
        "mean",
        "sd",
        "median",
        "lower",
        "upper",
    ]
    expected = {"law": "line", "estimand": "y", "sources": [], "kind": "ETI", "level": 0.9}
    held = dict(table.attrs)
    assert [name for name, *_ in held.pop("priors")] == list(line.priors.index)
    assert held == expected and line.convergence().empty
    slope = line.quantities["slope on x"].ravel()
    assert table.loc["slope on x"].tolist() == pytest.approx(
        [slope.mean(), slope.std(ddof=1), np.median(slope), *np.quantile(slope, [0.05, 0.95])]
    )
    assert "94% equal-tailed interval" in repr(line)


def test_a_table_for_a_paper_holds_the_summary_with_its_signs_made_plain(line: Fit) -> None:
    latex = line.to_latex(digits=2)
    assert latex.startswith("% line fit of y: 24 models of 4 labs, passed\n")
    body = latex.split("\\midrule\n")[1].split("\\bottomrule")[0].strip().splitlines()
    assert len(body) == len(line.summary()) and all(
        row.count(" & ") == 4 and row.endswith(r" \\") for row in body
    )
    row = next(row for row in body if "width" in row)
    assert row.startswith(r"slope on np.log(width ** x)")
    numbers = [
        float(n.replace(r" \times 10^{", "e").replace("}", ""))
        for n in re.findall(r"\$([^$]+)\$", row)
    ]
    expected = line.summary().loc["slope on np.log(width ** x)"]
    assert numbers == pytest.approx([float(f"{value:.2g}") for value in expected])
    assert r"group\_sd & " in latex and "94\\% interval" in latex
    cells = re.findall(r"^P\(.*multicolumn\{4\}\{r\}\{\$([^$]+)\$\}", latex, re.MULTILINE)
    chances = [float(cell) for cell in cells]
    assert (
        chances == pytest.approx(list(line.probabilities.values()), rel=0.06)
        and len(line.probabilities) > 0
    )
    for digits in (0, 2.5, True):
        with pytest.raises(UsageError, match="digits are a whole number"):
            line.to_latex(digits=digits)  # type: ignore[arg-type]
