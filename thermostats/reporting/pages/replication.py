"""The page of a replication: published figures against measured ones, then claim by claim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from thermostats.claims.verdict import UNMEASURED
from thermostats.plots.agreement import bland_altman, identity
from thermostats.plots.svg import drawn
from thermostats.reporting.render import Page, html
from thermostats.reporting.text import Files, link, text
from thermostats.tables.agreement import BEYOND, UNTOLD, WITHIN, limits
from thermostats.tables.identities import TOLERANCE
from thermostats.words import number, short_name, with_interval

KINDS = (WITHIN, BEYOND, UNTOLD)
INDEX, AGREEMENT, CLAIMS, RUNS = "index", "agreement.csv", "claims.csv", "runs.csv"
SHOWN = {
    "model_id": "model",
    "quantity": "quantity",
    "dtype": "published in",
    "measured_dtype": "measured in",
    "published": "published",
    "replicated": "measured",
    "ratio": "ratio",
    "why": "why",
}
"""Columns of the table of what differs, and their heads."""
LEAST = 3
"""Models from which on a quantity has figures of its own."""
OF_RUNS = ("model_id", "revision", "dtype", "prompt_set", "versions", "device", "run_id")


def replication_files(
    rows: pd.DataFrame, claims: pd.DataFrame, runs: pd.DataFrame, outcomes: Sequence[Any], **about: Any
) -> dict[str, bytes]:
    """The page as Markdown and HTML, its figures and its tables.

    rows: figures as `tables/agreement.py` compares them. claims: put to two sets of evidence. runs: what was measured,
    rows of the table `runs`. about: title of the study, prompts, whether they are the study's (same_prompts), number of
    models planned, both sets of evidence, models that float32 did not fit (smaller), bundle, and source.
    """
    files, of = Files(), rows["agrees"]
    beyond = rows[of == BEYOND]
    reasons = [(each.model, each.revision, each.reason) for each in outcomes if each.status == "failed"]
    failed = pd.DataFrame(reasons, columns=["model", "revision", "reason"])
    values: dict[str, Any] = {"identity": "", "altman": "", "limits": "", "beyond": "", "quantities": []}
    if len(rows):
        held = f"{len(rows)} figures, {rows['quantity'].nunique()} quantities; bars are 95% intervals"
        values["identity"] = files.figure(
            drawn(lambda axes: identity(rows, axes, KINDS)), "identity.svg", f"Measured against published: {held}."
        )
        values["altman"] = files.figure(
            drawn(lambda axes: bland_altman(rows, axes, KINDS)),
            "bland-altman.svg",
            "Bland and Altman’s plot: measured over published, by their geometric mean.",
        )
        summary = limits(rows)
        values["limits"] = files.table(summary, "By quantity: mean ratio and limits of agreement", "limits.csv")
        values["quantities"] = [
            _quantity(row, rows[rows["quantity"] == row["quantity"]], files)
            for row in summary[summary["models"] >= LEAST].to_dict("records")
        ]
    if len(beyond):
        values["beyond"] = files.table(beyond, "Beyond measurement error", "beyond.csv", shown=_shown(beyond))
    files.add(AGREEMENT, _csv(rows))
    files.add(CLAIMS, _csv(claims))
    values |= {
        **about,
        "models": runs["model_id"].nunique(),
        "runs": len(runs),
        "counts": {s: sum(o.status == s for o in outcomes) for s in ("measured", "skipped", "failed")},
        "totals": {
            "all": len(rows),
            "within": int((of == WITHIN).sum()),
            "beyond": len(beyond),
            "unknown": int((of == UNTOLD).sum()),
            "explained": int((beyond["why"] != "not explained").sum()),
        },
        "moved": moved(runs),
        "unmeasured": UNMEASURED,
        "tolerances": ", ".join(f"{name} {share:.1%}" for name, share in TOLERANCE.items()),
        "claims": [_claim(own) for _, own in claims.groupby("claim", sort=True)] if len(claims) else [],
        "failed": files.table(failed, "Failed", "failed.csv") if len(failed) else "",
        "runs_table": files.table(runs[list(OF_RUNS)], "Measured runs", RUNS),
        "link_agreement": link(AGREEMENT, AGREEMENT),
        "link_claims": link(CLAIMS, CLAIMS),
    }
    page = Page(f"{INDEX}.html", text("replication.md", **values))
    files.add(f"{INDEX}.md", page.text.encode())
    made = html(page, lambda name: files.found[name], pages={}, whole=False)
    return {**files.found, page.name: made}


def _quantity(row: dict[str, Any], rows: pd.DataFrame, files: Files) -> dict[str, Any]:
    """The two figures of one quantity."""
    name, stem = str(row["quantity"]), str(row["quantity"]).lower()
    lines = {"mean": row["mean_ratio"], "limits of agreement": row["limit_above"], " ": row["limit_below"]}
    about = f"{name}, {row['models']} models"
    across = drawn(lambda axes: identity(rows, axes, KINDS))
    ratio = drawn(lambda axes: bland_altman(rows, axes, KINDS, lines))
    return {
        "name": name,
        "identity": files.figure(across, f"identity-{stem}.svg", f"Measured against published: {about}."),
        "altman": files.figure(ratio, f"bland-altman-{stem}.svg", f"Measured over published, by their mean: {about}."),
    }


def moved(runs: pd.DataFrame) -> list[str]:
    """Models whose runs of one revision are of several commits of the hub."""
    commits = runs["versions"].str.extract(r"\bcommit=(\w+)")[0]
    counts = commits.groupby([runs["model_id"], runs["revision"]]).nunique()
    return sorted({str(model) for (model, _), count in counts.items() if count > 1})


def _shown(rows: pd.DataFrame) -> pd.DataFrame:
    shown = rows.assign(
        model_id=rows["model_id"].map(short_name),
        published=_intervals(rows, "value", "lower", "upper"),
        replicated=_intervals(rows, "measured", "measured_lower", "measured_upper"),
        ratio=rows["measured"] / rows["value"],
    )
    return shown[list(SHOWN)].rename(columns=SHOWN)


def _intervals(rows: pd.DataFrame, *columns: str) -> list[str]:
    """Values with their intervals; a value alone where it has none."""
    return [
        with_interval(value, low, high) if low < high else number(value)
        for value, low, high in rows[list(columns)].itertuples(index=False, name=None)
    ]


def _claim(rows: pd.DataFrame) -> dict[str, Any]:
    records = [
        {**row, "before": _estimate(row, ""), "after": _estimate(row, "_again")} for row in rows.to_dict("records")
    ]
    open_ = sum(row["verdict_again"] == UNMEASURED for row in records)
    same = sum(bool(row["same"]) and row["verdict_again"] != UNMEASURED for row in records)
    first = sum(row["verdict"] == UNMEASURED != row["verdict_again"] for row in records)
    counts = {"asked": len(records), "open": open_, "same": same, "answered": first}
    counts["other"] = len(records) - open_ - same - first
    return {"id": records[0]["claim"], "title": records[0]["title"], "rows": records, **counts}


def _estimate(row: dict[str, Any], ending: str) -> str:
    """Estimate with its interval, and how many models it rests on."""
    value, low, high = (row[f"{name}{ending}"] for name in ("estimate", "lower", "upper"))
    none = value is None or pd.isna(value)
    said = "" if none else with_interval(value, low, high) if pd.notna(low) and pd.notna(high) else number(value)
    count = int(row[f"n_models{ending}"] or 0)
    return ", ".join(filter(None, [said, f"{count} model{'s' * (count != 1)}"]))


def _csv(frame: pd.DataFrame) -> bytes:
    content: str = frame.to_csv(index=False, lineterminator="\n")
    return content.encode()
