"""Every table and column: type, unit, meaning, key; the codebook is made from it.

Conventions: layers are 1-based (block 1 … block L; 0 is what enters block 1). Text columns are never null, an empty
text means "does not apply" or "not stated". Numeric columns are empty where a value is missing, and `missing` says why.
"""

from __future__ import annotations

import pandera.pandas as pa

from thermostats.tables.declare import FLAG, FLOAT, INTEGER, MISSING, TEXT, column, gain, table
from thermostats.tables.vocabulary import (
    ATTENTION_VARIANTS,
    FATES,
    MATRICES,
    NORM_PLACES,
    POSITION_SCHEMES,
    POSITIONS,
    TRANSITION_DEFINITIONS,
    VERDICTS,
)

RUN_ID = column(TEXT, "hash of what was measured, see the table runs")
PROMPT_ID = column(TEXT, "prompt within the run's prompt set; empty: averaged over the set")

MODELS = table(
    "models",
    "one row per model and revision: who made it and what it looks like",
    ["model_id", "revision"],
    {
        "model_id": column(TEXT, "hub id, or the folder's name for a local model"),
        "revision": column(TEXT, "branch, tag or commit; main where a source states none"),
        "heritage": column(TEXT, "lab that trained the model; empty: not stated"),
        "family": column(TEXT, "models of one lab that share a recipe, such as pythia"),
        "variant": column(TEXT, "base or instruct; empty: not stated", allowed=["base", "instruct", ""]),
        "parent": column(TEXT, "model_id of the model it was tuned from; empty: trained from scratch or not stated"),
        "architecture": column(TEXT, "model type of its configuration, such as gpt_neox"),
        "n_layers": column(INTEGER, "blocks, L", "count", lower=1),
        "d_model": column(INTEGER, "width of the residual stream, d", "count", lower=1),
        "d_embed": column(INTEGER, "width of the token embedding, mostly d_model", "count", lower=1),
        "n_heads": column(INTEGER, "query heads, H", "count", lower=1),
        "n_kv_heads": column(INTEGER, "key/value heads, K", "count", lower=1),
        "d_head": column(INTEGER, "width of a head, d_h", "count", lower=1),
        "d_ff": column(INTEGER, "width of the feed-forward layer", "count", lower=1),
        "vocab_size": column(INTEGER, "rows of the embedding, padding included", "count", lower=1),
        "n_positions": column(INTEGER, "rows of a learned position table; 0: none", "count", lower=0),
        "tied_embeddings": column(FLAG, "unembedding is the embedding"),
        "gated_mlp": column(FLAG, "three feed-forward matrices (gate, up, down) rather than two"),
        "n_params": column(
            INTEGER, "all weights, tied ones once, by the formula of its architecture", "count", lower=1
        ),
        "n_params_nonembedding": column(
            INTEGER, "weights without token embedding, position table and unembedding", "count", lower=1
        ),
        "norm_kind": column(TEXT, "normalisation", allowed=["LayerNorm", "RMSNorm"]),
        "norm_place": column(
            TEXT,
            "where the block normalises; " + "; ".join(f"{k}: {v}" for k, v in NORM_PLACES.items()),
            allowed=list(NORM_PLACES),
        ),
        "position_scheme": column(TEXT, "how positions enter", allowed=POSITION_SCHEMES),
        "parallel_block": column(FLAG, "attention and feed-forward layer read the same stream"),
        "year": column(INTEGER, "year of release; empty: not stated", "year", nullable=True, lower=2017, upper=2100),
        "source": column(TEXT, "where the facts of this row come from"),
    },
)

PROMPTS = table(
    "prompts",
    "one row per prompt of a prompt set",
    ["prompt_set", "prompt_id"],
    {
        "prompt_set": column(TEXT, "name of the set"),
        "prompt_id": column(TEXT, "name within the set"),
        "text": column(TEXT, "the prompt; empty where it is not ours to ship, then only its hash is kept", free=True),
        "text_sha256": column(TEXT, "SHA-256 of the text in UTF-8"),
        "category": column(TEXT, "kind of prompt"),
        "complexity": column(INTEGER, "rank of the category's complexity as its author gave it", "rank", nullable=True),
    },
)

RUNS = table(
    "runs",
    "one row per measurement of one model on one prompt set",
    ["run_id"],
    {
        "run_id": column(
            TEXT, "hash of model_id, revision, dtype, attention, prompt_set, prompt_sha, measure_version, source"
        ),
        "model_id": column(TEXT, "model measured"),
        "revision": column(TEXT, "its revision"),
        "dtype": column(
            TEXT, "precision of the weights", allowed=["float32", "bfloat16", "float16", "float64", "mixed", "unstated"]
        ),
        "attention": column(TEXT, "attention implementation: eager, sdpa, … or unstated"),
        "prompt_set": column(TEXT, "prompt set; empty: weights only"),
        "prompt_sha": column(TEXT, "SHA-256 over the hashes of the set's texts in order of prompt_id; empty: none"),
        "measure_version": column(TEXT, "version of the measurement code; published: as published"),
        "source": column(TEXT, "who measured: thermostats, or the file the rows come from"),
        "special_tokens": column(TEXT, "recorded: tokens that the tokenizer puts before every prompt"),
        "versions": column(TEXT, "recorded: library versions, name=version separated by spaces"),
        "device": column(TEXT, "recorded: device"),
        "seconds": column(FLOAT, "recorded: wall-clock time", "s", nullable=True, lower=0.0),
        "measured_at": column(TEXT, "recorded: time, ISO 8601"),
    },
    model_id="models",
)

LAYERS = table(
    "layers",
    "residual gains: one row per run, layer, prompt and token position",
    ["run_id", "layer", "prompt_id", "position"],
    {
        "run_id": RUN_ID,
        "layer": column(INTEGER, "block l", "1-based", lower=1),
        "prompt_id": PROMPT_ID,
        "position": column(
            TEXT, "token position: " + "; ".join(f"{k}: {v}" for k, v in POSITIONS.items()), allowed=list(POSITIONS)
        ),
        "norm_in": column(
            FLOAT, "n_(l-1), Euclidean norm of the stream entering the block", "norm", nullable=True, above=0.0
        ),
        "gain_block": gain("G_l = n_l / n_(l-1)"),
        "gain_attention": gain("norm of the attention's output over that of its (normed) input"),
        "gain_mlp": gain("norm of the feed-forward layer's output over that of its (normed) input"),
        "write_attention": gain("norm of what attention writes over n_(l-1)"),
        "write_mlp": gain("norm of what the feed-forward layer writes over n_(l-1)"),
        "cosine": column(FLOAT, "cos(x_(l-1), x_l)", "cosine", nullable=True, lower=-1.0001, upper=1.0001),
        "anisotropy": column(
            FLOAT,
            "mean pairwise cosine of the token vectors of x_l, first token left out",
            "cosine",
            nullable=True,
            lower=-1.0001,
            upper=1.0001,
        ),
        "n_tokens": column(INTEGER, "real tokens of the prompt", "count", nullable=True, lower=1),
        "missing": MISSING,
    },
    run_id="runs",
)

SUMMARIES = table(
    "summaries",
    "named values per run or prompt, where only a summary was published or the quantity has no layer",
    ["run_id", "prompt_id", "estimand"],
    {
        "run_id": RUN_ID,
        "prompt_id": PROMPT_ID,
        "estimand": column(
            TEXT, "name of the quantity; _mean and _sd: mean and standard deviation over prompts or layers"
        ),
        "value": column(FLOAT, "its value", "as named", nullable=True),
        "missing": MISSING,
    },
    run_id="runs",
)

OUTPUTS = table(
    "outputs",
    "next-token distribution after the last token: one row per run and prompt",
    ["run_id", "prompt_id"],
    {
        "run_id": RUN_ID,
        "prompt_id": PROMPT_ID,
        "entropy": column(FLOAT, "entropy of the distribution", "nat", nullable=True, lower=-1e-6),
        "top_token": column(
            TEXT, "most probable token, control characters and backslashes escaped as in JSON", free=True
        ),
        "top_probability": column(FLOAT, "its probability", "probability", nullable=True, lower=0.0, upper=1.0),
        "logit_mean": column(FLOAT, "mean of the logits", "logit", nullable=True),
        "logit_sd": column(FLOAT, "standard deviation of the logits", "logit", nullable=True, lower=0.0),
        "logit_range": column(FLOAT, "largest minus smallest logit", "logit", nullable=True, lower=0.0),
        "missing": MISSING,
    },
    run_id="runs",
)

WEIGHTS = table(
    "weights",
    "spectra of weight matrices: one row per run, layer, matrix and head",
    ["run_id", "layer", "matrix", "head"],
    {
        "run_id": RUN_ID,
        "layer": column(INTEGER, "block l; 0 for embedding and unembedding", "1-based", lower=0),
        "matrix": column(TEXT, "which matrix, as it acts on column vectors", allowed=MATRICES),
        "head": column(TEXT, "query head, 1-based; empty: the whole matrix"),
        "spectral_norm": column(FLOAT, "largest singular value", "norm", nullable=True, lower=0.0),
        "frobenius_norm": column(FLOAT, "Frobenius norm", "norm", nullable=True, lower=0.0),
        "stable_rank": column(
            FLOAT, "squared Frobenius norm over squared spectral norm", "ratio", nullable=True, lower=0.0
        ),
        "missing": MISSING,
    },
    run_id="runs",
)

ATTENTION = table(
    "attention",
    "sheaf Laplacian and attention pattern: one row per run, layer, head, prompt and variant",
    ["run_id", "layer", "head", "prompt_id", "variant"],
    {
        "run_id": RUN_ID,
        "layer": column(INTEGER, "block l", "1-based", lower=1),
        "head": column(TEXT, "query head, 1-based; empty: all heads"),
        "prompt_id": PROMPT_ID,
        "variant": column(
            TEXT,
            "definition: " + "; ".join(f"{k}: {v}" for k, v in ATTENTION_VARIANTS.items()),
            allowed=list(ATTENTION_VARIANTS),
        ),
        "trace": column(FLOAT, "trace of the sheaf Laplacian", "norm squared", nullable=True),
        "self_attention": column(FLOAT, "tr A / n", "ratio", nullable=True),
        "graph_lambda2": column(FLOAT, "second-smallest eigenvalue of the graph Laplacian", "weight", nullable=True),
        "laplacian_min": column(
            FLOAT, "smallest non-zero eigenvalue of the sheaf Laplacian", "norm squared", nullable=True
        ),
        "laplacian_max": column(FLOAT, "largest eigenvalue of the sheaf Laplacian", "norm squared", nullable=True),
        "entropy": column(FLOAT, "mean entropy of the attention rows", "nat", nullable=True),
        "distance": column(FLOAT, "mean distance attended over", "token", nullable=True),
        "operator_norm": column(
            FLOAT, "mean over edges of sqrt(A_ij) times the spectral norm of W_V", "norm", nullable=True
        ),
        "contraction_ratio": column(
            FLOAT, "mean operator norm of the restriction maps over the spectral norm of W_V", "ratio", nullable=True
        ),
        "missing": MISSING,
    },
    run_id="runs",
)

TRANSITIONS = table(
    "transitions",
    "transition layer L*: one row per run, prompt, definition and trace variant",
    ["run_id", "prompt_id", "definition", "trace_variant"],
    {
        "run_id": RUN_ID,
        "prompt_id": PROMPT_ID,
        "definition": column(
            TEXT,
            "how L* is found: " + "; ".join(f"{k}: {v}" for k, v in TRANSITION_DEFINITIONS.items()),
            allowed=list(TRANSITION_DEFINITIONS),
        ),
        "trace_variant": column(
            TEXT,
            "curve it was found on",
            allowed=[*ATTENTION_VARIANTS, "spectral_gap", "lambda2", "contraction_ratio", "gain_attention", "gain_mlp"],
        ),
        "layer": column(FLOAT, "L*; whole where one prompt or curve gave it", "1-based layer", nullable=True),
        "relative_depth": column(FLOAT, "L*/L", "ratio", nullable=True),
        "missing": MISSING,
    },
    run_id="runs",
)

FINDINGS = table(
    "findings",
    "what each analysis found: one row per finding and set of evidence",
    ["finding", "evidence"],
    {
        "finding": column(TEXT, "stable name, such as C04.order.penultimate_gain"),
        "evidence": column(TEXT, "set of evidence that it rests on; empty: mathematics, or not declared"),
        "claim": column(TEXT, "C01 … C20, N01 … N04"),
        "estimand": column(TEXT, "the quantity the verdict rests on"),
        "headline": column(FLAG, "its verdict is that of the claim"),
        "published": column(TEXT, "published figures, a JSON object of named numbers"),
        "reproduced": column(TEXT, "the same recomputed from the tables, a JSON object of named numbers"),
        "verdict": column(TEXT, "by the decision rule of the analysis", allowed=VERDICTS),
        "reason": column(TEXT, "why it is inconclusive; empty: it is not, or nothing is declared"),
        "estimate": column(FLOAT, "estimate of the estimand", "as named", nullable=True),
        "lower": column(FLOAT, "lower end of its interval", "as named", nullable=True),
        "upper": column(FLOAT, "upper end of its interval", "as named", nullable=True),
        "interval": column(TEXT, "kind and level of the interval"),
        "probability": column(
            FLOAT,
            "p-value or posterior probability, as `interval` and the page say",
            "probability",
            nullable=True,
            lower=0.0,
            upper=1.0,
        ),
        "posterior": column(
            FLOAT,
            "posterior probability of the statement that is asked; empty: no fit",
            "probability",
            nullable=True,
            lower=0.0,
            upper=1.0,
        ),
        "mc_error": column(FLOAT, "Monte-Carlo standard error of `posterior`", "probability", nullable=True, lower=0.0),
        "n_models": column(INTEGER, "models it rests on", "count", lower=0),
        "n_heritages": column(INTEGER, "heritages it rests on", "count", lower=0),
        "rhat_max": column(FLOAT, "largest R-hat; empty: not sampled", "ratio", nullable=True),
        "ess_min": column(FLOAT, "smallest effective sample size; empty: not sampled", "draws", nullable=True),
        "divergences": column(INTEGER, "divergent transitions; empty: not sampled", "count", nullable=True),
        "inputs_sha": column(TEXT, "SHA-256 over the rows the analysis read"),
    },
)

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

TABLES: dict[str, pa.DataFrameSchema] = {
    schema.name: schema
    for schema in (
        MODELS,
        PROMPTS,
        RUNS,
        LAYERS,
        SUMMARIES,
        OUTPUTS,
        WEIGHTS,
        ATTENTION,
        TRANSITIONS,
        FINDINGS,
        SOURCES,
        STATEMENTS,
        INCONSISTENCIES,
        RECONCILIATION,
    )
}


def dtypes(name: str) -> dict[str, str]:
    """Declared pandas dtype of every column of a table."""
    return {label: column.metadata["dtype"] for label, column in TABLES[name].columns.items()}


def key(name: str) -> list[str]:
    """Key columns of a table."""
    return list(TABLES[name].metadata["key"])


def references(name: str) -> dict[str, str]:
    """Columns of a table that must be found in another table's key."""
    return dict(TABLES[name].metadata["references"])
