"""Values that text columns may take, with what each means."""

from __future__ import annotations

POSITIONS = {
    "last": "the last real token of the prompt",
    "first": "token 0, an attention sink in many models",
    "mean": "exp of the mean of log G over all real tokens but the first, of encoders but the special ones",
    "cls": "the first token of an encoder or vision model, which stands for the whole",
    "patches": "exp of the mean of log G over the patches of an image, class and register tokens left out",
    "all": "other people's files only: norms pooled over all tokens of the prompt, the first included",
    "mean_norm": "other people's files only: ratio of norms that were each averaged over tokens, the first left out",
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
    "tuned": "trained further for another task: instructions, preferences, pairs of sentences, a target",
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
    "first_head": "published: attention averaged over heads times the squared Frobenius norm of the first head's W_V",
    "multi_head": "published: sum over heads, W_V cut as the study cut it",
    "printed_factor": "published: the factor sum(A) - n of the preprint's equation 4, zero but for rounding",
    "proxy": "squared spectral norm of W_V alone",
    "subsampled": "published: first version of the study's Laplacian, on a sample of tokens and dimensions",
    "unstated": "published: quantities that do not depend on a trace variant",
}
CURVES = (*ATTENTION_VARIANTS, "spectral_gap", "lambda2", "contraction_ratio", "gain_attention", "gain_mlp")
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
    "calibration": "published: the value the file calls its calibration, definition not stated there",
}
OURS = "thermostats"
"""Source of runs that this package measured."""
NURSERY = "nursery"
"""Source of runs of the controlled study: designed, so never pooled with other sources unless asked for by name."""
EXTERNAL = "external"
"""`measure_version` of runs that other people measured and that ship, the folder they are in, and their set."""
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
"""Summaries of the read gain R_l, which no change of weights moves that leaves the outputs; post-norm: none."""
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
