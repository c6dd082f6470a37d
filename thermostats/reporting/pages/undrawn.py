"""A finding whose posterior was not drawn, with what the snapshot has of it."""

from __future__ import annotations

from dataclasses import replace

from thermostats.claims.finding import Convergence, EarlierDraws, Undrawn
from thermostats.claims.stored import Made
from thermostats.reporting.posteriors import Posteriors


def with_earlier(made: Made, posteriors: Posteriors, inputs: str) -> Made:
    """The finding with what the snapshot has of its posterior, or why it has nothing; others as they are.

    inputs: SHA-256 of what it is made of.
    """
    finding, posterior = made.finding, made.finding.posterior
    if not isinstance(posterior, Undrawn):
        return made
    row = posteriors.of(finding.id, finding.sample.evidence, inputs)
    if isinstance(row, str):
        return replace(made, finding=replace(finding, posterior=replace(posterior, why=row)))
    number = {name: float(row[name]) if row[name] else None for name in ("mc_error", "rhat_max", "ess_min")}
    divergences = int(float(row["divergences"])) if row["divergences"] else None
    earlier = EarlierDraws(probability=float(row["posterior"]), error=number["mc_error"], drawn=row["drawn"])
    mixed = Convergence(number["rhat_max"], number["ess_min"], divergences)
    return replace(made, finding=replace(finding, posterior=replace(posterior, earlier=earlier), convergence=mixed))
