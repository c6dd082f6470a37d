"""Tables about the study's files themselves: what they are, what they state, and what became of their numbers."""

from __future__ import annotations

from thermostats.tables.declare import FLOAT, INTEGER, MISSING, TEXT, column, table
from thermostats.tables.vocabulary import FATES

SOURCES = table(
    "sources",
    "the study's files: one row per file",
    ["file"],
    {
        "file": column(TEXT, "file name"),
        "sha256": column(TEXT, "SHA-256 of its bytes"),
        "bytes": column(INTEGER, "its size", "byte", lower=0),
        "measured_at": column(TEXT, "date the file gives for itself; empty: none"),
        "repeats": column(TEXT, "file whose figures it repeats; empty: none"),
        "doi": column(TEXT, "archive record"),
        "licence": column(TEXT, "licence"),
    },
)

STATEMENTS = table(
    "statements",
    "figures the study states that are no measurement: correlations, p-values, means, formulas, values read off "
    "figures; those of files that follow from imported rows have the fate derivable in reconciliation",
    ["source", "pointer"],
    {
        "source": column(TEXT, "file name, or preprint"),
        "pointer": column(TEXT, "place in the file (JSON pointer), or section or figure"),
        "statistic": column(TEXT, "what kind of figure"),
        "model_id": column(TEXT, "model it is about; empty: several"),
        "value": column(FLOAT, "its value", "as named", nullable=True),
        "missing": MISSING,
    },
)

INCONSISTENCIES = table(
    "inconsistencies",
    "where the study's files disagree with each other, with themselves, or with what they say they hold",
    ["inconsistency_id"],
    {
        "inconsistency_id": column(TEXT, "name"),
        "kind": column(TEXT, "measured twice, mislabelled, unpaired, missing, wrong fact, wrong formula"),
        "file": column(TEXT, "file name"),
        "other_file": column(TEXT, "file it disagrees with; empty: itself"),
        "model_id": column(TEXT, "model concerned; empty: several"),
        "value": column(FLOAT, "figure in the file", "as named", nullable=True),
        "other_value": column(FLOAT, "figure it disagrees with", "as named", nullable=True),
        "what": column(TEXT, "what disagrees"),
        "handling": column(TEXT, "what was done about it"),
    },
)

RECONCILIATION = table(
    "reconciliation",
    "what became of every number in the study's files: one row per file and place",
    ["file", "pointer", "fate"],
    {
        "file": column(TEXT, "file name"),
        "pointer": column(TEXT, "place in the file, * for any index"),
        "fate": column(
            TEXT,
            "imported: a row of a table; derivable: recomputed from imported rows and compared, and a row of "
            "statements where it is a figure of its own and no copy, count, shape or entry of a list; left out",
            allowed=FATES,
        ),
        "numbers": column(INTEGER, "numbers at this place", "count", lower=0),
        "missing": column(INTEGER, "of these not a number (NaN) in the file", "count", lower=0),
        "largest_difference": column(
            FLOAT, "derivable: largest relative difference of the recomputed value", "ratio", nullable=True
        ),
        "where": column(TEXT, "imported: table and column; derivable: from what; left out: reason"),
    },
)
