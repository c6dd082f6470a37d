"""Hold today’s findings against the frozen ones: `python tests/golden/golden.py [C04 …]`; 1 where
they differ.

What PyMC alone can draw is compared with `--draw`. `--freeze` draws, writes the findings of the
claims asked for anew and prints which verdicts changed, and which published figures agree with the
recomputed ones that did not before, or no longer do.

Numbers that no draws enter must agree to 1e-9 (`--rounding` for another generation of the
libraries), means of draws to 4 Monte-Carlo errors of their difference; verdicts and counts must be
equal. `findings.json` holds the frozen ones by stable id; `changes.json` what changed on purpose:
by id, the fields that may differ, each with its reason.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from thermostats.claims.finding import Finding, FittedModel
from thermostats.claims.run import Run, run_all
from thermostats.claims.study import list_scripts
from thermostats.formatting import compare_figures
from thermostats.settings import DRAW_VARIABLE
from thermostats.tables import store

HERE = Path(__file__).parent
ERRORS = 4.0
PLAIN = ("estimate", "lower", "upper", "probability")
AGREES = {True: "agrees", False: "does not agree", None: "not recomputed"}
DECISIVE = ("supported", "not supported")
"""Verdicts of a rule that was not tried are provisional and frozen as such."""
SAME = ("verdict", "reason", "n_models", "n_heritages", "interval", "probability_kind")


def same(a: float | None, b: float | None, rounding: float) -> bool:
    """Equal to a relative difference, missing ones only to one another."""
    if a is None or b is None or math.isnan(a) or math.isnan(b):
        return (a is None or math.isnan(a)) and (b is None or math.isnan(b))
    return math.isclose(a, b, rel_tol=rounding, abs_tol=rounding)


def differences(
    old: Mapping[str, Any], new: Finding, rounding: float
) -> Iterator[tuple[str, object, object]]:
    """Field, frozen and present value of whatever differs."""
    values = new.columns()
    for name in SAME:
        if old[name] != values[name]:
            yield name, old[name], values[name]
    for name in PLAIN:
        if not same(old[name], values[name], rounding):
            yield name, old[name], values[name]
    for name in ("published", "reproduced"):
        own = {key: float(value) for key, value in values[name].items() if not math.isnan(value)}
        for key in sorted(old[name].keys() | own.keys()):
            if not same(old[name].get(key), own.get(key), max(rounding, 1e-9)):
                yield f"{name}: {key}", old[name].get(key), own.get(key)
    if (old.get("posterior") is None) != (new.posterior is None):
        yield "posterior", old.get("posterior") is not None, new.posterior is not None
    elif isinstance(new.posterior, FittedModel):
        yield from of_posteriors(old["posterior"], new.posterior)


def of_posteriors(was: Mapping[str, Any], now: FittedModel) -> Iterator[tuple[str, object, object]]:
    """The same of what a fit says."""
    means = {row["quantity"]: (row["mean"], row["mcse"]) for row in now.summary.to_dict("records")}
    by = now.conclusion
    pairs = [
        ("posterior probability", (was["probability"], was["mc_error"]), (by.probability, by.error))
    ]
    pairs += [
        (f"mean of {name}", value, means[name])
        for name, value in was["means"].items()
        if name in means
    ]
    for name, (a, error_a), (b, error_b) in pairs:
        allowed = ERRORS * math.hypot(error_a or 0.0, error_b or 0.0)
        if not abs(a - b) <= max(allowed, 1e-9):
            yield name, a, b
    for name, one, other in (
        ("posterior verdict", was["verdict"], by.verdict),
        ("classical verdict", was["classical"], by.classical),
        ("gate", was["passes"], now.gate.passes),
    ):
        if one != other:
            yield name, one, other
    if gone := sorted(set(was["means"]) - set(means)):
        yield "summary lacks", len(was["means"]), ", ".join(gone[:4])


def key_of(finding: Finding) -> str:
    """Stable id, with the set of evidence where the question was first asked of another."""
    sample = finding.sample
    return f"{finding.id} on {sample.evidence}" if sample.view_of else finding.id


def compared(
    run: Run, frozen: Mapping[str, Any], allowed: Mapping[str, Any], rounding: float
) -> list[str]:
    """Lines on what differs in one claim's findings."""
    if run.claim is None or run.error:
        return [run.error]
    return differing(run.claim.id, run.findings, frozen, allowed, rounding)


def differing(
    claim: str,
    findings: Sequence[Finding],
    frozen: Mapping[str, Any],
    allowed: Mapping[str, Any],
    rounding: float,
) -> list[str]:
    """Lines on what differs in these findings of a claim."""
    own = {key: value for key, value in frozen.items() if key.split(".")[0] == claim}
    found = {key_of(finding): finding for finding in findings}
    lines = [
        f"{key}: {'missing' if key in own else 'new'}"
        for key in sorted(own.keys() ^ found.keys())
        if key not in allowed
    ]
    for key in own.keys() & found.keys():
        may = allowed.get(key, {})
        for field, was, now in differences(own[key], found[key], rounding):
            if not any(field.startswith(name) for name in may):
                lines.append(f"{key}, {field}: {was!r} was frozen, {now!r} now")
    return lines


def refrozen(run: Run, frozen: Mapping[str, Any]) -> dict[str, Any]:
    """The frozen findings with those of one claim anew; prints the verdicts and agreements that
    changed."""
    if run.claim is None or run.error:
        raise SystemExit(run.error)
    others = {key: value for key, value in frozen.items() if key.split(".")[0] != run.claim.id}
    untried = [finding for finding in run.findings if finding.criterion.worlds == 0]
    if half := [
        finding.id
        for finding in untried
        if finding.verdict in DECISIVE and not finding.strength.provisional
    ]:
        raise SystemExit(
            f"{', '.join(half)}: not tried in worlds yet; python scripts/worlds.py {run.claim.id}"
        )
    own = {key_of(finding): as_frozen(finding) for finding in run.findings}
    for key in sorted(own.keys() | {key for key in frozen if key.split(".")[0] == run.claim.id}):
        was, now = (
            f"{found['verdict']} ({found['reason']})"
            if found.get("reason")
            else found.get("verdict", "nothing")
            for found in (frozen.get(key, {}), own.get(key, {}))
        )
        if was.split(" (")[0] != now.split(" (")[0]:
            print(f"{key}: {was}, now {now}", flush=True)
        before, after = (agreement(findings.get(key, {})) for findings in (frozen, own))
        for figure in (
            name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
        ):
            was, now = (words.get(figure, "not published") for words in (before, after))
            print(f"{key}, {figure}: {was}, now {now}", flush=True)
    return dict(sorted({**others, **own}.items()))


def agreement(frozen: Mapping[str, Any]) -> dict[str, str]:
    """Published figures of a finding: whether the recomputed one agrees, in words; empty of one
    without any."""
    rows = compare_figures(frozen.get("published", {}), frozen.get("reproduced", {}))
    return {row.name: AGREES[row.agrees] for row in rows if row.published}


def as_frozen(finding: Finding) -> dict[str, Any]:
    """What is frozen of a finding."""
    values = finding.columns()
    kept = {name: values[name] for name in ("evidence", "estimand", *SAME, *PLAIN)}
    for name in ("published", "reproduced"):
        kept[name] = {
            key: float(value) for key, value in values[name].items() if not math.isnan(value)
        }
    if isinstance(fit := finding.posterior, FittedModel):
        kept["posterior"] = {
            "statement": fit.conclusion.statement,
            "probability": fit.conclusion.probability,
            "mc_error": fit.conclusion.error,
            "verdict": fit.conclusion.verdict,
            "passes": fit.gate.passes,
            "classical": fit.conclusion.classical,
            "means": {
                row["quantity"]: [row["mean"], row["mcse"]]
                for row in fit.summary.to_dict("records")
            },
        }
    return kept


def main() -> int:
    """Compare the claims asked for, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("claims", nargs="*", help="such as C04; all without any")
    parser.add_argument(
        "--rounding",
        type=float,
        default=1e-9,
        help="relative difference allowed of what is not drawn",
    )
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument(
        "--draw", action="store_true", help="also draw what PyMC alone can draw, and compare it"
    )
    parser.add_argument(
        "--freeze", action="store_true", help="write the findings of these claims anew"
    )
    asked = parser.parse_args()
    frozen = json.loads((HERE / "findings.json").read_text(encoding="utf-8"))
    allowed = json.loads((HERE / "changes.json").read_text(encoding="utf-8"))
    found = list_scripts(store.find_shipped("analyses"))
    jobs = {
        claim: path for claim, path in found.items() if not asked.claims or claim in asked.claims
    }
    bad = 0
    if asked.draw or asked.freeze:
        os.environ[DRAW_VARIABLE] = "1"
    for claim, run in run_all(jobs, store.find_data_folder(), asked.processes):
        if asked.freeze:
            frozen = refrozen(run, frozen)
            continue
        lines = compared(run, frozen, allowed, asked.rounding)
        bad += len(lines)
        print(
            f"{claim}: {len(run.findings)} findings, {len(lines)} differences, {run.seconds:.0f} s",
            flush=True,
        )
        for line in lines:
            print(f"  {line}", flush=True)
    if asked.freeze:
        (HERE / "findings.json").write_text(
            json.dumps(frozen, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        return 0
    print("golden: nothing differs" if not bad else f"golden: {bad} differences")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
