"""A fit as a netCDF file: draws, rows and words. Functions are not in it: to predict, a fit is given its law again."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray

from thermostats.errors import DataError, UsageError
from thermostats.modelling.draws import Draws, Settings
from thermostats.modelling.fit import Fit, Law, own_law
from thermostats.modelling.sampling import Declare

FORMAT = "thermostats fit 1"
OF_DRAWS = ("engine", "attempts", "effective", "log_evidence", "seconds")
OF_FIT = ("seed", "level", "estimand", "sources", "warnings")


def save(fit: Fit, path: str | Path) -> Path:
    """Write a fit to a netCDF file and return its path; raises UsageError where it cannot be written."""
    target = Path(path)
    variables = {
        name: (("chain", "draw", *(f"{name}_{i}" for i in range(values.ndim - 2))), values)
        for name, values in fit.draws.values.items()
    }
    record = {
        "format": FORMAT,
        "law": fit.law.name,
        "own": json.dumps(fit.constants.get("own", {})),
        "rows": fit.rows.to_json(orient="table", double_precision=15),
        "diagnostics": fit.draws.diagnostics.to_json(orient="table", index=False, double_precision=15),
        "draws": json.dumps({name: getattr(fit.draws, name) for name in OF_DRAWS}),
        "settings": json.dumps(asdict(fit.draws.settings)),
        "fit": json.dumps({name: getattr(fit, name) for name in OF_FIT}),
    }
    try:
        xarray.Dataset(variables, attrs=record).to_netcdf(target, engine="h5netcdf")
    except OSError as error:
        raise UsageError(
            "a fit cannot be written", where=target, got=error, next_step="choose a folder that exists"
        ) from error
    return target


def load_fit(path: str | Path, *, law: Law | None = None, model: Declare | None = None) -> Fit:
    """A fit that `save` wrote, with the law that it was fitted by, or the PyMC model of your own.

    Raises UsageError for a file that is missing, no fit, or of another law; DataError for a damaged one.
    """
    record, values = _read(Path(path))
    if law is None and model is None:
        raise UsageError(
            "functions are not in a saved fit",
            where=path,
            got=f"a fit of “{record['law']}”",
            allowed="law= of a fit like it, or model= of your own",
            next_step=f"thermostats.load_fit({str(path)!r}, model={record['law']})",
        )
    chosen = law if law is not None else own_law(model, **json.loads(record["own"]))  # type: ignore[arg-type]
    if chosen.name != record["law"]:
        raise UsageError("a fit of another law", where=path, got=chosen.name, allowed=record["law"])
    rows = pd.read_json(io.StringIO(record["rows"]), orient="table", precise_float=True)
    laid = chosen.lay_out(rows, None)
    words: dict[str, Any] = json.loads(record["fit"])
    words |= {name: tuple(words[name]) for name in ("sources", "warnings")}
    draws = Draws(
        values=values,
        diagnostics=pd.read_json(io.StringIO(record["diagnostics"]), orient="table", precise_float=True),
        settings=Settings(**json.loads(record["settings"])),
        **json.loads(record["draws"]),
    )
    return Fit(law=chosen, rows=rows, model=laid.model, constants=laid.constants, draws=draws, **words)


def _read(path: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """The words and the draws of a file."""
    if not path.is_file():
        raise UsageError("no such file", got=path, allowed="a file that fit.save(path) wrote")
    try:
        with xarray.open_dataset(path, engine="h5netcdf") as file:
            values = {str(name): np.asarray(file[name].values, dtype=np.float64) for name in file.data_vars}
            record = {str(name): str(value) for name, value in file.attrs.items()}
    except (OSError, ValueError, KeyError) as error:
        raise DataError("a saved fit is damaged", where=path, got=error, next_step="fit and save it again") from error
    if record.get("format") != FORMAT:
        raise UsageError("no saved fit", got=path, allowed=f"a file that fit.save(path) wrote ({FORMAT})")
    return record, values
