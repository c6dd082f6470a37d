"""Which models would settle the claims: `python scripts/next_models.py` writes `data/next.csv` and
the numbers of `docs/how-to/campaign.md`.

It asks `thermostats next --all` for campaigns within `BUDGETS` and judges every open claim with
each. Resumable: advice is kept in the cache by rule, worlds, candidates and rows, so that the same
command goes on where it stopped, and asks anew only for what changed. `--page` writes the page
alone, from the table.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.machine_speed import STATED
from thermostats.claims.planning import campaign
from thermostats.claims.planning.advice import NextModels
from thermostats.claims.planning.next_models import MODELS, Terms
from thermostats.claims.planning.search import Budget
from thermostats.claims.planning.shipped_advice import NUMBERS, digest_runs, load_advice
from thermostats.reporting.pages.next import describe_campaign
from thermostats.tables.folders import ADVICE, write_atomically

ROOT = Path(__file__).resolve().parents[1]
SPEED = 1e11
"""Operations a second at which the table's minutes are reckoned, whatever machine makes it."""
TABLE = ROOT / "data" / ADVICE
PAGE = ROOT / "docs" / "how-to" / "campaign.md"
BUDGETS = (60.0, 150.0)
BEGIN = "<!-- campaign {}: scripts/next_models.py writes it -->\n"
NOT_RUN = "<!-- not run: it downloads the models -->"
END = "<!-- end of campaign {} -->\n"


def plan_campaign(
    budget: float, smaller: Sequence[NextModels]
) -> tuple[list[NextModels], campaign.Campaign]:
    """The advice for every claim within a budget, and the campaign of it, judged.

    smaller: the advice within smaller budgets, whose sets may be taken too.
    """
    terms = Terms(Budget(budget, MODELS))
    advice = []
    for each in campaign.plan_all(terms):
        print(f"{budget:g} GB, {each.claim}: {each.first_line}", file=sys.stderr, flush=True)
        advice.append(each)
    chosen = campaign.choose_campaign([*smaller, *advice], budget)
    judged = []
    for claim, shown in campaign.judge_campaign(chosen, advice, terms):
        print(f"{budget:g} GB, {claim.claim}: {shown.chance:.0%}", file=sys.stderr, flush=True)
        judged.append((claim, shown))
    return advice, replace(chosen, judged=tuple(judged))


def make_table() -> pd.DataFrame:
    """The table for all budgets; each claim's own set is that within the first.

    Where a larger budget's campaign brings fewer verdicts once it is judged, that of the smaller
    one stands for both.
    """
    advice: list[NextModels] = []
    campaigns: list[campaign.Campaign] = []
    for budget in sorted(BUDGETS):
        more, chosen = plan_campaign(budget, advice)
        advice += more
        best = max([*campaigns, chosen], key=lambda one: one.expected)
        campaigns.append(replace(best, gigabytes=budget))
    first = [each for each in advice if each.budget.gigabytes == min(BUDGETS)]
    return campaign.tabulate_campaigns(first, campaigns, digest_runs(Evidence(None)))


def write_page(page: str, advice: pd.DataFrame) -> str:
    """The page with the numbers of a table."""
    for name in advice.loc[advice["claim"] == "", "set"]:
        begin, end = BEGIN.format(name), END.format(name)
        before, _, rest = page.partition(begin)
        after = rest.partition(end)[2]
        text = describe_campaign(advice, name).replace("```sh", f"{NOT_RUN}\n```sh")
        page = f"{before}{begin}\n{text}\n{end}{after}"
    return page


def main() -> None:
    """Write the table and the page."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="the page alone, from the table")
    if not parser.parse_args().page:
        STATED.set(SPEED)
        table = make_table()
        table[list(NUMBERS)] = table[list(NUMBERS)].astype(float).round(4)
        content = table.to_csv(index=False, float_format="%.4g", lineterminator="\n")
        write_atomically(TABLE, content.encode())
        load_advice.cache_clear()
    page = write_page(PAGE.read_text(encoding="utf-8"), load_advice())
    write_atomically(PAGE, page.encode())


if __name__ == "__main__":
    main()
