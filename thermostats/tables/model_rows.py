"""One row per model of any set of evidence, with intervals over prompts: what a question about
models is put to."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.errors import (
    DataError,
    UsageError,
    build_unknown_error,
    find_nearest,
    suggest_nearest,
)
from thermostats.next_steps import (
    SHELL,
    Code,
    call,
    write_command,
    write_shell_command,
    write_value,
)
from thermostats.tables import features, store
from thermostats.tables.choices import (
    ANY_VALUE,
    MEASUREMENTS,
    POOLED,
    SETS,
    find_origin,
    mark_set,
    split_revision,
)
from thermostats.tables.entries import keep_names
from thermostats.tables.folders import (
    find_data_folder,
    find_own_folder,
    find_shipped,
    list_own_files,
)
from thermostats.tables.frames import select_rows
from thermostats.tables.identities import COUNTED
from thermostats.tables.join import Joined, join
from thermostats.tables.labels import (
    SYNONYMS,
    find_model_name,
    list_column_names,
    spell_name,
    strip_lab,
)
from thermostats.tables.reading import Selection, keep_last_revision, select_set
from thermostats.tables.schemas import GAINS, READ_GAINS, TEXT, list_dtypes
from thermostats.tables.validation import NUMBER

SHAPE = (
    "d_head",
    "n_kv_heads",
    "d_ff",
    "n_params_nonembedding",
    "norm_kind",
    "norm_place",
    "position_scheme",
)
"""What the files of a model say, and whoever joins one without files."""
FACTS = (
    "heritage",
    "family",
    "variant",
    "parent",
    "seed_of",
    "year",
    "quantised",
    "package",
    "model_licence",
)


ALIASES = {"lab": "heritage"}
"""Words for facts that the columns call otherwise."""


def set_facts(
    models: str | Sequence[str],
    facts: Mapping[str, str],
    *,
    revision: str | None = None,
    data: str | Path | None = None,
) -> list[Joined]:
    """Set columns of models' rows in the user's folder: those of one revision, or of every one.

    facts: of `FACTS`, and of `SHAPE` for models whose files were not read, by column, or `lab` for
    `heritage`; a year is a number, an empty text takes a fact away.

    Raises UsageError for other columns and for models whose rows are not the user's own, DataError
    for values that the table `models` does not take.
    """
    facts = {ALIASES.get(name, name): value for name, value in facts.items()}
    folder = find_data_folder(find_own_folder(data))
    rows = read_own_models(folder)
    known = set(rows["model_id"])
    names = []
    for name in [models] if isinstance(models, str) else models:
        names.append(find_model_name(name, known))
    for name, value in facts.items():
        if name not in (*FACTS, *SHAPE):
            raise UsageError(
                "not a fact to set",
                got=name,
                allowed=f"{', '.join(FACTS)}; of joined models {', '.join(SHAPE)}",
                next_step=_suggest_fact(name, value, names, rows, folder),
            )
    chosen = _choose_models(rows, names, revision, folder)
    read = select_rows(chosen, source=COUNTED)["model_id"]
    said_by_files = keep_names(facts, SHAPE)
    if len(read) and said_by_files:
        wrong = next(iter(said_by_files))
        what = "the files of this model say so themselves"
        allowed = ", ".join(FACTS)
        step = f"leave {wrong} out"
        raise UsageError(what, where=read.iloc[0], got=wrong, allowed=allowed, next_step=step)
    try:
        return join(chosen.assign(**facts), table="models", data=folder, replace=True, accept=True)
    except DataError as error:
        stated = [f"{name}={ANY_VALUE}" for name in facts]
        line = write_command("set", *names, *stated, revision=revision, data=folder)
        raise error.replace_next_step(line) from None


def _choose_models(
    rows: pd.DataFrame, names: Sequence[str], revision: str | None, folder: Path
) -> pd.DataFrame:
    """Rows of models, of one revision where it is named; UsageError for a model without any."""
    known = set(rows["model_id"])
    lacking = []
    chosen = pd.Series(False, index=rows.index)
    for name in names:
        pair = (name, revision) if name in known else split_revision(name, revision)
        model, asked = pair
        of_it = rows["model_id"].eq(model)
        if asked:
            of_it &= rows["revision"].eq(asked)
        if not of_it.any():
            lacking.append(pair)
        chosen |= of_it
    for model, asked in sorted(lacking):
        named = model if asked is None else f"{model}@{asked}"
        line = write_command("ls", "models", own=True, data=folder)
        step = suggest_nearest(model, rows["model_id"], line)
        raise UsageError(
            "no such model among your own rows", where=folder, got=named, next_step=step
        )
    return rows[chosen]


def _suggest_fact(
    name: str, value: str, models: Sequence[str], rows: pd.DataFrame, folder: Path
) -> str:
    """What to do instead of setting a fact that is none: joined rows are joined again with another
    value, all else is near a fact or read from the model's files."""
    ours = _find_our_column(name)
    own = rows["model_id"].isin(models)
    if ours not in FACTS and ours in list_dtypes("models") and own.any():
        if rows.loc[own, "source"].eq(COUNTED).all():
            return "all else is read from the model's files"
        is_text = list_dtypes("models")[ours] == TEXT
        cell = value if not is_text and NUMBER.fullmatch(value) else write_value(value)
        table = call("load", "models", str(folder), model=[*models])
        rows_of_it = Code(f"{table}.assign({ours}={cell})")
        line = call("join", rows_of_it, data=str(folder), replace=True)
        return f"of joined models: {write_shell_command(line) if SHELL.get() else line}"
    near = find_nearest(name, (*FACTS, *SHAPE))
    if near and ours == name:
        return write_command("set", *models, f"{near}={value}", data=folder)
    return "all else is read from the model's files"


def _find_our_column(name: str) -> str:
    """The column of models that a word stands for, such as `layers`; the word where it is none."""
    spelt = spell_name(name)
    return next((ours for ours in SYNONYMS if spelt in list_column_names(ours)), name)


def read_own_models(folder: Path) -> pd.DataFrame:
    """The user's own rows of the table `models`, none if the folder does not exist yet."""
    held = [store.read_typed(path, "models") for path in list_own_files("models", folder)]
    return pd.concat(held) if held else pd.DataFrame(columns=list(list_dtypes("models")))


def list_own_ids(folder: Path) -> set[str]:
    """Models of the user's own tables; of the tables that ship none."""
    return set() if folder == find_shipped("data") else set(read_own_models(folder)["model_id"])


def select_own_models(features: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Rows of the table `features` of models that the user measured, whoever else measured them."""
    runs = store.load("runs", folder)
    own = runs["run_id"].isin(store.read_own_runs(folder)["run_id"])
    return features[features["model_id"].isin(runs.loc[own, "model_id"])]


def find_other_spelling(heritage: str, folder: Path) -> str:
    """A lab of the tables that differs from a name by capitals, spaces or dashes alone, if there is
    one."""
    labs = set(store.load("models", folder)["heritage"]) - {heritage, ""}
    return next((name for name in sorted(labs) if strip_lab(name) == strip_lab(heritage)), "")


def check_lab(heritage: str, model: str, folder: Path) -> None:
    """Raise UsageError for a lab that the tables do not have, while they have one that differs by
    spelling alone."""
    labs = set(store.load("models", folder)["heritage"])
    if heritage and heritage not in labs and (other := find_other_spelling(heritage, folder)):
        line = write_command("set", model, f"heritage={heritage}")
        step = f"--lab {shlex.quote(other)}; if it is another lab, leave --lab out, then {line}"
        raise UsageError(
            "the tables spell this lab otherwise", got=repr(heritage), allowed=other, next_step=step
        )


LEVELS = ("source", "prompt_set", "dtype")
"""Whose instrument, which prompts, which precision; what is left differs from run to run."""

APART, SMALLEST = 3.0, 0.01
"""Errors, and the log ratio, above which two measurements of one model disagree."""
EXACT = 1e-12
"""Variance of a measurement of which no error is known, so that those of one model count alike."""


def estimate_variances(rows: pd.DataFrame) -> dict[str, float]:
    """Variances of a log measurement between the values of each level and between runs, by name
    (`run` the last).

    Two measurements r, s of one model differ by E (y_r − y_s)² − e_r² − e_s² = 2 (σ²_run + Σ_k σ²_k
    1[k_r ≠ k_s]); the variances are least squares of this over all pairs, none below 0, every model
    with the same weight: the method of moments of DerSimonian and Laird 1986
    (doi:10.1016/0197-2456(86)90046-2), here with several levels.

    rows: `model_id`, the levels, `y` (log of the measurement) and `e` (its standard error). Where
    no model was measured twice every variance is 0.
    """
    from scipy import optimize  # noqa: PLC0415

    y = rows["y"].to_numpy(np.float64)
    variance = np.square(rows["e"].to_numpy(np.float64))
    levels = [rows[name].to_numpy(object) for name in LEVELS]
    design = []
    seen = []
    for places in _split_models(rows, sort=True).values():
        first, second = np.triu_indices(len(places), 1)
        if not len(first):
            continue
        a = places[first]
        b = places[second]
        weight = len(a) ** -0.5
        differs = [weight * (values[a] != values[b]) for values in levels]
        design.append(np.column_stack([np.full(len(a), weight), *differs]))
        excess = np.square(y[a] - y[b]) - variance[a] - variance[b]
        seen.append(weight * excess / 2)
    fitted = np.zeros(len(LEVELS) + 1)
    if seen:
        fitted = optimize.nnls(np.concatenate(design), np.concatenate(seen))[0]
    return dict(zip(("run", *LEVELS), map(float, fitted), strict=True))


def _split_models(rows: pd.DataFrame, *, sort: bool) -> dict[str, NDArray[np.intp]]:
    """Places of the rows of every model, in the order of names or in that in which they are met."""
    codes, names = pd.factorize(rows["model_id"], sort=sort)
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes, minlength=len(names))
    ends = np.cumsum(counts)
    places = map(slice, ends - counts, ends)
    return {name: order[place] for name, place in zip(names, places, strict=True)}


def combine_measurements(
    rows: pd.DataFrame, components: Mapping[str, float] | None = None
) -> pd.DataFrame:
    """One estimate a model: `y` = 1'V⁻¹y / 1'V⁻¹1 and its standard error `e` = (1'V⁻¹1)^(−½), by
    `model_id`.

    V = diag(e² + σ²_run) + Σ_k σ²_k 1[k_r = k_s], with `estimate_variances`. A model's error has
    the levels in it: one instrument more is worth more than one run more. rows: as for
    `estimate_variances`, whose result stands for `components` where these are not given.
    """
    components = estimate_variances(rows) if components is None else components
    columns = ["model_id", "y", "e", "measurements"]
    log_values = rows["y"].to_numpy(np.float64)
    variances = np.square(rows["e"].to_numpy(np.float64))
    levels = {name: rows[name].to_numpy(object) for name in LEVELS}
    estimates = []
    for model, places in _split_models(rows, sort=False).items():
        n = len(places)
        y = log_values[places]
        covariance = np.diag(variances[places] + components["run"])
        for name, values in levels.items():
            value = values[places]
            is_same = value[:, None] == value[None, :]
            covariance = covariance + components[name] * is_same
        weights = np.linalg.solve(covariance + EXACT * np.eye(n), np.ones(n))
        total = weights.sum()
        estimates.append((model, float(weights @ y / total), float(total**-0.5), n))
    return pd.DataFrame(estimates, columns=columns).set_index("model_id")


def find_disagreements(features: pd.DataFrame, gain: str = "penultimate_gain") -> list[str]:
    """Pairs of measurements of one model whose gains lie apart by more than three errors and 1%, a
    sentence each.

    features: rows of the table `features`. The error is that over prompts, of both.
    """
    rows = features[features[gain] > 0]
    n = rows[f"{gain}_n"].astype("float64").clip(lower=1)
    error = _estimate_error(rows.assign(n_prompts=n), gain).fillna(0.0)
    rows = rows.assign(error=error)
    sentences = []
    for (model, _), measured in rows.groupby(["model_id", "revision"]):
        for a, b in combinations(measured.to_dict("records"), 2):
            apart = float(np.log(b[gain] / a[gain]))
            if abs(apart) > max(APART * np.hypot(a["error"], b["error"]), SMALLEST):
                first = f"{a[gain]:.4g} by {a['source']}"
                second = f"{b[gain]:.4g} by {b['source']}"
                more = f"{100 * np.expm1(apart):+.0f}%"
                sentences.append(f"{model}: {gain} {first}, {second} ({more})")
    return sentences


LEVEL = 0.95


@dataclass(frozen=True)
class SeedNoise:
    """Seed variance s² = Σ_i (y_i − ȳ_recipe)² / df of log gains y, and the share of Var(y) that is
    left to causes."""

    sd: float
    """s."""
    df: int
    """Models less recipes, of recipes with two seeds or more."""
    ceiling: float
    """1 − s²/Var(y), at least 0: the largest share that lab, shape and size can have together."""
    lower: float
    upper: float
    """95% F interval of the ceiling, with df and recipes less one."""


def measure_seed_noise(rows: pd.DataFrame, gain: str) -> SeedNoise | None:
    """The noise of seeds in a named gain; rows: of `features`, one a model. None where no recipe
    has two seeds."""
    from scipy import stats  # noqa: PLC0415

    with_gain = rows.dropna(subset=gain)
    y = np.log(with_gain[gain].astype("float64"))
    recipe = _name_recipe(with_gain)
    residual = y - y.groupby(recipe).transform("mean")
    within = residual[recipe.duplicated(keep=False)]
    df = len(within) - recipe[within.index].nunique()
    if not df:
        return None
    variance = float(np.square(within).sum()) / df
    total = float(y.var(ddof=1))
    tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    limits = stats.f.ppf(tails, df, recipe.nunique() - 1)
    ceilings = [max(0.0, 1 - float(variance / total / by)) for by in (1.0, *limits)]
    return SeedNoise(float(np.sqrt(variance)), df, *ceilings)


def merge_seeds(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per recipe: its first seed, with gains that are geometric means over its seeds."""
    if not (rows["seed_of"] != "").any():
        return rows
    recipe = _name_recipe(rows)
    gains = rows[list(GAINS)]
    logs = np.log(gains.astype("float64"))
    means = np.exp(logs.groupby(recipe).transform("mean"))
    merged = rows.assign(**means.where(gains.notna()))
    return merged[~recipe.duplicated()]


def _name_recipe(rows: pd.DataFrame) -> pd.Series[str]:
    """The model that each repeats, or is; a model of one seed stands by itself."""
    return rows["seed_of"].mask(rows["seed_of"] == "", rows["model_id"])


SHALLOW = 2
"""Blocks of a model whose penultimate block is the first, which lifts the embedding: it has no
penultimate gain."""
LEFT_OUT = "left out"
"""Name in `DataFrame.attrs` of what says which models are not among the rows, and why."""
OF_OTHER_RUNS = ("L_star_", "wv_", "wo_")
"""Columns of `features` that another run of the same model may have."""


def model_rows(
    evidence: Selection | str = POOLED,
    gain: str = "penultimate_gain",
    *,
    data: str | Path | None = None,
    incomparable: bool = False,
) -> pd.DataFrame:
    """Give one row per model with a named gain, seeds together.

    A tuned model is among them only where its base has no such gain. Of a model's revisions the
    last that has the gain counts. Rows without the gain change neither the models nor their gains.

    Parameters
    ----------
    evidence : str or Selection
        A set of evidence by name, such as `published` or `pooled` (`thermostats ls evidence` lists
        them), or the tables under one. Of several measurements the one with most prompts counts; in
        the set `pooled` all of them, by `combine_measurements`, the files of a study being one
        instrument.
    gain : str
        A named gain, such as `penultimate_gain`.
    data : str or Path
        A user's folder, read together with the package's own tables.
    incomparable : bool
        With models whose gains are near 1 by construction (`comparable` false).

    Returns
    -------
    DataFrame
        Columns of `features`, and `gain` (the named one), `log_gain`, `n_prompts`, `lower` and
        `upper` (t interval over prompts, 95%), `total_to_penultimate` = n_(L−1)/n_1 and
        `total_from_input` = n_(L−1)/n_0. `attrs["left out"]` says which models are left out, and a
        fit repeats it.

    Raises
    ------
    UsageError
        For a set of evidence or a gain that does not exist.

    Examples
    --------
    >>> import thermostats
    >>> rows = thermostats.model_rows("published", "penultimate_gain")
    >>> rows[["model_id", "gain", "n_prompts"]].round(3).head(3)
                      model_id   gain  n_prompts
    0      EleutherAI/gpt-j-6b  1.136        5.0
    1  EleutherAI/gpt-neo-1.3B  0.892        5.0
    2  EleutherAI/gpt-neo-125m  0.920        5.0
    """
    if gain not in (named := GAINS | READ_GAINS):
        raise build_unknown_error("no such gain", gain, named)
    if isinstance(evidence, str):
        evidence = select_set(evidence, data)
    compute = partial(_compute_model_rows, evidence, gain, incomparable=incomparable)
    return evidence.computed_rows(("model rows", gain, incomparable), compute)


def _compute_model_rows(evidence: Selection, gain: str, *, incomparable: bool) -> pd.DataFrame:
    every = evidence.table("features")
    every = _keep_last_revision(every[every["n_layers"] > SHALLOW], gain)
    has_gain = every[gain] > 0
    base_has_gain = every["parent"].isin(every.loc[has_gain, "model_id"])
    every = every[~((every["variant"] == "instruct") & base_has_gain)]
    every = every.assign(n_prompts=_read_prompts(every, evidence, gain))
    rows = _add_intervals(*_estimate_models(every, evidence, gain), evidence, gain)
    chosen = rows if incomparable else rows[rows["comparable"]].reset_index(drop=True)
    chosen = chosen.copy()  # columns of a kind lie together
    without_gain = every.loc[every[gain] <= 0, "model_id"]
    without = {
        f"its {gain} is not above 0": without_gain,
        "normalised after the sum": rows["model_id"],
    }
    left_out = []
    for why, names in without.items():
        if lacking := sorted(set(names).difference(chosen["model_id"])):
            left_out.append(f"left out, since {why}: {', '.join(lacking)}")
    chosen.attrs[LEFT_OUT] = tuple(left_out)
    return chosen


def _keep_last_revision(rows: pd.DataFrame, gain: str) -> pd.DataFrame:
    """All rows of every model at the last revision at which it has the gain; where it never has, at
    its last one."""
    known = rows[gain].notna()
    ever_known = known.groupby(rows["model_id"]).transform("any")
    last = keep_last_revision(rows[known | ~ever_known], "model_id")
    return rows.merge(last[["model_id", "revision"]].drop_duplicates())


def _estimate_models(
    every: pd.DataFrame, evidence: Selection, gain: str
) -> tuple[pd.DataFrame, pd.Series]:
    """One measurement of every model, in the set `pooled` with its gains of all of
    them; and errors of log gains."""
    first = pick_model_rows(every[every[gain] > 0]).set_index("model_id")
    others = [name for name in every if str(name).startswith(OF_OTHER_RUNS)]
    elsewhere = every.groupby("model_id")[others].first()
    first[others] = first[others].fillna(elsewhere)
    if evidence.name != POOLED:
        return first, _estimate_error(first, gain)
    estimates = _combine_gains(every, set(evidence.table("sources")["file"]), gain)
    gains = {}
    for each, table in estimates.items():
        gains[each] = np.exp(table["y"]).reindex(first.index)
    return first.assign(**gains), estimates[gain]["e"]


def _add_intervals(
    models: pd.DataFrame, error: pd.Series, evidence: Selection, gain: str
) -> pd.DataFrame:
    """Seeds of a model together, with the gain, its t interval over prompts, and growth from block
    1 and the input."""
    from scipy import stats  # noqa: PLC0415

    first = merge_seeds(models.reset_index()).set_index("model_id")
    value = first[gain]
    quantile = stats.t.ppf((1 + LEVEL) / 2, first["n_prompts"] - 1)
    half = quantile * error.reindex(first.index) * value
    total = first["geometric_gain_to_penultimate"] ** (first["n_layers"] - 2)
    layers = select_rows(evidence.table("layers", position="last"), layer=1)
    by_run = layers.groupby("run_id")["gain_block"].mean()
    of_block_1 = first["run_id"].map(by_run).astype("float64")
    rows = first.assign(gain=value, log_gain=np.log(value), lower=value - half, upper=value + half)
    rows["total_to_penultimate"] = total
    rows["total_from_input"] = total * of_block_1
    return rows.reset_index()


def pick_model_rows(
    rows: pd.DataFrame,
    files: Sequence[str] | None = None,
    *,
    first: Sequence[str] = (),
    ties: Sequence[str] = (),
) -> pd.DataFrame:
    """The row of every model from the first of `files`, then with most `n_prompts`, in order of the
    models' names.

    `first`: true/false columns that come before the number of prompts, true first. `ties`: columns
    whose smallest value decides between rows of as many prompts; else the first row does.
    """
    order = {name: i for i, name in enumerate(files or ())}
    preference = 0 if files is None else rows["source"].map(order)
    by = ["model_id", "_file", *first, "n_prompts", *ties]
    ascending = [name not in (*first, "n_prompts") for name in by]
    ordered = rows.assign(_file=preference).sort_values(by, ascending=ascending, kind="stable")
    return ordered.drop_duplicates("model_id").drop(columns="_file").reset_index(drop=True)


def prepare_pooling(rows: pd.DataFrame, evidence: Selection, gain: str) -> pd.DataFrame:
    """Rows for `combine_measurements` from rows of `features`; the files of a study are one
    instrument."""
    counted = rows.assign(n_prompts=_read_prompts(rows, evidence, gain))
    files = set(evidence.table("sources")["file"])
    return _prepare_gain(counted, files, gain)


def _read_prompts(rows: pd.DataFrame, evidence: Selection, gain: str) -> pd.Series:
    """Prompts of every measurement: those that it says, else those of its set."""
    sizes = evidence.table("prompts").groupby("prompt_set").size()
    counted = rows[f"{gain}_n"].astype("float64")
    return counted.where(counted > 0, rows["prompt_set"].map(sizes).astype("float64"))


def _combine_gains(rows: pd.DataFrame, files: set[str], wanted: str) -> dict[str, pd.DataFrame]:
    """Estimates of `combine_measurements` by gain, from all measurements of every model; `files` of
    a study are one instrument.

    Of read gains the one that is wanted.
    """
    gains: dict[str, pd.DataFrame] = {}
    for gain in dict.fromkeys((*GAINS, wanted)):
        gains[gain] = combine_measurements(_prepare_gain(rows, files, gain))
    return gains


def _prepare_gain(rows: pd.DataFrame, files: set[str], gain: str) -> pd.DataFrame:
    """Log of a gain and its error, by model and level."""
    columns = ["model_id", *LEVELS, gain, f"{gain}_sd", "n_prompts"]
    measured = rows.loc[rows[gain] > 0, columns]
    y = np.log(measured[gain])
    e = _estimate_error(measured, gain).fillna(0.0)
    source = find_origin(measured["source"], files)
    return measured[["model_id", *LEVELS]].assign(source=source, y=y, e=e)


def _estimate_error(rows: pd.DataFrame, gain: str) -> pd.Series:
    """Standard error over prompts of the log of a gain."""
    relative = rows[f"{gain}_sd"] / rows[gain]
    return (relative / np.sqrt(rows["n_prompts"])).astype("float64")


RUN = ["run_id", "model_id", "heritage", "family", "source", "prompt_set"]


def prompt_rows(
    gain: str = "last_gain", evidence: Selection | str = POOLED, *, data: str | Path | None = None
) -> pd.DataFrame:
    """Give one row per model and prompt of a named gain, on the prompt set that most models share.

    `fit_invariance`, `fit_slopes` and `fit_benchmark` take these rows.

    Parameters
    ----------
    gain : str
        A named gain, such as `last_gain`.
    evidence : str or Selection
        A set of evidence by name, or the tables under one.
    data : str or Path
        A user's folder, read together with the package's own tables.

    Returns
    -------
    DataFrame
        The gain is in column `value`. Columns besides: run_id, model_id, heritage, family, variant,
        parent, source, prompt_set, prompt_id, category, entropy (of the next token, where
        measured).

    Raises
    ------
    UsageError
        For a gain or a set of evidence that does not exist.

    Examples
    --------
    >>> import thermostats
    >>> rows = thermostats.prompt_rows("last_gain", "published")
    >>> rows.groupby("model_id")["value"].median().round(2).head(3)
    model_id
    EleutherAI/gpt-j-6b       1.06
    EleutherAI/pythia-6.9b    0.80
    google/gemma-7b           2.28
    Name: value, dtype: float64
    """
    if gain not in GAINS:
        raise build_unknown_error("no such gain", gain, GAINS)
    if isinstance(evidence, str):
        evidence = select_set(evidence, data)
    rows = choose_prompt_set(add_category(evidence, read_prompt_gains(evidence, gain)))
    models = evidence.table("models").drop_duplicates("model_id")[["model_id", "variant", "parent"]]
    entropies = evidence.table("outputs")[["run_id", "prompt_id", "entropy"]]
    rows = rows.merge(models, on="model_id", how="left").merge(
        entropies, on=["run_id", "prompt_id"], how="left"
    )
    return rows.astype({"value": "float64", "entropy": "float64"})


def read_prompt_gains(tables: Selection, gain: str, *sources: str) -> pd.DataFrame:
    """A named gain of `features.GAINS` by run and prompt of the named files: column `value`;
    averages are left out.

    Without files: of every run of the set of evidence at the last revision at which its model has
    the gain, a recipe in the place of the lab. Columns besides: run_id, model_id, heritage, family,
    source, prompt_set, prompt_id.
    """
    chosen = {"source": list(sources)} if sources else {}
    runs = tables.table("runs", **chosen)
    models = tables.table("models")
    layers = tables.table("layers", **chosen)
    summaries = tables.table("summaries", **chosen)
    values = features.collect_prompt_gains(runs, models, layers, summaries)
    values = select_rows(values, gain=gain)
    values = values[values["prompt_id"] != ""]
    if not sources:
        known = keep_last_revision(select_rows(runs, run_id=values["run_id"]), "model_id")
        values = select_rows(values, run_id=known["run_id"])
    return values.drop(columns="gain").merge(runs[RUN], on="run_id").reset_index(drop=True)


def choose_prompt_set(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows by prompt of one run a model, on one prompt set; empty where there is none.

    Chosen is the run on the core prompts, as many as the study's, else the one with most prompts,
    the last of those; of these the models on the prompt set that most of them have, since only one
    set can be crossed with models.
    """
    sizes = rows.groupby(["model_id", "prompt_set", "run_id"], sort=False).size()
    runs = sizes.rename("size").reset_index()
    runs["core"] = runs["prompt_set"] == "core"
    runs = runs.sort_values(["core", "size"], kind="stable")
    chosen = runs.drop_duplicates("model_id", keep="last")
    by_set = chosen.groupby("prompt_set")
    sets = by_set.agg(models=("run_id", "size"), core=("core", "first")).sort_index()
    if len(sets):
        shared = sets.sort_values(["models", "core"], kind="stable").index[-1]
        chosen = select_rows(chosen, prompt_set=shared)
    return select_rows(rows, run_id=chosen["run_id"]).reset_index(drop=True)


def add_category(tables: Selection, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows by prompt with the category of each prompt; prompts that the table does not know are
    left out."""
    prompts = tables.table("prompts", prompt_set=sorted(set(rows["prompt_set"])))
    return rows.merge(
        prompts[["prompt_set", "prompt_id", "category"]], on=["prompt_set", "prompt_id"]
    )


NAMED = (
    "last_gain",
    "penultimate_gain",
    "geometric_gain_to_penultimate",
    "max_gain_to_penultimate",
)
"""Gains at the last token that sources are compared on."""
MEASUREMENT = ["model_id", "from", "prompt_set", "dtype", "position"]
LEAST = 3
"""Blocks that two profiles must share for a correlation."""


def count_models(features: pd.DataFrame, runs: pd.DataFrame, published: set[str]) -> pd.DataFrame:
    """One row per set of measurements: models and labs of all its rows, of comparable ones, of
    those with gains.

    features: rows of the table `features` of decoders at the last token, every set's. A model is
    comparable where it does not norm the stream itself after each sum; it has gains where one of
    `GAINS` is known at the last token.
    """
    rows = []
    for name in MEASUREMENTS:
        of_set = features[mark_set(name, features, published, runs)]
        rows.append(count_set(name, of_set))
    return pd.DataFrame(rows)


def count_set(name: str, rows: pd.DataFrame) -> dict[str, object]:
    """The row of `count_models` of one set, from its rows of the table `features`."""
    comparable = rows[rows["comparable"].astype(bool)]
    last = rows[rows[list(GAINS)].notna().any(axis=1)]
    row: dict[str, object] = {"evidence": name}
    for kind, of in (("", rows), ("comparable_", comparable), ("last_token_", last)):
        row[f"{kind}models"] = of["model_id"].nunique()
        row[f"{kind}labs"] = count_labs(of)
    return {**row, "what": SETS[name]}


def count_labs(rows: pd.DataFrame) -> int:
    """Labs of rows; a model whose lab nobody knows is of none."""
    return int(rows.loc[rows["heritage"] != "", "heritage"].nunique())


def list_measurements(features: pd.DataFrame, published: set[str]) -> pd.DataFrame:
    """Rows of `features` at every model's last revision; the files of a study are one source."""
    rows = keep_last_revision(features, "model_id")
    return rows.assign(source=find_origin(rows["source"], published))


def list_gain_pairs(features: pd.DataFrame, published: set[str]) -> pd.DataFrame:
    """Named gains at the last token of models that two sources measured: one row per model, gain
    and pair.

    Columns: model_id, gain; first, second (sources), first_gain, second_gain, first_prompts,
    second_prompts, first_dtype, second_dtype; log_ratio. Of a source with several runs each is one
    of the pair; runs of one source are not held against each other.
    """
    rows = features.assign(**{"from": find_origin(features["source"], published)})
    pairs = []
    for gain in NAMED:
        for model, measured in rows.dropna(subset=gain).groupby("model_id"):
            runs = measured.sort_values(["from", "source", "prompt_set", "dtype"]).to_dict(
                "records"
            )
            for a, b in combinations(runs, 2):
                if a["from"] != b["from"]:
                    ratio = b[gain] / a[gain]
                    row = {"model_id": model, "gain": gain, "log_ratio": float(np.log(ratio))}
                    for place, run in (("first", a), ("second", b)):
                        row[place] = run["source"]
                        row[f"{place}_gain"] = run[gain]
                        row[f"{place}_dtype"] = run["dtype"]
                        row[f"{place}_prompts"] = run[f"{gain}_n"]
                    pairs.append(row)
    return pd.DataFrame(pairs, columns=PAIRS)


PAIRS = [
    *("model_id", "gain", "first", "first_prompts", "first_dtype", "first_gain"),
    *("second", "second_prompts", "second_dtype", "second_gain", "log_ratio"),
]


def summarise_profiles(
    layers: pd.DataFrame, runs: pd.DataFrame, published: set[str]
) -> pd.DataFrame:
    """Mean over prompts of log G_l by measurement and layer: columns `MEASUREMENT`, layer,
    log_gain."""
    whose = runs[["run_id", "model_id", "source", "prompt_set", "dtype"]]
    with_gain = layers.dropna(subset="gain_block")
    rows = with_gain.merge(whose, on="run_id", suffixes=("_of_row", ""))
    rows["log_gain"] = np.log(rows["gain_block"])
    rows["from"] = find_origin(rows["source"], published)
    return rows.groupby([*MEASUREMENT, "layer"])["log_gain"].mean().reset_index()


def profile_pairs(profiles: pd.DataFrame) -> pd.DataFrame:
    """How far the gains of two sources differ block by block, over the inner blocks (from 2 on)
    that both have.

    One row per model and pair of measurements by two sources, or by one on other prompts: model_id;
    first and second with their positions and prompt sets; blocks; r (Pearson) of the log gains;
    mean and sd of d; largest |d|.
    """
    inner = profiles[profiles["layer"] >= 2]
    pairs = []
    for model, measured in inner.groupby("model_id"):
        lines = {}
        for name, rows in measured.groupby(MEASUREMENT[1:]):
            lines[name] = rows.set_index("layer")["log_gain"]
        for a, b in combinations(sorted(lines), 2):
            if a[0] == b[0] and a[1] == b[1]:
                continue
            shared = pd.concat([lines[a], lines[b]], axis=1, join="inner")
            both = shared.to_numpy(np.float64)
            if len(both) < LEAST:
                continue
            row = {"model_id": model, "blocks": len(both)}
            for place, measurement in (("first", a), ("second", b)):
                row[place] = measurement[0]
                row[f"{place}_position"] = measurement[3]
                row[f"{place}_prompt_set"] = measurement[1]
            row["r"] = float(np.corrcoef(both.T)[0, 1])
            d = both[:, 1] - both[:, 0]
            row["mean_d"] = float(d.mean())
            row["sd_d"] = float(d.std(ddof=1))
            row["largest_d"] = float(np.abs(d).max())
            pairs.append(row)
    return pd.DataFrame(pairs, columns=PROFILE_PAIRS)


PROFILE_PAIRS = [
    *(
        "model_id",
        "first",
        "first_position",
        "first_prompt_set",
        "second",
        "second_position",
        "second_prompt_set",
    ),
    *("blocks", "r", "mean_d", "sd_d", "largest_d"),
]
