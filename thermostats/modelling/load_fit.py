"""A fit from the file that `Fit.save` wrote."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.errors import DataError, UsageError
from thermostats.modelling.draws import Draws, Settings
from thermostats.modelling.fit import Fit, laid_out, own_law
from thermostats.modelling.laws import Law
from thermostats.modelling.sampling import Declare
from thermostats.modelling.saving import read_call, read_file, read_rows
from thermostats.next_steps import Code, call


def load_fit(path: str | Path, *, law: Law | None = None, model: Declare | None = None) -> Fit:
    """A fit that `save` wrote, of a function of this package as it was; else with its law, or a PyMC model of your own.

    Raises UsageError for a file that is missing, no fit, or of another law; DataError for a damaged one, and for one
    whose rows this version of the package reads otherwise.
    """
    record, values = read_file(Path(path))
    draws = Draws(
        values=values,
        diagnostics=pd.read_json(io.StringIO(record["diagnostics"]), orient="table", precise_float=True),
        settings=Settings(**json.loads(record["settings"])),
        **json.loads(record["draws"]),
    )
    words: dict[str, Any] = json.loads(record["fit"])
    words |= {name: tuple(words[name]) for name in ("sources", "warnings")}
    rows = read_rows(record["rows"])
    if law is None and model is None and record.get("call"):
        fit = laid_out(read_call(record["call"]))
        if list(fit.rows.columns) != list(rows.columns) or len(fit.rows) != len(rows):
            step = "fit and save it again"
            raise DataError("this version reads the rows of a saved fit otherwise", where=path, next_step=step)
        return replace(fit, drawn=draws, **words)
    if law is None and model is None:
        own = "per_row" in json.loads(record["own"])
        missing = {"model": Code("MODEL")} if own else {"law": Code("FIT.law")}
        raise UsageError(
            "functions are not in a saved fit",
            where=path,
            got=f"a fit of “{record['law']}”",
            allowed="law= of a fit like it, or model= of your own",
            next_step=call("load_fit", str(path), **missing),
        )
    chosen = law if law is not None else own_law(model, **json.loads(record["own"]))  # type: ignore[arg-type]
    if chosen.name != record["law"]:
        raise UsageError("a fit of another law", where=path, got=chosen.name, allowed=record["law"])
    return Fit(law=chosen, rows=rows, design=chosen.of(rows), drawn=draws, **words)
