"""Every table and column: type, unit, meaning, key; the codebook is made from it. Loads no library.

Conventions: layers are 1-based (block 1 … block L; 0 is what enters block 1). Text columns are
never null, an empty text means "does not apply" or "not stated". Numeric columns are empty where a
value is missing, and `missing` says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from thermostats.tables.entries import drop_names

if TYPE_CHECKING:
    import pandas as pd


POSITIONS = {
    "last": "the last real token of the prompt",
    "first": "token 0, an attention sink in many models",
    "mean": "exp of the mean of log G over all real tokens but the first, of encoders but the "
    "special ones",
    "cls": "the first token of an encoder or vision model, which stands for the whole",
    "patches": "exp of the mean of log G over the patches of an image, class and register tokens "
    "left out",
    "all": "other people's files only: norms pooled over all tokens of the prompt, the first "
    "included",
    "mean_norm": "other people's files only: ratio of norms that were each averaged over tokens, "
    "the first left out",
    "unstated": "other people's files only: the file does not say at which token",
}
NORM_PLACES = {
    "pre": "what a sub-block reads is normed, what it writes is not",
    "post": "the stream itself is normed after each sum, which pins its norm",
    "output": "what a sub-block writes is normed, what it reads is not",
    "sandwich": "what a sub-block reads and what it writes are normed",
}
MODALITIES = {
    "decoder": "reads text and gives a next token's distribution",
    "encoder": "reads text and has no next token",
    "vision": "reads images",
}
DESCENTS = {
    "scratch": "trained from random weights",
    "continued": "trained further as its parent was, on more or other data",
    "tuned": "trained further for another task: instructions, preferences, pairs of sentences, a "
    "target",
    "distilled": "trained on what a teacher says, from its parent's weights or from random ones",
    "merged": "its weights are a mean of its parents', by their shares",
    "pruned": "its parent with parts left out",
}
"""How a model comes from its parent, the kind of the branch above it."""
POSITION_SCHEMES = ("learned", "rotary", "alibi", "sinusoidal", "relative", "none")
VERDICTS = ("supported", "not supported", "inconclusive", "needs measurement")
FATES = ("imported", "derivable", "left out")
MATRICES = ("W_V", "W_O", "OV", "embedding", "unembedding", "W_V_published_thirds")
ATTENTION_VARIANTS = {
    "exact": "trace of the sheaf Laplacian with the factor sum(A) - tr(A); the heads' traces add",
    "first_head": "published: attention averaged over heads times the squared Frobenius norm of "
    "the first head's W_V",
    "multi_head": "published: sum over heads, W_V cut as the study cut it",
    "printed_factor": "published: the factor sum(A) - n of the preprint's equation 4, zero but for "
    "rounding",
    "proxy": "squared spectral norm of W_V alone",
    "subsampled": "published: first version of the study's Laplacian, on a sample of tokens and "
    "dimensions",
    "unstated": "published: quantities that do not depend on a trace variant",
}
CURVES = (
    *ATTENTION_VARIANTS,
    "spectral_gap",
    "lambda2",
    "contraction_ratio",
    "gain_attention",
    "gain_mlp",
)
"""Curves over layers that a transition layer is found on."""
TRANSITION_DEFINITIONS = {
    "max_abs_gradient": "argmax over layers of |dTr/dl|, central differences",
    "first_sign_change": "first change of sign of the difference, from plus to minus",
    "peak": "layer of the largest value",
    "minimum": "layer of the smallest value",
    "max_spectral_gap": "layer of the largest spectral gap",
    "max_lambda2": "layer of the largest second-smallest eigenvalue",
    "inflection": "published: called an inflection in the file, not defined there",
    "a_priori": "published: (L/2)(1 + tanh(5(G - 1)))",
    "formula": "published: L(0.11 + 0.012 L + 4.9/H)",
    "read_off_figure": "read off a figure of the preprint, definition not stated there",
    "calibration": "published: the value the file calls its calibration, definition not stated "
    "there",
}
OURS = "thermostats"
"""Source of runs that this package measured."""
NURSERY = "nursery"
"""Source of runs of the controlled study: designed, so never pooled with other sources unless asked
for by name."""
EXTERNAL = "external"
"""`measure_version` of runs that other people measured and that ship, the folder they are in, and
their set."""
GAINS = {
    "last_gain": "G_L",
    "penultimate_gain": "G_(L-1)",
    "normed_gain": "norm of the normed x_L over n_(L-1); the final norm is in it",
    "geometric_gain": "exp of the mean of log G_l over l = 2..L",
    "max_gain": "largest G_l over l = 2..L",
    "geometric_gain_to_penultimate": "exp of the mean of log G_l over l = 2..L-1",
    "max_gain_to_penultimate": "largest G_l over l = 2..L-1",
    "total_amplification": "n_L / n_1",
    "total_amplification_from_input": "n_L / n_0",
}
"""Gains of a model by name: how each follows from the gains G_l and norms n_l of its blocks."""
READ_GAINS = {
    "last_read_gain": "R_L",
    "penultimate_read_gain": "R_(L-1)",
    "geometric_read_gain": "exp of the mean of log R_l over l = 2..L",
}
"""Summaries of the read gain R_l, which no change of weights moves that leaves the outputs;
post-norm: none."""
GAIN_WORDS = {
    "last_gain": "last gain",
    "penultimate_gain": "penultimate gain (block L − 1)",
    "normed_gain": "last gain with the final norm in it",
    "geometric_gain": "mean gain per block, blocks 2 to L",
    "max_gain": "largest gain, blocks 2 to L",
    "geometric_gain_to_penultimate": "mean gain per block, blocks 2 to L − 1",
    "max_gain_to_penultimate": "largest gain, blocks 2 to L − 1",
    "total_amplification": "total amplification",
    "total_amplification_from_input": "total amplification from the input",
}
"""Their names as a person reads them."""
RUN = ["run_id", "model_id", "revision", "source", "dtype", "attention", "prompt_set"]
MODEL = ["model_id", "revision", "source"]
"""What a row of `features` is of, with a run or, as MODEL, without."""


FLOAT = "float64"
INTEGER = "Int64"
TEXT = "str"
FLAG = "boolean"


FUNCTION = "function"
STORED = "weights as stored"
TRAINING = "training"
PROPERTIES = {
    FUNCTION: "every change of weights that leaves the outputs leaves it",
    STORED: "some such change moves it in some class",
    TRAINING: "how the weights came about",
}
"""What a column may be a property of; `data/gauge.csv` says which change moves it, and by how
much."""

ONE_OF, LOWER, ABOVE, UPPER = "one of", "at least", "above", "at most"
"""Kinds of checks, in words."""
BOUNDS = {"lower": LOWER, "above": ABOVE, "upper": UPPER}


@dataclass(frozen=True)
class Constraint:
    """What a value must be, if there is one: one of a tuple, or within a bound."""

    kind: str
    value: Any

    @property
    def error(self) -> str:
        """What is allowed, in words."""
        is_choice = self.kind == ONE_OF
        values = ", ".join(map(repr, self.value)) if is_choice else f"{self.value:g}"
        return f"{self.kind} {values}"


@dataclass(frozen=True)
class Column:
    dtype: str
    description: str
    unit: str
    checks: tuple[Constraint, ...]
    nullable: bool
    free: bool
    """Any text, not a name or a sentence."""
    name: str = ""
    of: str = ""
    """What it is a property of, one of `PROPERTIES`; empty: it names, counts or describes."""


@dataclass(frozen=True)
class Table:
    name: str
    description: str
    key: tuple[str, ...]
    columns: Mapping[str, Column]
    references: Mapping[str, str]
    """Columns that must be found in the key of another table."""


def declare_column(
    dtype: str,
    meaning: str,
    unit: str = "",
    *,
    nullable: bool = False,
    allowed: Sequence[str] | None = None,
    free: bool = False,
    of: str = "",
    **bounds: float,
) -> Column:
    """Declare one column; `allowed` and the bounds `lower`, `above` (exclusive), `upper` become
    checks.

    free: any text, not a name or a sentence. of: see `Column.of`.
    """
    checks = [Constraint(ONE_OF, tuple(allowed))] if allowed is not None else []
    for bound, kind in BOUNDS.items():
        if bound in bounds:
            checks.append(Constraint(kind, bounds[bound]))
    return Column(dtype, meaning, unit, tuple(checks), nullable, free, of=of)


def declare_text(
    meaning: str, allowed: Sequence[str] | None = None, *, free: bool = False, of: str = ""
) -> Column:
    """Declare a text, never null."""
    return declare_column(TEXT, meaning, allowed=allowed, free=free, of=of)


def declare_number(meaning: str, unit: str, **bounds: Any) -> Column:
    """Declare a number that may be missing."""
    return declare_column(FLOAT, meaning, unit, nullable=True, **bounds)


def count(meaning: str, unit: str = "count", *, lower: float = 1, nullable: bool = False) -> Column:
    """Declare a whole number with a lower bound."""
    return declare_column(INTEGER, meaning, unit, nullable=nullable, lower=lower)


def declare_gain(meaning: str, *, of: str = STORED) -> Column:
    """Declare a ratio of norms: positive, or empty where it is missing."""
    return declare_number(meaning, "ratio", above=0.0, of=of)


def declare_choice(
    meaning: str, values: Mapping[str, str], *, empty: bool = False, of: str = ""
) -> Column:
    """Declare a text of some values, each with its meaning; `empty`: or none."""
    meanings = "; ".join(f"{value}: {what}" for value, what in values.items())
    allowed = [*values, ""] if empty else [*values]
    return declare_text(f"{meaning}{meanings}", allowed, of=of)


def declare_table(
    name: str, meaning: str, key: Sequence[str], columns: Mapping[str, Column], **references: str
) -> Table:
    """Declare one table; `references` maps a column to the table whose key it must be found
    in."""
    named = {}
    for label, each in columns.items():
        named[label] = replace(each, name=label)
    return Table(name, meaning, tuple(key), named, references)


RUN_ID = declare_text("hash of what was measured, see the table runs")
PROMPT_ID = declare_text("prompt within the run's prompt set; empty: averaged over the set")
SHARE = {"lower": 0.0, "upper": 1.0}
COSINE = {"lower": -1.0001, "upper": 1.0001}
MISSING = declare_text("why numeric values of this row are missing; empty where none is")


def declare_run_table(
    name: str, meaning: str, key: Sequence[str], columns: Mapping[str, Column]
) -> Table:
    """Declare a table of rows of runs; `run_id` comes before its columns, `missing` after them."""
    complete = {"run_id": RUN_ID, **columns, "missing": MISSING}
    return declare_table(name, meaning, ["run_id", *key], complete, run_id="runs")


MODELS = declare_table(
    "models",
    "one row per model and revision: who made it and what it looks like",
    ["model_id", "revision"],
    {
        "model_id": declare_text("hub id, or the folder's name for a local model"),
        "revision": declare_text("branch, tag or commit; main where a source states none"),
        "heritage": declare_text("lab that trained the model; empty: not stated", of=TRAINING),
        "family": declare_text(
            "models of one lab that share a recipe, such as pythia", of=TRAINING
        ),
        "variant": declare_text(
            "base or instruct; empty: not stated", ["base", "instruct", ""], of=TRAINING
        ),
        "parent": declare_text(
            "model_id of the model it was tuned from; empty: trained from scratch or not stated",
            of=TRAINING,
        ),
        "seed_of": declare_text(
            "model_id of the model that it repeats with another seed; empty: none, or not stated",
            of=TRAINING,
        ),
        "architecture": declare_text("model type of its configuration, such as gpt_neox"),
        "n_layers": count("blocks, L"),
        "d_model": count("width of the residual stream, d"),
        "d_embed": count("width of the token embedding, mostly d_model", nullable=True),
        "n_heads": count("query heads, H; 0: no attention", lower=0),
        "n_kv_heads": count("key/value heads, K; 0: no attention", lower=0, nullable=True),
        "d_head": count("width of a head, d_h; 0: no attention", lower=0, nullable=True),
        "d_ff": count("width of the feed-forward layer; 0: none", lower=0, nullable=True),
        "vocab_size": count(
            "rows of the embedding, padding included; 0: it reads images", lower=0, nullable=True
        ),
        "n_positions": count("rows of a learned position table; 0: none", lower=0, nullable=True),
        "tied_embeddings": declare_column(FLAG, "unembedding is the embedding", nullable=True),
        "gated_mlp": declare_column(
            FLAG, "three feed-forward matrices (gate, up, down) rather than two", nullable=True
        ),
        "n_params": count("all weights, tied ones once, by the formula of its architecture"),
        "n_params_nonembedding": count(
            "weights without token embedding, position table and unembedding", nullable=True
        ),
        "norm_kind": declare_text("normalisation; empty: not stated", ["LayerNorm", "RMSNorm", ""]),
        "norm_place": declare_choice(
            "where the block normalises, empty where not stated; ", NORM_PLACES, empty=True
        ),
        "position_scheme": declare_text(
            "how positions enter; empty: not stated", [*POSITION_SCHEMES, ""]
        ),
        "parallel_block": declare_column(
            FLAG, "attention and feed-forward layer read the same stream", nullable=True
        ),
        "year": declare_column(
            INTEGER,
            "year of release; empty: not stated",
            "year",
            nullable=True,
            lower=2017,
            upper=2100,
            of=TRAINING,
        ),
        "source": declare_text("where the facts of this row come from"),
        "modality": declare_choice("what the stack is: ", MODALITIES),
        "stages": count(
            "widths of the stream one behind the other; above 1 ratios across stages are no gains"
        ),
        "quantised": declare_text(
            "scheme that its weights were rounded by before they were measured, such as Q4_K_M or "
            "int8; empty: none"
        ),
        "package": declare_text(
            "package that its weights come from, name and version; empty: none, or not stated"
        ),
        "model_licence": declare_text(
            "licence of its weights, by its SPDX name where it has one; empty: not stated"
        ),
    },
)

LINEAGE = declare_table(
    "lineage",
    "descent of models: one row per model and parent; models that nobody measured stand here as "
    "parents too",
    ["model_id", "parent"],
    {
        "model_id": declare_text("model"),
        "parent": declare_text(
            "model_id of the model whose weights it began with; empty: none, or not stated",
            of=TRAINING,
        ),
        "kind": declare_choice(
            "how it comes from its parent, empty where not stated; ",
            DESCENTS,
            empty=True,
            of=TRAINING,
        ),
        "share": declare_number(
            "share of this parent's weights in those it began with",
            "share",
            above=0.0,
            upper=1.0,
            of=TRAINING,
        ),
        "tokens": declare_number(
            "tokens that it was trained on since its parent", "10^9 tokens", above=0.0, of=TRAINING
        ),
        "distance": declare_number(
            "distance of its weights from its parent's, relative Frobenius norm",
            "ratio",
            above=0.0,
            of=TRAINING,
        ),
        "teacher": declare_text(
            "model that it was distilled from, or unnamed; empty: none", of=TRAINING
        ),
        "tokenizer": declare_text(
            "tokenizer, by the name of the models that it was made for; empty: not stated"
        ),
        "corpus": declare_text(
            "corpus that it was trained on since its parent; empty: not stated", of=TRAINING
        ),
        "heritage": declare_text(
            "lab that trained it, of models that the table models lacks; empty: as there",
            of=TRAINING,
        ),
        "family": declare_text("family of it, likewise", of=TRAINING),
        "source": declare_text("where the facts of this row come from", free=True),
    },
)

_SHAPE_OF_CANDIDATES = (
    *(
        "architecture",
        "n_layers",
        "d_model",
        "n_heads",
        "n_kv_heads",
        "d_head",
        "d_ff",
        "vocab_size",
    ),
    *("tied_embeddings", "gated_mlp", "n_params", "n_params_nonembedding", "norm_kind", "stages"),
)
CANDIDATES = declare_table(
    "candidates",
    "public models that could be measured: shape, whose they are, what they come from and how "
    "large they are; none is "
    "downloaded for it",
    ["model_id"],
    {
        "model_id": MODELS.columns["model_id"],
        **{
            label: MODELS.columns[label]
            for label in ("heritage", "family", "variant", "parent", "seed_of")
        },
        "kind": LINEAGE.columns["kind"],
        "year": MODELS.columns["year"],
        "modality": MODELS.columns["modality"],
        **{label: MODELS.columns[label] for label in _SHAPE_OF_CANDIDATES},
        "comparable": declare_column(
            FLAG,
            "false where the norm comes after the residual sum: gains are near 1 by construction",
        ),
        "download_gb": declare_number(
            "its download in bfloat16, two bytes a weight; of a model of several stacks all of "
            "them; empty: not known",
            "10^9 bytes",
            above=0.0,
        ),
        "gated": declare_column(
            FLAG, "its files are given to those alone who ask; empty: not stated", nullable=True
        ),
        "model_licence": MODELS.columns["model_licence"],
        "source": declare_text("where its shape comes from", free=True),
    },
)

PROMPTS = declare_table(
    "prompts",
    "one row per prompt of a prompt set",
    ["prompt_set", "prompt_id"],
    {
        "prompt_set": declare_text("name of the set"),
        "prompt_id": declare_text("name within the set"),
        "text": declare_text(
            "the prompt; empty where it is not ours to ship, then only its hash is kept", free=True
        ),
        "text_sha256": declare_text("SHA-256 of the text in UTF-8"),
        "category": declare_text("kind of prompt"),
        "complexity": declare_column(
            INTEGER,
            "rank of the category's complexity as its author gave it",
            "rank",
            nullable=True,
        ),
        "modality": declare_text("what the prompt is", ["text", "image"]),
    },
)

RUNS = declare_table(
    "runs",
    "one row per measurement of one model on one prompt set",
    ["run_id"],
    {
        "run_id": declare_text(
            "hash of model_id, revision, dtype, attention, prompt_set, prompt_sha, "
            "measure_version, source, and of "
            "model_sha where it is stated"
        ),
        "model_id": declare_text("model measured"),
        "revision": declare_text("its revision"),
        "dtype": declare_text(
            "precision of the weights",
            ["float32", "bfloat16", "float16", "float64", "mixed", "unstated"],
        ),
        "attention": declare_text("attention implementation: eager, sdpa, … or unstated"),
        "prompt_set": declare_text("prompt set; empty: weights only"),
        "prompt_sha": declare_text(
            "SHA-256 over the hashes of the set's texts in order of prompt_id; empty: none"
        ),
        "measure_version": declare_text(
            "version of the measurement code; published, external: as published, by others"
        ),
        "source": declare_text("who measured: thermostats, or the file the rows come from"),
        "special_tokens": declare_text(
            "recorded: tokens that the tokenizer puts before every prompt"
        ),
        "versions": declare_text("recorded: library versions, name=version separated by spaces"),
        "device": declare_text("recorded: device"),
        "seconds": declare_number("recorded: wall-clock time", "s", lower=0.0),
        "measured_at": declare_text("recorded: time, ISO 8601"),
        "proof": declare_text(
            "recorded: relative errors of what the measurement proved of itself, name=error; "
            "unproven=name-version: a "
            "library of whose version the table proofs has no proof of the model's class"
        ),
        "instrument": declare_text(
            "recorded: with what others measured; empty: as the source says, or by this package"
        ),
        "licence": declare_text(
            "recorded: SPDX licence under which others' rows ship; empty: that of the source or "
            "package"
        ),
        "model_sha": declare_text(
            "hash of the model measured, of its weights and configuration; empty: not stated"
        ),
        "confirmed_sha": declare_text(
            "recorded: model_sha that a run without one was confirmed to be of; empty: not asked"
        ),
        "differences": declare_text(
            "recorded: where files, configuration and loaded model differ; empty: nowhere",
            free=True,
        ),
    },
    model_id="models",
)

LAYERS = declare_run_table(
    "layers",
    "residual gains: one row per run, layer, prompt and token position",
    ["layer", "prompt_id", "position"],
    {
        "layer": count("block l", "1-based"),
        "prompt_id": PROMPT_ID,
        "position": declare_choice("token position: ", POSITIONS),
        "norm_in": declare_number(
            "n_(l-1), Euclidean norm of the stream entering the block", "norm", above=0.0, of=STORED
        ),
        "gain_block": declare_gain("G_l = n_l / n_(l-1)"),
        "gain_attention": declare_gain(
            "norm of the attention's output over that of its (normed) input, or of what stands in "
            "its place"
        ),
        "gain_mlp": declare_gain(
            "norm of the feed-forward layer's output over that of its (normed) input"
        ),
        "write_attention": declare_gain("norm of what attention writes over n_(l-1)"),
        "write_mlp": declare_gain("norm of what the feed-forward layer writes over n_(l-1)"),
        "gain_sum_attention": declare_gain(
            "post-norm blocks: norm of x + attention(x), not yet normed, over n_(l-1)"
        ),
        "gain_sum_mlp": declare_gain(
            "post-norm blocks: the same of the feed-forward layer, over its input"
        ),
        "cosine": declare_number("cos(x_(l-1), x_l)", "cosine", **COSINE, of=STORED),
        "anisotropy": declare_number(
            "mean pairwise cosine of the token vectors of x_l, first token left out",
            "cosine",
            **COSINE,
            of=STORED,
        ),
        "read_norm": declare_number(
            "norm of P x_(l-1), P = I - 11'/d where the norms that read the stream subtract the "
            "mean, else I; empty of "
            "post-norm blocks, as all that is made of it",
            "norm",
            above=0.0,
            of=STORED,
        ),
        "gain_read": declare_gain("R_l, norm of P x_l over that of P x_(l-1)", of=FUNCTION),
        "centred_write_attention": declare_gain(
            "norm of P times what attention writes over that of P x_(l-1)", of=FUNCTION
        ),
        "centred_write_mlp": declare_gain("the same of the feed-forward layer", of=FUNCTION),
        "n_tokens": count("real tokens of the prompt", nullable=True),
    },
)

SUMMARIES = declare_run_table(
    "summaries",
    "named values per run or prompt, where only a summary was published or the quantity has no "
    "layer",
    ["prompt_id", "estimand"],
    {
        "prompt_id": PROMPT_ID,
        "estimand": declare_text(
            "name of the quantity; _mean and _sd: mean and standard deviation over prompts or "
            "layers"
        ),
        "value": declare_number("its value", "as named", of=STORED),
    },
)

OUTPUTS = declare_run_table(
    "outputs",
    "next-token distribution after the last token: one row per run and prompt",
    ["prompt_id"],
    {
        "prompt_id": PROMPT_ID,
        "entropy": declare_number("entropy of the distribution", "nat", lower=-1e-6, of=FUNCTION),
        "top_token": declare_text(
            "most probable token, control characters and backslashes escaped as in JSON",
            free=True,
            of=FUNCTION,
        ),
        "top_probability": declare_number("its probability", "probability", **SHARE, of=FUNCTION),
        "logit_mean": declare_number("mean of the logits", "logit", of=STORED),
        "logit_sd": declare_number(
            "standard deviation of the logits", "logit", lower=0.0, of=FUNCTION
        ),
        "logit_range": declare_number(
            "largest minus smallest logit", "logit", lower=0.0, of=FUNCTION
        ),
    },
)

WEIGHTS = declare_run_table(
    "weights",
    "spectra of weight matrices: one row per run, layer, matrix and head",
    ["layer", "matrix", "head"],
    {
        "layer": count("block l; 0 for embedding and unembedding", "1-based", lower=0),
        "matrix": declare_text("which matrix, as it acts on column vectors", MATRICES),
        "head": declare_text("query head, 1-based; empty: the whole matrix"),
        "spectral_norm": declare_number("largest singular value", "norm", lower=0.0, of=STORED),
        "frobenius_norm": declare_number("Frobenius norm", "norm", lower=0.0, of=STORED),
        "stable_rank": declare_number(
            "squared Frobenius norm over squared spectral norm", "ratio", lower=0.0, of=STORED
        ),
        "ov_read_norm": declare_number(
            "OV of a head: spectral norm of m P W_O W_V diag(g) P, g the weight of the norm that "
            "is read and m what "
            "multiplies the write; over read_norm of the table layers it is ov_read",
            "norm",
            lower=0.0,
            of=STORED,
        ),
        "balanced_norm": declare_number(
            "whole W_V and W_O: spectral norm after OV, folded and centred, was shared out evenly "
            "between both in each "
            "group of heads; their ratio is the balanced ratio",
            "norm",
            lower=0.0,
            of=STORED,
        ),
        "stored_as": declare_text(
            "type of its tensor in the GGUF file that it was read from, such as Q4_K; of OV both; "
            "empty: none"
        ),
    },
)

ATTENTION = declare_run_table(
    "attention",
    "sheaf Laplacian and attention pattern: one row per run, layer, head, prompt and variant",
    ["layer", "head", "prompt_id", "variant"],
    {
        "layer": count("block l", "1-based"),
        "head": declare_text("query head, 1-based; empty: all heads"),
        "prompt_id": PROMPT_ID,
        "variant": declare_choice("definition: ", ATTENTION_VARIANTS),
        "trace": declare_number("trace of the sheaf Laplacian", "norm squared", of=STORED),
        "self_attention": declare_number("tr A / n", "ratio", of=FUNCTION),
        "graph_lambda2": declare_number(
            "second-smallest eigenvalue of the graph Laplacian", "weight", of=FUNCTION
        ),
        "laplacian_min": declare_number(
            "smallest non-zero eigenvalue of the sheaf Laplacian", "norm squared", of=STORED
        ),
        "laplacian_max": declare_number(
            "largest eigenvalue of the sheaf Laplacian", "norm squared", of=STORED
        ),
        "entropy": declare_number("mean entropy of the attention rows", "nat", of=FUNCTION),
        "distance": declare_number("mean distance attended over", "token", of=FUNCTION),
        "operator_norm": declare_number(
            "mean over edges of sqrt(A_ij) times the spectral norm of W_V", "norm", of=STORED
        ),
        "contraction_ratio": declare_number(
            "mean operator norm of the restriction maps over the spectral norm of W_V",
            "ratio",
            of=FUNCTION,
        ),
    },
)

TRANSITIONS = declare_run_table(
    "transitions",
    "transition layer L*: one row per run, prompt, definition and trace variant",
    ["prompt_id", "definition", "trace_variant"],
    {
        "prompt_id": PROMPT_ID,
        "definition": declare_choice("how L* is found: ", TRANSITION_DEFINITIONS),
        "trace_variant": declare_text("curve it was found on", CURVES),
        "layer": declare_number(
            "L*; whole where one prompt or curve gave it", "1-based layer", of=STORED
        ),
        "relative_depth": declare_number("L*/L", "ratio", of=STORED),
    },
)

OPERATIONS = {
    "steer": "trained so that one gain comes to a target and the model's distribution stays",
    "floor": "the same steps without a target",
    "do": "changed without training, as `what` says",
    "tune": "trained on another corpus or in another way, with no gain in mind: ordinary tuning",
}
INTERVENED = "intervened"
"""Set of interventions on trained models; `measure_version` of their runs begins with the word."""
EVERY = {"text": "the mean log gain of a text", "token": "the log gain of a token"}
NATS = "nat per token"
BY_NAME = "a JSON object of named numbers"
ON_HELD_OUT = "on held-out texts, the first token of each left out"

INTERVENTIONS = declare_run_table(
    "interventions",
    "what was done to a trained model and what it cost: one row per run and intervention. A price "
    "is an upper bound: "
    "more steps and more texts can only lower it",
    ["intervention"],
    {
        "intervention": declare_text(
            "what was done, with every setting that its numbers depend on", free=True
        ),
        "operation": declare_choice("kind: ", OPERATIONS),
        "what": declare_text(
            "do: the change; tune: on what; steer and floor: the weights trained, empty for all",
            free=True,
        ),
        "gain": declare_text(
            "name of the gain that was steered, or that the row states; block l: G_l; empty: none"
        ),
        "target": declare_number(
            "what the gain was to become; empty: no target", "ratio", above=0.0
        ),
        "gain_start": declare_number(
            "the gain on the texts trained on before; the mirror of a target t is its square over "
            "t",
            "ratio",
            above=0.0,
        ),
        "seed": count("seed of texts, their split and the order of batches", lower=0),
        "steps": count("steps of the optimiser in all", lower=0),
        "penalty": declare_number("w in KL + w (log g - log t)^2", "nat", above=0.0),
        "every": declare_choice("what comes to the target, empty without one; ", EVERY, empty=True),
        "rate": declare_number(
            "learning rate at the first step; it falls to nothing by a line", "1", above=0.0
        ),
        "rank": count("rank of adapters (LoRA); empty: whole matrices", nullable=True),
        "n_train": count("texts trained on", lower=0),
        "n_held_out": count("texts that the price is measured on", lower=0),
        "n_tokens": count("most tokens of a text"),
        "size": declare_number(
            "norm of the change of all weights over that of the weights", "ratio", lower=0.0
        ),
        "kl": declare_number(
            f"KL from the model as it was, {ON_HELD_OUT}", NATS, lower=-1e-6, of=FUNCTION
        ),
        "kl_lower": declare_number(
            "lower end of its 95% bootstrap interval over texts", NATS, lower=-1e-6
        ),
        "kl_upper": declare_number("upper end", NATS, lower=-1e-6),
        "ce_before": declare_number(
            f"cross-entropy {ON_HELD_OUT}, before", NATS, lower=0.0, of=FUNCTION
        ),
        "ce_after": declare_number("the same afterwards", NATS, lower=0.0, of=FUNCTION),
        "ce_rise_lower": declare_number(
            "lower end of the 95% bootstrap interval of its rise", NATS
        ),
        "ce_rise_upper": declare_number("upper end", NATS),
        "gain_before": declare_gain(
            "the gain, exp of the mean over held-out texts and tokens but the first of its log"
        ),
        "gain_after": declare_gain("the same afterwards"),
        "last_before": declare_gain(
            "the gain at the last token, exp of the mean over held-out texts of its log"
        ),
        "last_after": declare_gain("the same afterwards"),
        "beyond": declare_number(
            "share of held-out texts whose mean gain is on the other side of 1 than the gain was "
            "before",
            "share",
            **SHARE,
        ),
        "real_texts": declare_text(
            "texts that the model did not write, on which the next columns are; empty: none"
        ),
        "real_ce_before": declare_number(
            "cross-entropy on real texts, before", NATS, lower=0.0, of=FUNCTION
        ),
        "real_ce_after": declare_number("the same afterwards", NATS, lower=0.0, of=FUNCTION),
        "prompts_beyond": declare_number(
            "share of the model's prompts whose mean gain is on the other side of 1 than the gain "
            "was before",
            "share",
            **SHARE,
        ),
        "prompts_last_beyond": declare_number(
            "the same of the gain at their last token", "share", **SHARE
        ),
        "gains_before": declare_text(
            f"all gains of blocks and of the model before, {BY_NAME}", free=True, of=STORED
        ),
        "gains_after": declare_text(f"the same afterwards, {BY_NAME}", free=True, of=STORED),
        "kl_texts": declare_text(
            "KL of each held-out text in their order, a JSON list", free=True, of=FUNCTION
        ),
    },
)

FINDINGS = declare_table(
    "findings",
    "what each analysis found: one row per finding and set of evidence",
    ["finding", "evidence"],
    {
        "finding": declare_text("stable name, such as C04.architecture.penultimate_gain"),
        "evidence": declare_text(
            "set of evidence that it rests on; empty: mathematics, or not declared"
        ),
        "claim": declare_text("id of the claim, such as C04"),
        "estimand": declare_text("the quantity the verdict rests on"),
        "headline": declare_column(FLAG, "its verdict is that of the claim"),
        "view_of": declare_text(
            "set of evidence that its question was asked of first; empty: this one"
        ),
        "published": declare_text("published figures, a JSON object of named numbers"),
        "reproduced": declare_text(
            "the same recomputed from the tables, a JSON object of named numbers"
        ),
        "verdict": declare_text("by the decision rule of the analysis", VERDICTS),
        "reason": declare_text("why it is inconclusive; empty: it is not, or nothing is declared"),
        "leans": declare_text("the verdict to which an open one leans; empty: to neither"),
        "unless": declare_text(
            "the hostile world in which a decided verdict would not stand; empty: it stands there"
        ),
        "provisional": declare_text(
            "why the limits of its verdict are provisional; empty: they are those of this design"
        ),
        "level": declare_number(
            "attained level of the side that is given, or leant to", "probability", **SHARE
        ),
        "limit": declare_number(
            "α*: the level below which that side is given; empty: not tried", "probability", **SHARE
        ),
        "p_worst": declare_text(
            "p of that side in the worst plausible world, in classes; empty: not tried"
        ),
        "estimate": declare_number("estimate of the estimand", "as named"),
        "lower": declare_number("lower end of its interval", "as named"),
        "upper": declare_number("upper end of its interval", "as named"),
        "interval": declare_text("kind and level of the interval"),
        "probability": declare_number(
            "p-value or posterior probability, as `interval` and the page say",
            "probability",
            **SHARE,
        ),
        "posterior": declare_number(
            "posterior probability of the statement that is asked; empty: no fit",
            "probability",
            **SHARE,
        ),
        "mc_error": declare_number(
            "Monte-Carlo standard error of `posterior`", "probability", lower=0.0
        ),
        "n_models": count("models it rests on", lower=0),
        "n_heritages": count("heritages it rests on", lower=0),
        "rhat_max": declare_number("largest R-hat; empty: not sampled", "ratio"),
        "ess_min": declare_number("smallest effective sample size; empty: not sampled", "draws"),
        "divergences": declare_column(
            INTEGER, "divergent transitions; empty: not sampled", "count", nullable=True
        ),
        "drawn": declare_text(
            "versions and day by which PyMC drew its posterior; empty: nothing was sampled"
        ),
        "inputs_sha": declare_text(
            "SHA-256 over the analysis, its words, the error rates of its rules and the rows it "
            "read"
        ),
    },
)

PROOFS = declare_table(
    "proofs",
    "what was proved of a tiny model of every class, by version of transformers: `make proofs` "
    "writes it",
    ["architecture", "transformers"],
    {
        "architecture": declare_text(
            "entry that describes the class, as `thermostats ls architectures` names it"
        ),
        "transformers": declare_text("version of transformers"),
        "torch": declare_text("version of torch"),
        "dtype": declare_text("precision of the weights"),
        "held": count("identities that hold", lower=0),
        "failed": declare_text("identities that do not, separated by blanks; empty: all hold"),
        "difference": declare_number(
            "largest relative difference of one that holds", "ratio", lower=0.0
        ),
        "identity": declare_text("whose that is"),
        "place": declare_text(
            "input, block and token where it is largest; empty: of the whole model"
        ),
        "not_covered": declare_text("what was not tried, separated by semicolons", free=True),
        "inputs": declare_text("inputs that it was proved on"),
        "proved_on": declare_text("day, ISO 8601"),
    },
)

SOURCES = declare_table(
    "sources",
    "the study's files: one row per file",
    ["file"],
    {
        "file": declare_text("file name"),
        "sha256": declare_text("SHA-256 of its bytes"),
        "bytes": count("its size", "byte", lower=0),
        "measured_at": declare_text("date the file gives for itself; empty: none"),
        "repeats": declare_text("file whose figures it repeats; empty: none"),
        "doi": declare_text("archive record"),
        "licence": declare_text("licence"),
    },
)

STATEMENTS = declare_table(
    "statements",
    "figures the study states that are no measurement: correlations, p-values, means, formulas, "
    "values read off "
    "figures; those of files that follow from imported rows have the fate derivable in "
    "reconciliation",
    ["source", "pointer"],
    {
        "source": declare_text("file name, or preprint"),
        "pointer": declare_text("place in the file (JSON pointer), or section or figure"),
        "statistic": declare_text("what kind of figure"),
        "model_id": declare_text("model it is about; empty: several"),
        "value": declare_number("its value", "as named"),
        "missing": MISSING,
    },
)

INCONSISTENCIES = declare_table(
    "inconsistencies",
    "where the study's files disagree with each other, with themselves, or with what they say they "
    "hold",
    ["inconsistency_id"],
    {
        "inconsistency_id": declare_text("name"),
        "kind": declare_text(
            "measured twice, mislabelled, unpaired, missing, wrong fact, wrong formula"
        ),
        "file": declare_text("file name"),
        "other_file": declare_text("file it disagrees with; empty: itself"),
        "model_id": declare_text("model concerned; empty: several"),
        "value": declare_number("figure in the file", "as named"),
        "other_value": declare_number("figure it disagrees with", "as named"),
        "what": declare_text("what disagrees"),
        "handling": declare_text("what was done about it"),
    },
)

RECONCILIATION = declare_table(
    "reconciliation",
    "what became of every number in the study's files: one row per file and place",
    ["file", "pointer", "fate"],
    {
        "file": declare_text("file name"),
        "pointer": declare_text("place in the file, * for any index"),
        "fate": declare_text(
            "imported: a row of a table; derivable: recomputed from imported rows and compared, "
            "and a row of "
            "statements where it is a figure of its own and no copy, count, shape or entry of a "
            "list; left out",
            FATES,
        ),
        "numbers": count("numbers at this place", lower=0),
        "missing": count("of these not a number (NaN) in the file", lower=0),
        "largest_difference": declare_number(
            "derivable: largest relative difference of the recomputed value", "ratio"
        ),
        "where": declare_text("imported: table and column; derivable: from what; left out: reason"),
    },
)

MEASURES = (LAYERS, SUMMARIES, OUTPUTS, WEIGHTS, ATTENTION, TRANSITIONS)
"""Tables of what was measured of a model as it is."""
OF_RUNS = (*MEASURES, INTERVENTIONS)
RUN_TABLES = tuple(each.name for each in OF_RUNS)
"""Names of the tables of rows of runs."""
OF_STUDY = (SOURCES, STATEMENTS, INCONSISTENCIES, RECONCILIATION)
TABLES: dict[str, Table] = {
    schema.name: schema
    for schema in (
        MODELS,
        LINEAGE,
        CANDIDATES,
        PROMPTS,
        RUNS,
        *OF_RUNS,
        FINDINGS,
        PROOFS,
        *OF_STUDY,
    )
}


ADDED: dict[str, dict[str, Any]] = {
    "models": {
        "seed_of": "",
        "modality": "decoder",
        "stages": 1,
        "quantised": "",
        "package": "",
        "model_licence": "",
    },
    "prompts": {"modality": "text"},
    "weights": {"ov_read_norm": None, "balanced_norm": None, "stored_as": ""},
    "runs": dict.fromkeys(
        ("proof", "instrument", "licence", "model_sha", "confirmed_sha", "differences"), ""
    ),
    "layers": dict.fromkeys(
        (
            "gain_sum_attention",
            "gain_sum_mlp",
            "read_norm",
            "gain_read",
            "centred_write_attention",
            "centred_write_mlp",
        )
    ),
    "findings": {
        **dict.fromkeys(("view_of", "leans", "unless", "provisional", "p_worst"), ""),
        **dict.fromkeys(("level", "limit")),
    },
}
"""Columns that were added to a table later, each with what it is in files without it."""


def list_optional(name: str) -> dict[str, Any]:
    """Columns that files of a table need not have, each with what it is there."""
    return ADDED.get(name, {})


def add_later_columns(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The frame with the columns that were added to its table later."""
    return frame.assign(**drop_names(list_optional(name), frame))


def list_written(frame: pd.DataFrame, name: str) -> list[str]:
    """Columns that are written of a table: one that was added later only where it says
    something."""
    empty = set()
    for label, value in list_optional(name).items():
        cells = frame[label]
        unsaid = cells.isna() if value is None else cells == value
        if unsaid.all():
            empty.add(label)
    return [label for label in frame if label not in empty]


def list_dtypes(name: str) -> dict[str, str]:
    """Declared pandas dtype of every column of a table."""
    dtypes: dict[str, str] = {}
    for label, column in TABLES[name].columns.items():
        dtypes[label] = column.dtype
    return dtypes


def list_key_columns(name: str) -> list[str]:
    """Key columns of a table."""
    return list(TABLES[name].key)


def list_references(name: str) -> dict[str, str]:
    """Columns of a table that must be found in another table's key."""
    return dict(TABLES[name].references)
