"""Findings of one claim as its folder has them, `findings.json`: written with its page, read by the pages about all."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import pandas as pd

from thermostats.claims.claim import Claim
from thermostats.claims.finding import Finding, from_columns
from thermostats.claims.posterior import Undrawn
from thermostats.errors import DataError

FACTS = {"said" if item.name == "statement" else item.name: item.name for item in fields(Claim) if item.compare}
"""Keys of a claim in its file, and the fields that they hold."""


@dataclass(frozen=True)
class Entry:
    """One claim on the index: its findings as written to its folder, or the reason why there are none."""

    id: str
    claim: Claim | None
    findings: tuple[Finding, ...] = ()
    inputs: tuple[str, ...] = ()
    """SHA-256 of what each finding is made of."""
    error: str = ""
    posteriors: tuple[Mapping[str, Any] | None, ...] = ()
    """What the file of each finding says of its posterior."""


def written(claim: Claim, findings: Sequence[Finding], inputs: Sequence[str]) -> bytes:
    """Content of the file. inputs: SHA-256 of script, words, error rates and the rows that each finding is made of."""
    content = {
        "claim": {name: getattr(claim, field) for name, field in FACTS.items()},
        "findings": [_plain(f) | {"inputs_sha": sha} for f, sha in zip(findings, inputs, strict=True)],
    }
    return (json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def read_entry(content: bytes) -> Entry:
    """Entry of a claim from its file of findings.

    Raises DataError where it is damaged.
    """
    try:
        read = json.loads(content)
        posteriors = tuple(item.pop("posterior", None) for item in read["findings"])
        inputs = tuple(item.pop("inputs_sha") for item in read["findings"])
        findings = tuple(from_columns(item) for item in read["findings"])
        claim = Claim(**{FACTS[name]: value for name, value in read["claim"].items()})
        return Entry(claim.id, claim, findings, inputs, "", posteriors)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(
            "the findings of a claim are damaged", got=str(error)[:80], next_step="thermostats report --all"
        ) from error


def _plain(finding: Finding) -> dict[str, Any]:
    """A finding without its table and figures, fit for JSON."""
    plain: dict[str, Any] = _by_name(finding.columns())
    posterior = finding.posterior
    if posterior is None:
        return plain | {"posterior": None}
    if isinstance(posterior, Undrawn):
        shown = {name: _json(getattr(posterior, name)) for name in ("model", "rule", "statement", "why")}
        if posterior.earlier is not None:
            shown |= {"probability": posterior.earlier.probability, "probability_error": posterior.earlier.error}
            shown["drawn"] = posterior.earlier.drawn
        return plain | {"posterior": shown}
    tables = {"checks": posterior.gate.table(), "summary": posterior.summary}
    tables["diagnostics"] = posterior.computation.diagnostics
    rows = {name: [_json(row) for row in frame.to_dict("records")] for name, frame in tables.items()}
    return plain | {"posterior": _by_name(posterior.columns()) | {"passes": posterior.gate.passes} | rows}


def _by_name(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _json(value) for name, value in values.items()}


def _json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _json(item) for name, item in value.items() if _json(item) is not None}
    if isinstance(value, tuple | list):
        return [_json(item) for item in value]
    if pd.api.types.is_bool(value):
        return bool(value)
    if pd.api.types.is_integer(value):
        return int(value)
    if pd.api.types.is_float(value):
        return float(value) if math.isfinite(value) else None
    return None if value is pd.NA else value
