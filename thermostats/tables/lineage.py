"""The tables `lineage` and `models` together: where the two contradict each other, and both as one."""

from __future__ import annotations

import pandas as pd

from thermostats.errors import DataError


def check_lineage(models: pd.DataFrame, lineage: pd.DataFrame) -> None:
    """Raise DataError where the two tables contradict each other, or a parent stands in neither."""
    names = set(models["model_id"]) | set(lineage["model_id"])
    for row in lineage.to_dict("records"):
        if row["parent"] and row["parent"] not in names:
            raise DataError(
                "table lineage names a parent that neither it nor table models has",
                where=row["model_id"],
                got=row["parent"],
                next_step=f"add a row for {row['parent']} to table lineage, its parent empty where it has none",
            )
    stated = models[models["model_id"].isin(lineage["model_id"]) & (models["parent"] != "")]
    parents = lineage.groupby("model_id")["parent"].agg(set)
    for model, parent in stated[["model_id", "parent"]].drop_duplicates().itertuples(index=False):
        if parent not in parents[model]:
            got = f"{parent} in models, {', '.join(sorted(parents[model])) or 'none'} in lineage"
            raise DataError("two tables name another parent", where=model, got=got, next_step="correct one of the two")
    facts = models.drop_duplicates("model_id").set_index("model_id")
    for row in lineage[lineage["model_id"].isin(facts.index)].to_dict("records"):
        for label in ("heritage", "family"):
            held = facts.loc[row["model_id"], label]
            if row[label] and held and row[label] != held:
                raise DataError(
                    f"two tables name another {label}", where=row["model_id"], got=f"{row[label]}, {held}",
                    next_step="leave it empty in lineage",
                )  # fmt: skip


def joined(models: pd.DataFrame, lineage: pd.DataFrame) -> pd.DataFrame:
    """One row per model and parent, with lab, family and year; the parent of table models where lineage lacks it."""
    facts = models.drop_duplicates("model_id").set_index("model_id")
    rows = lineage.copy()
    lacking = facts[~facts.index.isin(rows["model_id"])].reset_index()
    rows = pd.concat([rows, lacking[["model_id", "parent", "heritage", "family"]]], ignore_index=True)
    for label in ("heritage", "family"):
        rows[label] = rows["model_id"].map(facts[label]).fillna("").where(rows[label].fillna("") == "", rows[label])
    rows["year"] = rows["model_id"].map(facts["year"])
    texts = ["parent", "kind", "teacher", "tokenizer", "corpus", "source"]
    return rows.assign(**{label: rows[label].fillna("") for label in texts})
