"""Names that the study's files use for models and labs, as they stand in the table `models`."""

from __future__ import annotations

from ledger import Place

from thermostats.errors import DataError

BY_ORGANISATION = {
    "EleutherAI": "pythia-70m pythia-160m pythia-410m pythia-1b pythia-1.4b pythia-2.8b "
    "pythia-6.9b pythia-12b "
    "gpt-neo-125m gpt-neo-1.3B gpt-neo-2.7B gpt-j-6b",
    "openai-community": "gpt2 gpt2-medium gpt2-large gpt2-xl",
    "facebook": "opt-125m opt-350m opt-1.3b opt-2.7b opt-6.7b",
    "bigscience": "bloom-560m bloom-1b1 bloom-1b7 bloom-3b",
    "tiiuae": "falcon-7b",
    "stabilityai": "stablelm-base-alpha-3b",
    "mistralai": "Mistral-7B-v0.1",
    "meta-llama": "Llama-3.1-8B Llama-3.1-8B-Instruct",
    "google": "gemma-7b gemma-7b-it gemma-2b",
}
MODELS = {
    **{
        name.lower(): f"{place}/{name}"
        for place, names in BY_ORGANISATION.items()
        for name in names.split()
    },
    "mistral-7b": "mistralai/Mistral-7B-v0.1",
    "mistral-7b-base": "mistralai/Mistral-7B-v0.1",
    "mistral-7b-instruct": "mistralai/Mistral-7B-Instruct-v0.2",
    "llama3.1-8b": "meta-llama/Llama-3.1-8B",
    "llama-3.1-8b-base": "meta-llama/Llama-3.1-8B",
    "gemma-7b-base": "google/gemma-7b",
    "gemma2-9b": "google/gemma-2-9b",
    "apertus-8b": "swiss-ai/Apertus-8B-2509",
}
"""Hub id by the name in a file, without its organisation, in lower case."""
LABS = {"Mistral": "Mistral AI"}
"""Labs whose name in the files is not that of the table `models`."""


def known_model(name: str) -> str:
    """Hub id of a model by its name in a file; empty where the name is no model's."""
    return MODELS.get(name.rsplit("/", 1)[-1].lower(), "")


def model_id(name: str, where: Place) -> str:
    """Hub id of a model as a file names it, with or without its organisation; raises DataError
    where unknown."""
    if not (known_id := known_model(name)):
        raise DataError(
            "no such model", where=where.where, got=repr(name), allowed=", ".join(MODELS)
        )
    return known_id


def model_named(place: Place) -> str:
    """Hub id of the model that a place is about, by the last name on the way to it; empty where
    there is none."""
    value = place.document.root
    model = ""
    for part in place.pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            for name in (value.get("model"), value.get("Model"), key):
                model = known_model(str(name)) or model
        value = value[key] if isinstance(value, dict) else value[int(key)]
    return model
