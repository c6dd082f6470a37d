"""Estimate how far nuisances of every outcome may go: `data/nuisances.csv`, which worlds read.

`nuisances.py penultimate_gain` for some outcomes. Residuals are those of all evidence, one row a
model, or one a model and prompt; never the largest bound of several sets. Seeded, and resumable:
the table is written after every outcome, and a bound whose rows and estimator are as they were is
not made anew (`--anew` makes all of them). An outcome is in the table before a claim names it.
"""

from __future__ import annotations

import hashlib
import time
import zlib
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims import bounds
from thermostats.claims.evidence import MEASURED, POOLED, Evidence
from thermostats.claims.noise import describe_column
from thermostats.claims.run import load_claim
from thermostats.claims.study import list_scripts
from thermostats.errors import UsageError, build_unknown_error
from thermostats.modelling import nuisances
from thermostats.modelling.draws import Array
from thermostats.modelling.nuisances import NuisancePosterior
from thermostats.studies.delia2026.stated_audits import FOCAL
from thermostats.studies.nursery import third
from thermostats.studies.nursery.study_rows import add_logs
from thermostats.studies.nursery.training_choices import add_predictions, combine_slopes
from thermostats.tables.folders import BOUNDS
from thermostats.tables.labels import drop_unlabelled
from thermostats.tables.model_rows import add_category, model_rows, read_prompt_gains
from thermostats.tables.schemas import GAINS, NURSERY, READ_GAINS

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "data" / BOUNDS
LEAST_PROMPTS = 10
"""Prompts of a model whose values by prompt count."""
VALUE = "value of the outcome"
"""Column of the outcome, on the scale on which worlds have its errors."""
SHAPE = ("log_L", "log_H", "log_d_h")
FACTS = {"log_L": "n_layers", "log_H": "n_heads", "log_d_h": "d_head", "log_n": "n_params"}
LABS = {"heritage": (), "family": (), "source": ()}
"""Groups of models. A claim about descent reads what was estimated between sources, with nothing
of labs taken off, since labs are what it asks about."""
Rows = Callable[[Evidence], pd.DataFrame]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What claims simulate errors of, and on which rows these are estimated."""

    rows: Rows
    removed: tuple[str, ...]
    """Columns whose slopes, and names whose levels, are taken off: shape and what is asked."""
    columns: tuple[str, ...] = ()
    """Along which errors may differ; each is taken off too where it is asked about."""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"": ()})
    """Groups whose errors may be alike, each with names whose levels are taken off besides."""
    unlike: tuple[str, ...] = ()
    """Groups that may have SDs of their own."""
    levels: tuple[str, ...] = ()
    """Names whose levels are taken off besides where shapes and SDs are estimated."""
    scaled: str = ""
    """Groups of many rows, in whose own SD residuals are taken where shapes are estimated."""
    ordered: bool = True
    """Whether neighbours along a column may err alike."""


def add_shape(rows: pd.DataFrame) -> pd.DataFrame:
    """Models with logarithms of their shape and size, without those of which they are not known."""
    facts = rows[list(FACTS.values())].astype("float64")
    logs = {name: np.log(facts[column]) for name, column in FACTS.items()}
    family = rows["family"].where(rows["family"] != "", rows["model_id"])
    made = rows.assign(**facts, **logs, family=family, focal=rows["heritage"] == FOCAL)
    return made.dropna(subset=list(logs)).reset_index(drop=True)


def read_models(evidence: Evidence, gain: str = "penultimate_gain") -> pd.DataFrame:
    """Comparable models of all evidence with a named gain, their shape and who measured them."""
    pooled = evidence.named(POOLED)
    rows = add_shape(drop_unlabelled(model_rows(pooled, gain), "heritage"))
    return rows.assign(source=pooled.origin(rows["source"]))


def read_gains(evidence: Evidence, gain: str) -> pd.DataFrame:
    """Models with the log of a named gain."""
    return read_models(evidence, gain).assign(**{VALUE: lambda rows: rows["log_gain"]})


def read_predicted(evidence: Evidence) -> pd.DataFrame:
    """Log penultimate gains, with what slopes of the controlled study predict of them."""
    rows = add_logs(read_gains(evidence, "penultimate_gain"))
    predicted = add_predictions(rows, combine_slopes(third.require_enough(evidence)))["predicted"]
    return rows.assign(predicted=predicted)


def read_products(evidence: Evidence, product: str) -> pd.DataFrame:
    """Models with the log of a product of gains."""
    rows = read_models(evidence).dropna(subset=product).reset_index(drop=True)
    return rows.assign(**{VALUE: np.log(rows[product].astype(float))})


def read_finding(
    evidence: Evidence, finding: str, column: str, chosen: str = POOLED
) -> pd.DataFrame:
    """Rows that the test of a finding reads of a set of evidence, with one of its columns."""
    claim = load_claim(list_scripts(ROOT / "analyses")[finding.partition(".")[0]])
    (question,) = (each for each in claim.questions if each.id == finding)
    assert question.trial is not None  # noqa: S101 (all findings that are named below are tried)
    rows = question.trial.read_rows(evidence.named(chosen), question.over)
    return rows.assign(**{VALUE: rows[column].astype(float)})


def read_models_asked(evidence: Evidence, finding: str, column: str) -> pd.DataFrame:
    """The same of all evidence, with shapes and sources."""
    known = read_models(evidence).set_index("model_id")
    rows = read_finding(evidence, finding, column)
    lacking = [name for name in (*FACTS.values(), "rho", "family") if name not in rows]
    rows = add_shape(rows.join(known[lacking], on="model_id"))
    return rows.assign(source=rows["model_id"].map(known["source"]))


def read_prompts(evidence: Evidence, gain: str) -> pd.DataFrame:
    """Log of a named gain of all evidence by model and prompt, of the run with most prompts."""
    pooled = evidence.named(POOLED)
    every = add_category(pooled, read_prompt_gains(pooled, gain))
    size = every.groupby(["model_id", "run_id"])["prompt_id"].transform("size")
    runs = every.assign(size=size).sort_values(["model_id", "size", "run_id"], kind="stable")
    last = runs.drop_duplicates("model_id", keep="last")
    rows = every[every["run_id"].isin(last.loc[last["size"] >= LEAST_PROMPTS, "run_id"])]
    entropy = pooled.table("outputs")[["run_id", "prompt_id", "entropy"]]
    rows = rows.merge(entropy, on=["run_id", "prompt_id"], how="left")
    return add_cells(rows.assign(**{VALUE: np.log(rows["value"].astype(float))}))


def add_cells(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows by prompt with prompts of different sets apart, and the category inside a model."""
    prompt = rows["prompt_id"].astype(str)
    if "prompt_set" in rows:
        prompt = rows["prompt_set"].astype(str) + " " + prompt
    cell = rows["model_id"].astype(str) + " " + rows["category"].astype(str)
    return rows.assign(prompt=prompt, cell=cell)


def read_prompts_asked(evidence: Evidence, finding: str, column: str, chosen: str) -> pd.DataFrame:
    """Rows by prompt that the test of a finding reads of a set of evidence."""
    return add_cells(read_finding(evidence, finding, column, chosen))


def read_trained(evidence: Evidence, finding: str, column: str) -> pd.DataFrame:
    """Rows of models trained here that the test of a finding reads, with their shapes."""
    rows = read_finding(evidence, finding, column, NURSERY)
    logs = {name: np.log(rows[fact].astype(float)) for name, fact in FACTS.items() if fact in rows}
    cell = rows["heritage"].astype(str)
    if "trained_on" in rows:
        cell = cell + " " + rows["trained_on"].astype(str)
    return rows.assign(**logs, recipe_cell=cell)


def read_trained_gains(evidence: Evidence, finding: str, column: str) -> pd.DataFrame:
    """Rows of `read_trained` with the log of a gain."""
    rows = read_trained(evidence, finding, column)
    return rows.assign(**{VALUE: np.log(rows[VALUE])})


def model_outcome(rows: Rows, *columns: str) -> Outcome:
    """One row a model of all evidence. columns: further ones along which errors may differ."""
    every = ("n_layers", "log_n", "rho", "focal", *columns)
    return Outcome(rows=rows, removed=SHAPE, columns=every, groups=LABS, unlike=tuple(LABS))


def prompt_outcome(rows: Rows, *columns: str) -> Outcome:
    """One row a model and prompt."""
    return Outcome(
        rows=rows,
        removed=("model_id",),
        columns=columns,
        groups={"prompt": (), "cell": ("prompt",)},
        unlike=("model_id",),
        levels=("prompt",),
        scaled="model_id",
        ordered=False,
    )


def trained_outcome(rows: Rows, column: str, removed: Sequence[str] = SHAPE) -> Outcome:
    """Models trained here whose recipes are their labs."""
    return Outcome(
        rows=rows,
        removed=tuple(removed),
        columns=(column,),
        groups={"heritage": ()},
        unlike=("heritage",),
        levels=("heritage",),
    )


def third_outcome(
    finding: str, column: str, columns: Sequence[str], removed: Sequence[str], **parts: Any
) -> Outcome:
    """Models or recipes of the crossed study, in which neighbours were drawn independently."""
    rows = partial(read_trained, finding=finding, column=column)
    return Outcome(
        rows=rows, removed=tuple(removed), columns=tuple(columns), ordered=False, **parts
    )


RECIPES: dict[str, Any] = {"groups": {"recipe": ()}, "unlike": ("recipe",)}
CELLS = {**RECIPES, "levels": ("recipe_cell",), "scaled": "recipe_cell"}
OUTCOMES: Mapping[str, Outcome] = {
    **{
        gain: model_outcome(partial(read_gains, gain=gain))
        for gain in (*GAINS, *READ_GAINS)
        if gain != "penultimate_gain"
    },
    "penultimate_gain": model_outcome(read_predicted, "predicted"),
    **{
        product: model_outcome(partial(read_products, product=product))
        for product in ("total_to_penultimate", "total_from_input")
    },
    "penultimate_gain_in_labs": Outcome(
        rows=partial(read_gains, gain="penultimate_gain"),
        removed=(*SHAPE, "heritage"),
        columns=("log_n",),
        groups={"family": ()},
        unlike=("heritage",),
    ),
    "largest_gain_exponent": model_outcome(
        partial(read_models_asked, finding="C02.model_exponent", column="outcome")
    ),
    "growth_from_block_1": model_outcome(
        partial(read_models_asked, finding="C23.law.from_block_1", column="excess")
    ),
    "growth_from_input": model_outcome(
        partial(read_models_asked, finding="C23.law.from_input", column="excess")
    ),
    "share_of_blocks": model_outcome(
        partial(read_models_asked, finding="C22.every_layer", column="share")
    ),
    **{f"{gain}_prompts": prompt_outcome(partial(read_prompts, gain=gain)) for gain in GAINS},
    "last_gain_prompts": prompt_outcome(partial(read_prompts, gain="last_gain"), "entropy"),
    "tuned_ratio_prompts": prompt_outcome(
        partial(read_prompts_asked, finding="C11.magnitude", column="log_ratio", chosen=POOLED)
    ),
    **{
        f"{position}_{kind}_prompts": prompt_outcome(
            partial(
                read_prompts_asked,
                finding=f"X01.{asked}.{position}",
                column="log_gain",
                chosen=MEASURED,
            )
        )
        for asked, kind in (("sign", "gain"), ("sum", "sum"))
        for position in ("cls", "mean")
    },
    "trained_gain": trained_outcome(
        partial(read_trained_gains, finding="C05.ratio.trained", column="gain"), "log_ratio"
    ),
    "trained_gain_sliced": trained_outcome(
        partial(read_trained_gains, finding="C05.ratio.trained_published_slicing", column="gain"),
        "log_ratio",
    ),
    "trained_last_gain": trained_outcome(
        partial(read_trained, finding="C19.unembedding_trained", column="log_gain"), "log_norm"
    ),
    "trained_late_norm": trained_outcome(
        partial(read_trained, finding="C06.late.trained", column="log_late"), "apart"
    ),
    "trained_late_norm_sliced": trained_outcome(
        partial(read_trained, finding="C06.late.trained_published_slicing", column="log_late"),
        "apart",
    ),
    "trained_transition_error": trained_outcome(
        partial(read_trained, finding="C09.contraction", column="gained"),
        "n_layers",
        ("log_L", "log_H"),
    ),
    "third_gain": third_outcome(
        "N03.third.depth",
        "log_gain",
        ("log_L", "log_rho", "log_shape"),
        ("trained_on", "log_L", "log_rho", "log_d"),
        **CELLS,
    ),
    "third_end": third_outcome("N04.third", "end", ("ranked",), ("cell", "ranked"), **CELLS),
    "third_recipe_gain": third_outcome(
        "N02.third", "log_gain", ("log_embed",), ("trained_on", "log_embed"), **RECIPES
    ),
    "third_recipe_mean": third_outcome(
        "N02.third_given_corpus", "log_gain", ("log_embed",), ("log_embed",)
    ),
    "third_change": third_outcome(
        "N04.third_stiffness", "log_change", ("dampens",), ("kind",), unlike=("heritage",)
    ),
    "third_wv": third_outcome(
        "N05.third.log_wv", "spectrum", ("log_rate",), ("log_rate", "log_decay")
    ),
    "third_wo": third_outcome(
        "N05.third.log_wo", "spectrum", ("log_rate",), ("log_rate", "log_decay")
    ),
    "third_mediated_gain": third_outcome(
        "N05.third_mediation", "log_gain", ("log_norm",), ("log_norm", "log_ratio")
    ),
}
"""Outcomes by the name that claims give; what has too few rows is not here, and is declared."""


@dataclass(frozen=True)
class Job:
    """One fit: nuisances of an outcome on some rows."""

    outcome: str
    kind: str
    column: str
    group: str
    y: Array
    fit: Callable[[], Mapping[str, NuisancePosterior]]
    inputs: tuple[Array, ...]

    @property
    def digest(self) -> str:
        """Of rows, design and estimator: what was estimated of others counts for nothing."""
        place = f"{nuisances.VERSION} {self.kind} {self.column} {self.group}"
        made = hashlib.sha256(place.encode())
        for part in (self.y, *self.inputs):
            made.update((np.round(part, 9) + 0.0).tobytes())
        return made.hexdigest()[:12]

    def estimate(self) -> list[dict[str, Any]]:
        """Lines of the table."""
        groups = int(self.inputs[-1].max()) + 1 if self.group else 0
        shared = {"outcome": self.outcome, "rows": self.y.shape[1], "digest": self.digest}
        lines = []
        for name, posterior in self.fit().items():
            (lower,), (upper,) = posterior.bound(name)
            folded = posterior.fold() if name == nuisances.RATIO else posterior
            (median,) = folded.quantile(0.5)
            place = {"column": self.column, "group": self.group, "groups": groups}
            values = {"nuisance": name, "median": median, "lower": lower, "upper": upper}
            lines.append({**shared, **place, **values})
        return lines


def name_jobs(name: str, outcome: Outcome, rows: pd.DataFrame) -> Iterator[Job]:
    """Every fit of an outcome; those of too few rows raise UsageError when they are made."""
    for column in ("", *outcome.columns):
        for group, levels in outcome.groups.items():
            if column or group:
                removed = [*outcome.removed, *levels, *filter(None, [column])]
                yield dependence_job(name, outcome, rows, removed, column, group)
    removed = [*outcome.removed, *outcome.levels]
    yield shape_job(name, outcome, rows, removed)
    for group in outcome.unlike:
        yield spread_job(name, rows, removed, group)


def dependence_job(
    name: str, outcome: Outcome, rows: pd.DataFrame, removed: Sequence[str], column: str, group: str
) -> Job:
    """Correlation of neighbours, ratio of SDs and share between groups, jointly."""
    own = rows.dropna(subset=[VALUE, *removed, *filter(None, [group])])
    x = nuisances.span_columns(own, removed)
    y = own[[VALUE]].to_numpy(np.float64).T
    values = own[column].to_numpy(np.float64) if column else None
    codes = pd.factorize(own[group])[0] if group else None
    fit = partial(nuisances.estimate_dependence, y, x, values, codes, ordered=outcome.ordered)
    inputs = (project(x), *(part for part in (values, codes) if part is not None))
    return Job(name, "dependence", describe_column(column), group, y, fit, inputs)


def shape_job(name: str, outcome: Outcome, rows: pd.DataFrame, removed: Sequence[str]) -> Job:
    """Skewness and tails."""
    own = rows.dropna(subset=[VALUE, *removed])
    x = nuisances.span_columns(own, removed)
    y = own[[VALUE]].to_numpy(np.float64).T
    scaled = pd.factorize(own[outcome.scaled])[0] if outcome.scaled else None
    seed = zlib.crc32(name.encode())

    def fit() -> Mapping[str, NuisancePosterior]:
        return nuisances.Shapes.simulate(x, scaled, seed=seed).estimate(y)

    inputs = (project(x), *(part for part in (scaled,) if part is not None))
    return Job(name, "shape", "", "", y, fit, inputs)


def spread_job(name: str, rows: pd.DataFrame, removed: Sequence[str], group: str) -> Job:
    """How unlike the SDs of groups are."""
    own = rows.dropna(subset=[VALUE, *removed, group])
    x = nuisances.span_columns(own, removed)
    y = own[[VALUE]].to_numpy(np.float64).T
    codes = pd.factorize(own[group])[0]

    def fit() -> Mapping[str, NuisancePosterior]:
        spread = nuisances.estimate_spread(y, x, codes)
        return {} if spread is None else {nuisances.SPREAD: spread}

    return Job(name, "spread", "", group, y, fit, (project(x), codes))


def project(x: Array) -> Array:
    """The projection on columns, which no choice of a basis changes."""
    return np.asarray(x @ x.T)


def read_own_table() -> pd.DataFrame:
    """The table as it is on the disk; empty where there is none."""
    if not TABLE.is_file():
        return bounds.build_empty_table()
    bounds.load_bounds.cache_clear()
    return bounds.load_bounds()


def write_table(table: pd.DataFrame) -> None:
    """The table by its key."""
    ordered = table.sort_values(list(bounds.KEY), ignore_index=True)[list(bounds.COLUMNS)]
    ordered.to_csv(TABLE, index=False, float_format="%.4g", lineterminator="\n")


def estimate_outcome(
    name: str, rows: pd.DataFrame, known: pd.DataFrame
) -> tuple[pd.DataFrame, list[str]]:
    """Lines of an outcome, those of `known` where nothing changed, and why others are not there."""
    lines = []
    left_out = []
    held = known[known["outcome"] == name].to_dict("records")
    for job in name_jobs(name, OUTCOMES[name], rows):
        place = (job.column, job.group, job.digest)
        made = [line for line in held if (line["column"], line["group"], line["digest"]) == place]
        try:
            lines += made or job.estimate()
        except UsageError as error:
            left_out.append(f"{name} {job.column} {job.group}: {error}")
    return pd.DataFrame(lines, columns=list(bounds.COLUMNS)), left_out


def main(chosen: Sequence[str], anew: bool = False) -> None:
    """Fill the table, the lines of an outcome as soon as they are known.

    Raises UsageError for an outcome that is none.
    """
    if wrong := [name for name in chosen if name not in OUTCOMES]:
        raise build_unknown_error("no such outcome", wrong[0], OUTCOMES)
    evidence = Evidence(ROOT / "data")
    table = read_own_table()
    table = table[table["outcome"].isin(OUTCOMES)]
    for name in chosen or OUTCOMES:
        started = time.process_time()
        rows = OUTCOMES[name].rows(evidence)
        known = bounds.build_empty_table() if anew else table
        lines, left_out = estimate_outcome(name, rows, known)
        others = table[table["outcome"] != name]
        table = pd.concat([part for part in (others, lines) if len(part)], ignore_index=True)
        write_table(table)
        print(f"{name}: {len(rows)} rows, {time.process_time() - started:.1f} CPU-seconds")
        print(*left_out, sep="\n", end="\n" * bool(left_out))


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("outcomes", nargs="*")
    parser.add_argument("--anew", action="store_true")
    arguments = parser.parse_args()
    main(arguments.outcomes, arguments.anew)
