"""A study's models measured again by its plan: what it takes, the run, and the page with the bundle."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import pandas as pd

from thermostats.claims import replication as plans
from thermostats.claims.claim import Claim
from thermostats.claims.evidence import MEASURED, PUBLISHED, REPLICATED, Evidence
from thermostats.claims.run import claim_of
from thermostats.claims.scripts import chosen, scripts
from thermostats.claims.study import Study
from thermostats.claims.views import viewed
from thermostats.errors import DataError, UsageError
from thermostats.measurement.estimate import fits, memory, seconds
from thermostats.measurement.execute import place_of
from thermostats.measurement.hub import OnHub, all_on_hub
from thermostats.measurement.prompts import load_prompts
from thermostats.measurement.session import quiet
from thermostats.measurement.settings import Settings
from thermostats.measurement.spec import RunSpec
from thermostats.measurement.terminal import own_cache, run_specs
from thermostats.reporting.pages.replication import replication_files
from thermostats.tables import store
from thermostats.tables.agreement import compared
from thermostats.tables.atomic import write_atomically
from thermostats.tables.folders import shipped
from thermostats.tables.join import join
from thermostats.tables.schemas import OF_RUNS
from thermostats.terminal import print_rows

GB, MINUTE = 1e9, 60.0
FACTS = ("model", "precisions", "disk_gb", "memory_gb", "fits", "minutes", "gated", "claims", "needs")
"""Columns of the table that is shown before anything is downloaded; JSON has more."""
COMPARED = ("verdict", "estimate", "lower", "upper", "n_models")
"""Fields of a finding that are compared with those on the other set of evidence."""
UNKNOWN_TEXTS = ["x" * 60] * 25
"""Stand for texts that are not at hand where time is reckoned."""


@dataclass(frozen=True)
class Asked:
    """What a replication is asked for."""

    study: Study
    claims: tuple[Claim, ...]
    parts: tuple[plans.Part, ...]
    prompts: str
    """`study`, or the set of ours that takes its place."""
    sizes: Mapping[str, int]
    """Parameters of every model in the tables."""
    texts: Mapping[str, list[str]]
    """By prompt set; those whose texts are not at hand are not in it."""


def asked_for(study: str, claims: Sequence[str], models: Sequence[str], prompts: str, tables: Path) -> Asked:
    """A replication by the names of what is wanted; raises UsageError for what the plan does not know."""
    found = plans.study_named(study)
    known = {name: path for name, path in scripts(shipped("analyses")).items() if name.startswith(found.letter)}
    wanted = [claim_of(known[name]) for name in chosen(claims or None, known)]
    parts = plans.chosen(plans.plan_of(found), wanted, models, prompts)
    texts = {}
    for name in dict.fromkeys(part.prompts for part in parts):
        try:
            texts[name] = [str(text) for text in load_prompts(name, tables)["text"]]
        except DataError:
            continue  # said by `check_texts`, and in every row of the plan
    rows = store.load("models", tables)
    sizes = dict(zip(rows["model_id"], rows["n_params"].fillna(0).astype(int), strict=True))
    return Asked(found, tuple(wanted), parts, prompts, sizes, texts)


def check_texts(asked: Asked) -> None:
    """Raise UsageError where texts of prompts are not at hand, with where they are and what may take their place."""
    lacking = sorted({part.prompts for part in asked.parts} - set(asked.texts))
    if lacking:
        ours = sorted({part.instead for part in asked.parts if part.instead})
        raise UsageError(
            f"the texts of the prompts of {asked.study.name} are not available, since we may not ship them",
            got=", ".join(lacking),
            next_step=f"get the study's files (doi:{asked.study.source}) and `thermostats import DIR --data mine`; or "
            f"use our own set of the same size and categories: --prompts {' or '.join(ours)}",
        )


def plan_rows(asked: Asked, settings: Settings, tables: Path, *, offline: bool, pickles: bool) -> list[dict[str, Any]]:
    """One row for each part of the plan: what it takes here, what the hub says of it, which claims it carries.

    disk_gb is what the hub says, else 2 bytes a parameter; memory_gb that of the largest precision; minutes are those
    of the forward passes.
    """
    place = place_of(settings, tables)
    names = [(part.model, part.asked) for part in asked.parts]
    on_hub = {} if offline else all_on_hub(names, pickles=pickles)
    rows = []
    for part in asked.parts:
        size, said = asked.sizes.get(part.model, 0), on_hub.get((part.model, part.asked), OnHub())
        levels = _levels(asked, part, place)
        passes = len(levels) * (len({"gains", "outputs"} & set(part.what)) > 0) + len(levels) * (
            "attention" in part.what
        )
        took = seconds(size, asked.texts.get(part.prompts, UNKNOWN_TEXTS), passes, place.kind)
        rows.append(
            {
                "model": part.model,
                "revision": part.asked,
                "commit_from": part.commit_from,
                "commit_now": said.commit,
                "prompts": part.prompts,
                "texts": "here" if part.prompts in asked.texts else "not here",
                "position": part.position,
                "published_on": list(part.published_on),
                "what": list(part.what),
                "precisions": list(levels),
                "left_out": [plans.OURS] if plans.OURS not in levels else [],
                "n_params": size,
                "disk_gb": round((said.n_bytes or 2 * size) / GB, 1),
                "memory_gb": round(max(memory(size, level) for level in levels) / GB, 1),
                "device": place.kind,
                "fits": all(fits(size, level, place) for level in levels),
                "minutes": round(took / MINUTE, 1),
                "gated": said.gated,
                "only_pickles": said.only_pickles,
                "needs": said.needs,
                "claims": plans.settled(part, asked.claims),
            }
        )
    return rows


def _levels(asked: Asked, part: plans.Part, place: Any) -> tuple[str, ...]:
    return plans.precisions(part, lambda dtype: fits(asked.sizes.get(part.model, 0), dtype, place))


def show(rows: Sequence[dict[str, Any]], stream: TextIO) -> None:
    """The table of the plan on a stream, and what it comes to on standard error."""
    cells = [{**row, **{name: " ".join(row[name]) for name in ("precisions", "claims")}} for row in rows]
    with redirect_stdout(stream):
        print_rows([{name: _said(row[name]) for name in FACTS} for row in cells], FACTS, spare=("claims",))
    disk = sum({row["model"]: row["disk_gb"] for row in rows}.values())
    took, models = sum(row["minutes"] for row in rows), len({row["model"] for row in rows})
    print(f"{models} models, {disk:.0f} GB to download, {took:.0f} min of forward passes here", file=sys.stderr)


def _said(value: object) -> str:
    return "" if value is None else "yes" if value is True else "no" if value is False else str(value)


def measured(
    asked: Asked,
    rows: Sequence[Mapping[str, Any]],
    folder: Path,
    settings: Settings,
    options: Mapping[str, Any],
    *,
    retries: int,
    budget: int | None,
) -> list[Any]:
    """Outcomes of measuring every part; `budget`: bytes that downloaded models may take."""
    cache = None if budget is None else str(own_cache())
    given = {**options, "device": settings.device, "cache": cache}
    levels = [tuple(row["precisions"]) for row in rows]
    specs = [spec for part, of in zip(asked.parts, levels, strict=True) for spec in plans.specs(part, of, **given)]
    _describe_pinned(asked.parts, folder)
    quiet()
    return run_specs(specs, folder, settings, retries=retries, budget=budget)


def _describe_pinned(parts: Sequence[plans.Part], folder: Path) -> None:
    """Rows of pinned revisions, with what the tables say of the model, such as its family, which no file of it says."""
    models = store.load("models", folder)
    known = set(zip(models["model_id"], models["revision"], strict=True))
    new = [part for part in parts if part.commit and (part.model, part.commit) not in known]
    rows = [
        models[(models["model_id"] == p.model) & (models["revision"] == p.revision)].assign(revision=p.commit)
        for p in new
    ]
    if rows:
        join(store.validate(pd.concat(rows).drop_duplicates(["model_id", "revision"]), "models"), data=folder)


def written(
    asked: Asked, rows: Sequence[Mapping[str, Any]], outcomes: Sequence[Any], folder: Path, out: Path, source: str
) -> dict[str, Any]:
    """Write page and bundle; where they are, and how many figures agree.

    Raises UsageError where nothing of the plan is measured.
    """
    runs = store.load("runs", folder)
    ours = _ours(asked, runs)
    if ours.empty:
        step = "`thermostats ls runs` says why; the same command continues"
        raise UsageError("nothing in the plan has been measured yet, so there is no page", where=folder, next_step=step)
    published = set(store.load("sources", folder)["file"])
    both = pd.concat([runs[runs["source"].isin(published)], ours])
    tables = {schema.name: store.load(schema.name, folder, runs=set(both["run_id"])) for schema in OF_RUNS}
    tables |= {"runs": both, "models": store.load("models", folder), "prompts": store.load("prompts", folder)}
    agreement = compared(tables, published, plans.explanations_of(asked.study))
    sets = (PUBLISHED, REPLICATED if asked.prompts == plans.STUDY else MEASURED)
    page = replication_files(
        agreement,
        both_sets(asked.claims, Evidence(folder), sets),
        ours,
        outcomes,
        title=asked.study.title,
        prompts=tuple(dict.fromkeys(part.prompts for part in asked.parts)),
        same_prompts=asked.prompts == plans.STUDY,
        planned=len({part.model for part in plans.plan_of(asked.study)}),
        sets=sets,
        smaller=tuple(dict.fromkeys(str(row["model"]) for row in rows if row["left_out"])),
    )
    for file, content in page.items():
        write_atomically(out / file, content)
    counts = agreement["agrees"].value_counts().to_dict()
    return {"page": str(out / "index.html"), "figures": counts}


def both_sets(claims: Sequence[Claim], tables: Evidence, sets: tuple[str, str]) -> pd.DataFrame:
    """Claims put to two sets of evidence by the same test and rule, without a fit: a row for each question.

    Columns: claim, title, finding, `COMPARED` of the first set, those of the second with `_again`, same (the verdicts),
    settles (what the second still takes).
    """
    rows = []
    for claim, question in ((one, each) for one in claims for each in one.questions if each.views):
        first, second = (viewed(question, tables.named(name)) for name in sets)
        row = {"claim": claim.id, "title": claim.title, "finding": question.id}
        row |= {name: getattr(first, name) for name in COMPARED}
        row |= {f"{name}_again": getattr(second, name) for name in COMPARED}
        rows.append(row | {"same": first.verdict == second.verdict, "settles": second.settles})
    return pd.DataFrame(rows)


def _ours(asked: Asked, runs: pd.DataFrame) -> pd.DataFrame:
    """Runs of the plan's models, revisions and prompts that were measured here."""
    named = {(part.model, part.asked) for part in asked.parts}
    sets = {"", *(part.prompts for part in asked.parts)}
    pairs = zip(runs["model_id"], runs["revision"], strict=True)
    planned = pd.Series([pair in named for pair in pairs], index=runs.index, dtype="bool")
    return runs[planned & runs["source"].eq(RunSpec.source) & runs["prompt_set"].isin(sets)]
