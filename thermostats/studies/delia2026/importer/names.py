"""Names that the study's files use for models and labs, as they stand in the table `models`."""

from __future__ import annotations

from thermostats.errors import DataError
from thermostats.studies.delia2026.importer.ledger import Place

MODELS = {
    "pythia-70m": "EleutherAI/pythia-70m",
    "pythia-160m": "EleutherAI/pythia-160m",
    "pythia-410m": "EleutherAI/pythia-410m",
    "pythia-1b": "EleutherAI/pythia-1b",
    "pythia-1.4b": "EleutherAI/pythia-1.4b",
    "pythia-2.8b": "EleutherAI/pythia-2.8b",
    "pythia-6.9b": "EleutherAI/pythia-6.9b",
    "pythia-12b": "EleutherAI/pythia-12b",
    "gpt-neo-125m": "EleutherAI/gpt-neo-125m",
    "gpt-neo-1.3b": "EleutherAI/gpt-neo-1.3B",
    "gpt-neo-2.7b": "EleutherAI/gpt-neo-2.7B",
    "gpt-j-6b": "EleutherAI/gpt-j-6b",
    "gpt2": "openai-community/gpt2",
    "gpt2-medium": "openai-community/gpt2-medium",
    "gpt2-large": "openai-community/gpt2-large",
    "gpt2-xl": "openai-community/gpt2-xl",
    "opt-125m": "facebook/opt-125m",
    "opt-350m": "facebook/opt-350m",
    "opt-1.3b": "facebook/opt-1.3b",
    "opt-2.7b": "facebook/opt-2.7b",
    "opt-6.7b": "facebook/opt-6.7b",
    "bloom-560m": "bigscience/bloom-560m",
    "bloom-1b1": "bigscience/bloom-1b1",
    "bloom-1b7": "bigscience/bloom-1b7",
    "bloom-3b": "bigscience/bloom-3b",
    "falcon-7b": "tiiuae/falcon-7b",
    "stablelm-base-alpha-3b": "stabilityai/stablelm-base-alpha-3b",
    "mistral-7b": "mistralai/Mistral-7B-v0.1",
    "mistral-7b-v0.1": "mistralai/Mistral-7B-v0.1",
    "mistral-7b-base": "mistralai/Mistral-7B-v0.1",
    "mistral-7b-instruct": "mistralai/Mistral-7B-Instruct-v0.2",
    "llama3.1-8b": "meta-llama/Llama-3.1-8B",
    "llama-3.1-8b": "meta-llama/Llama-3.1-8B",
    "llama-3.1-8b-base": "meta-llama/Llama-3.1-8B",
    "llama-3.1-8b-instruct": "meta-llama/Llama-3.1-8B-Instruct",
    "gemma-7b": "google/gemma-7b",
    "gemma-7b-base": "google/gemma-7b",
    "gemma-7b-it": "google/gemma-7b-it",
    "gemma-2b": "google/gemma-2b",
    "gemma2-9b": "google/gemma-2-9b",
    "apertus-8b": "swiss-ai/Apertus-8B-2509",
}
LABS = {"Mistral": "Mistral AI"}


def model_id(name: str, where: Place) -> str:
    """Hub id of a model as a file names it, with or without its organisation; raises DataError where unknown."""
    known = MODELS.get(name.rsplit("/", 1)[-1].lower())
    if known is None or ("/" in name and name.lower() != known.lower()):
        raise DataError(
            "the importer does not know this model", where=where.where, got=repr(name), allowed=", ".join(MODELS)
        )
    return known


def model_named(place: Place) -> str:
    """Hub id of the model that a place is about, by the last name on the way to it; empty where there is none."""
    value, found = place.document.root, ""
    for part in place.pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        names = [value.get("model"), value.get("Model"), key] if isinstance(value, dict) else []
        for name in names:
            found = MODELS.get(str(name).rsplit("/", 1)[-1].lower(), found)
        value = value[key] if isinstance(value, dict) else value[int(key)]
    return found


def heritage(lab: str) -> str:
    """Lab as the table `models` names it."""
    return LABS.get(lab, lab)
