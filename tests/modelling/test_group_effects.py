"""Effects of groups and contrasts of two, from draws; what is refused, with calls that run."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from test_heritage import rows

import thermostats
from thermostats.errors import UsageError
from thermostats.formatting import format_number
from thermostats.modelling.fit import Fit
from thermostats.modelling.group_effects import GroupContrast, GroupEffects


@pytest.fixture(scope="module")
def fitted() -> Fit:
    table = rows(14, 4)
    alone = table["model_id"] == sorted(table["model_id"].unique())[0]
    table = table.assign(heritage=table["heritage"].mask(alone, "Solo"))
    return thermostats.fit_heritage(table, estimand="last_gain", seed=3)


def test_effects_of_labs_are_those_of_their_table(fitted: Fit) -> None:
    effects = fitted.effects("lab")
    labs = fitted.table("labs").set_index("heritage")
    table = effects.table
    assert list(effects.names) == list(labs.index)
    for column in ("n_models", "mean", "sd", "median", "lower", "upper"):
        assert table[column].to_numpy() == pytest.approx(labs[column].to_numpy()), column
    assert table["p_above"].to_numpy() == pytest.approx((effects.draws > 0).mean(axis=(0, 1)))
    assert table.loc["Solo", "n_models"] == 1
    assert "Solo" in repr(effects) and "log scale" in repr(effects)


def test_a_contrast_is_the_difference_of_two_effects(fitted: Fit) -> None:
    effects = fitted.effects()
    first, second = [name for name, n in zip(effects.names, effects.counts, strict=True) if n > 1][
        :2
    ]
    contrast = fitted.contrast(first, second)
    one, other = (effects.draws[..., effects.names.index(name)] for name in (first, second))
    assert contrast.draws == pytest.approx(one - other)
    assert contrast.estimate == pytest.approx(np.median(one - other))
    assert contrast.interval == pytest.approx(tuple(np.quantile(one - other, [0.03, 0.97])))
    assert contrast.probability == pytest.approx((one > other).mean())
    back = fitted.contrast(second, first)
    assert back.estimate == pytest.approx(-contrast.estimate)
    assert f"{first} − {second}: " in repr(contrast)


def test_a_contrast_of_logs_is_a_ratio_too(fitted: Fit) -> None:
    counts = fitted.effects().table["n_models"]
    contrast = fitted.contrast(*counts.index[counts > 1][:2])
    ratios = np.exp(contrast.draws)
    assert contrast.ratio is not None
    assert contrast.ratio == pytest.approx(
        (np.median(ratios), *np.quantile(ratios, [0.03, 0.97])), rel=1e-3
    )
    printed = "{} [{}, {}]".format(*map(format_number, contrast.ratio))
    assert f" on the log scale, a ratio of {printed}, median and 94%" in repr(contrast)
    tens = replace(contrast, scale="log10", draws=contrast.draws / np.log(10))
    assert tens.ratio == pytest.approx(contrast.ratio)
    given = replace(contrast, scale="")
    assert given.ratio is None and "ratio" not in repr(given)


def test_families_and_labs_by_any_of_their_names() -> None:
    table = rows(14, 3)
    names = sorted(table["model_id"].unique())
    letters = {name: "pq"[place % 2] for place, name in enumerate(names)}
    table = table.assign(family=table["model_id"].map(letters))
    fit = thermostats.fit_heritage(table, estimand="last_gain", seed=3)
    families = fit.effects("family")
    assert list(families.names) == sorted(families.names)
    assert all(" / " in name for name in families.names)
    assert fit.effects("heritage").names == fit.effects("lab").names
    first, second = [
        n for n, count in zip(families.names, families.counts, strict=True) if count > 1
    ][:2]
    contrast = fit.contrast(first, second, group="family")
    draws = families.draws
    places = [families.names.index(name) for name in (first, second)]
    assert contrast.draws == pytest.approx(draws[..., places[0]] - draws[..., places[1]])


def test_levels_of_a_line_are_its_draws() -> None:
    table = rows().groupby(["model_id", "heritage"], as_index=False)[["gain", "n_layers"]].mean()
    table = table.rename(columns={"model_id": "Name", "heritage": "Organisation"})
    fit = thermostats.fit_line(table, "gain", ["n_layers"], model="Name", group="Organisation")
    effects = fit.effects("Organisation")
    assert effects.draws == pytest.approx(fit.draws["level"])
    assert effects.scale == ""
    assert list(effects.names) == sorted(table["Organisation"].unique())


def test_labs_are_found_by_the_column_of_the_call() -> None:
    table = rows().rename(columns={"heritage": "Organisation"})
    fit = thermostats.fit_heritage(table, lab="Organisation", estimand="last_gain")
    assert fit.effects("Organisation").group == "lab"


def run_step(error: UsageError, fit: Fit, df: pd.DataFrame) -> object:
    """What the line after Next gives."""
    line = str(error).split("Next: ")[1]
    return eval(line.split("? ")[-1], {"thermostats": thermostats, "fit": fit, "df": df})  # noqa: S307


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("Nobody", "{1}", "no such lab in this fit"),
        ("{0}", "Nobody", "no such lab in this fit"),
        ("Solo", "{1}", "a lab of one model"),
        ("{0}", "Solo", "a lab of one model"),
        ("{0}", "{0}", "a contrast of a lab with itself"),
    ],
)
def test_a_contrast_that_says_nothing_is_refused(
    fitted: Fit, first: str, second: str, words: str
) -> None:
    effects = fitted.effects()
    several = [name for name, n in zip(effects.names, effects.counts, strict=True) if n > 1]
    first, second = first.format(*several), second.format(*several)
    with pytest.raises(UsageError, match=words) as caught:
        fitted.contrast(first, second)
    contrast = run_step(caught.value, fitted, rows())
    assert isinstance(contrast, GroupContrast)
    kept = {first, second} & set(several)
    assert kept <= {contrast.first, contrast.second}


def test_effects_of_a_fit_without_groups_are_refused_with_the_fit_that_has_them(
    fitted: Fit,
) -> None:
    table = rows()
    alone = thermostats.fit_heritage(table, lab=None, estimand="last_gain")
    for ask in (lambda: alone.effects("lab"), lambda: alone.contrast("a", "b")):
        with pytest.raises(UsageError, match="no groups") as caught:
            ask()
        assert isinstance(run_step(caught.value, alone, table), GroupEffects)
    with pytest.raises(UsageError, match=re.escape("no such groups")) as caught:
        fitted.effects("labs")
    assert isinstance(run_step(caught.value, fitted, table), GroupEffects)
