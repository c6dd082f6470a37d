"""How the figures of a source become rows of the package's tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from thermostats.tables.column_map import CENTRED, RAW, compute_ratios, convert_read_gains
from thermostats.tables.export import Source
from thermostats.tables.runs import run_id
from thermostats.tables.schemas import EXTERNAL, list_dtypes

Rows = list[dict[str, Any]]


@dataclass
class Tables:
    """Rows of one source by table."""

    source: Source
    rows: dict[str, Rows] = field(default_factory=dict)

    def run(
        self,
        model_id: str,
        prompt_set: str,
        instrument: str,
        dtype: str = "unstated",
        measured_at: str = "",
    ) -> str:
        """Add a run and return its id; what its source does not state is empty or `unstated`."""
        run = {"model_id": model_id, "revision": "main", "dtype": dtype, "attention": "unstated"}
        run |= {
            "prompt_set": prompt_set,
            "prompt_sha": "",
            "measure_version": EXTERNAL,
            "source": self.source.name,
        }
        run |= {
            "instrument": instrument,
            "licence": self.source.licence,
            "measured_at": measured_at,
        }
        run["run_id"] = run_id(run)
        self.add("runs", [run])
        return run["run_id"]

    def prompts(self, prompt_set: str, names: Iterable[str], category: str) -> None:
        """Add prompts of which the texts are not ours to ship, or are not known."""
        facts = {"prompt_set": prompt_set, "category": category, "modality": "text"}
        self.add("prompts", ({**facts, "prompt_id": name} for name in names))

    def add(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows; columns that they lack are empty."""
        blank = {
            label: "" if dtype == "str" else None for label, dtype in list_dtypes(table).items()
        }
        self.rows.setdefault(table, []).extend({**blank, **row} for row in rows)

    def norms(
        self,
        run: str,
        norms: Sequence[float],
        position: str,
        *,
        first: int = 0,
        prompt: str = "",
        form: str = RAW,
    ) -> None:
        """Add the gains G_l = n_l / n_(l-1) of consecutive states of the stream from `first` on.

        form: of `centred` norms these are read gains.
        """
        states = pd.DataFrame({"state": range(first, first + len(norms)), "norm": norms})
        rows = compute_ratios(states, (), self.source.name)[["layer", "norm_in", "gain_block"]]
        rows = convert_read_gains(rows) if form == CENTRED else rows
        place = {"run_id": run, "prompt_id": prompt, "position": position}
        self.add("layers", ({**place, **row} for row in rows.to_dict("records")))

    def summaries(self, run: str, values: Mapping[str, float], prompt: str = "") -> None:
        rows = (
            {"run_id": run, "prompt_id": prompt, "estimand": name, "value": x}
            for name, x in values.items()
        )
        self.add("summaries", rows)

    def weights(
        self,
        run: str,
        matrix: str,
        spectral: Sequence[float],
        frobenius: Sequence[float] = (),
        *,
        first: int = 1,
    ) -> None:
        """Add norms of one whole matrix in layers from `first` on; stable rank where both norms are
        known."""
        for layer, norm in enumerate(spectral, first):
            row = {"run_id": run, "layer": layer, "matrix": matrix, "spectral_norm": norm}
            if len(frobenius):
                f = frobenius[layer - first]
                row |= {"frobenius_norm": f, "stable_rank": (f / norm) ** 2}
            self.add("weights", [row])
