import hashlib
import json

import numpy as np
import pytest

from nursery import corpora, english, python_source, synthetic, tokenizer
from nursery.python_source import documents as modules_of_the_library
from thermostats.errors import DataError, UsageError
from thermostats.measurement.prompts import load_prompts

pytest.importorskip("transformers")

synthetic_documents = synthetic.documents(400)

CHAPTERS = [f"Chapter {n}\n\nIt is a truth, number {n},\nthat is not told.\n" for n in range(1, 42)]
MODULES = [f"def f{n}(x):\n    return x + {n}\n" for n in range(40)]
FILES = {
    "code.txt",
    "code-train.npy",
    "code-heldout.npy",
    "shuffled-train.npy",
    "shuffled-heldout.npy",
    "english.txt",
    "synthetic.txt",
    "tokenizer.json",
    "english-train.npy",
    "english-heldout.npy",
    "synthetic-train.npy",
    "synthetic-heldout.npy",
}


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(
        synthetic, "documents", lambda: [synthetic.document(number) for number in range(60)]
    )
    monkeypatch.setattr(python_source, "documents", lambda: MODULES)

    def no_network():
        raise AssertionError("the network was used")

    monkeypatch.setattr(english, "fetch", no_network)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(CHAPTERS))
    return path


@pytest.fixture
def folder(tmp_path, text):
    corpora.build(tmp_path / "corpora", text)
    return tmp_path / "corpora"


def contents(folder):
    paths = [path for path in folder.iterdir() if not path.name.startswith(".")]
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}


def test_record_says_what_is_there(folder):
    record = json.loads((folder / "corpora.json").read_text())
    assert set(record["files"]) == FILES == set(contents(folder)) - {"corpora.json"}
    for name, facts in record["files"].items():
        content = (folder / name).read_bytes()
        assert facts == {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    english_too = {"train": 38, "heldout": 3}
    assert record["documents"] == {
        "english": english_too,
        "synthetic": {"train": 57, "heldout": 3},
        "code": {"train": 38, "heldout": 2},
        "shuffled": english_too,
    }
    assert record["english"] == "text" and record["same_english_as_shipped_models"] is False
    assert record["synthetic_seed"] == synthetic.SEED


def texts(folder, name):
    return corpora.split((folder / f"{name}.txt").read_text().split(corpora.SEPARATOR))


def test_the_shuffled_corpus_has_the_tokens_of_english_in_another_order(folder):
    english = corpora.load(folder, "english")
    shuffled = corpora.load(folder, "shuffled")
    for part in ("train", "heldout"):
        ordered = getattr(english, part)
        mixed = getattr(shuffled, part)
        assert np.array_equal(np.sort(ordered), np.sort(mixed)) and (ordered != mixed).mean() > 0.5
    assert corpora.unigram_loss(shuffled) == pytest.approx(corpora.unigram_loss(english), rel=1e-12)


def test_a_folder_of_fewer_corpora_is_completed_and_keeps_its_bytes(folder, text):
    before = {name: content for name, (content, _) in contents(folder).items()}
    record = json.loads(before["corpora.json"])
    for name in ("code", "shuffled"):
        del record["documents"][name]
    (folder / "corpora.json").write_text(json.dumps(record))
    corpora.build(folder)
    assert {name: content for name, (content, _) in contents(folder).items()} == before


def test_modules_of_the_library_come_in_an_order_of_their_own_and_without_tests():
    modules = modules_of_the_library()
    assert len(modules) > 200 and all("\f" not in text for text in modules)
    assert (
        not any("unittest.main()" in text.splitlines()[-1:] for text in modules)
        and modules == modules_of_the_library()
    )


@pytest.mark.parametrize("name", (*corpora.TOKENIZED, "code"))
def test_tokens_are_the_documents_each_with_its_end(folder, name):
    corpus = corpora.load(folder, name)
    learned = tokenizer.load(folder)
    assert (corpus.name, corpus.vocab_size) == (name, len(learned)) and corpus.vocab_size <= 1024
    for tokens, documents in zip((corpus.train, corpus.heldout), texts(folder, name), strict=True):
        assert (
            tokens.dtype == np.uint16
            and isinstance(tokens, np.memmap)
            and not tokens.flags.writeable
        )
        assert int(tokens.max()) < corpus.vocab_size and tokens[-1] == learned.eos_token_id
        assert learned.decode(tokens).split(tokenizer.END_OF_TEXT) == [*documents, ""]


def test_held_out_are_the_last_documents_and_not_in_training(folder):
    train, heldout = texts(folder, "synthetic")
    assert heldout == [synthetic.document(number) for number in (57, 58, 59)] and not set(
        train
    ) & set(heldout)
    _, heldout = texts(folder, "english")
    assert (
        heldout[-1] == "Chapter 41\nIt is a truth, number 41, that is not told.\n"
        and len(heldout) == 3
    )


def test_building_again_changes_nothing(folder, text):
    before = contents(folder)
    corpora.build(folder)
    corpora.build(folder, text)
    assert contents(folder) == before


def test_two_builds_are_alike_to_the_byte(folder, text, tmp_path):
    corpora.build(tmp_path / "second", text)
    assert {n: c for n, (c, _) in contents(tmp_path / "second").items()} == {
        n: c for n, (c, _) in contents(folder).items()
    }


@pytest.mark.parametrize("name", ["synthetic-train.npy", "tokenizer.json", "synthetic.txt"])
def test_a_damaged_or_missing_file_is_made_again_without_the_network(folder, name):
    before = (folder / name).read_bytes()
    (folder / name).write_bytes(before[:-7])
    corpora.build(folder)
    assert (folder / name).read_bytes() == before
    (folder / name).unlink()
    corpora.build(folder)
    assert (folder / name).read_bytes() == before


def test_damaged_tokens_are_not_loaded(folder):
    path = folder / "english-train.npy"
    path.write_bytes(path.read_bytes()[:-2] + b"\1\1")
    with pytest.raises(
        DataError, match=r"missing or damaged.*english-train.npy.*python -m nursery corpora"
    ):
        corpora.load(folder, "english")
    assert corpora.load(folder, "synthetic").name == "synthetic"


def test_a_corpus_without_a_window_is_not_trained_on(folder):
    held = len(corpora.load(folder, "english").heldout)
    assert corpora.load(folder, "english", held - 1).name == "english"
    with pytest.raises(
        DataError,
        match=rf"too short.*english-heldout.npy.*got {held} tokens.*more than {held},.*longer",
    ):
        corpora.load(folder, "english", held)


def test_an_own_text_that_was_damaged_is_asked_for_again(folder, text):
    (folder / "english.txt").write_text("x")
    with pytest.raises(DataError, match="give it again with --text"):
        corpora.build(folder)
    corpora.build(folder, text)
    assert corpora.load(folder, "english").name == "english"


def test_another_text_does_not_replace_what_is_there(folder, text):
    before = contents(folder)
    text.write_text("\f".join(f"Other {n}" for n in range(30)))
    with pytest.raises(UsageError, match=r"holds corpora made from another text.*another folder"):
        corpora.build(folder, text)
    assert contents(folder) == before


def test_an_interrupted_build_is_not_loaded_and_is_taken_up(tmp_path, text, monkeypatch):
    write = corpora.write_all
    folder = tmp_path / "corpora"

    def stops(place, contents):
        write(place, dict(list(contents.items())[:-2]))
        raise KeyboardInterrupt

    monkeypatch.setattr(corpora, "write_all", stops)
    with pytest.raises(KeyboardInterrupt):
        corpora.build(folder, text)
    with pytest.raises(DataError, match=r"no corpora here.*python -m nursery corpora"):
        corpora.load(folder, "english")
    monkeypatch.setattr(corpora, "write_all", write)
    corpora.build(folder, text)
    assert corpora.load(folder, "english").name == "english"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"Chapter 1\n\nShort.\n", r"too few documents.*got 1.*20 or more.*form feeds"),
        (b"", r"too few documents.*got 0.*20 or more"),
        (b"No chapters at all.\n", r"too few documents.*got 0.*20 or more"),
        (b"\xff\xfe", "not UTF-8 text"),
        (None, "cannot be read"),
    ],
)
def test_a_text_that_cannot_be_used(tmp_path, content, message):
    path = tmp_path / "bad.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        corpora.build(tmp_path / "corpora", path)
    assert not (tmp_path / "corpora" / "corpora.json").exists()


def test_wrong_names_and_records(folder):
    with pytest.raises(UsageError, match="allowed: english, synthetic"):
        corpora.load(folder, "latin")
    (folder / "corpora.json").write_text("[]")
    with pytest.raises(DataError, match=r"not a record of corpora.*remove this file"):
        corpora.load(folder, "english")


def test_synthetic_prompts_are_the_beginnings_of_held_out_documents_up_to_a_recall():
    prompts = load_prompts("nursery")
    _, heldout = corpora.split(
        [synthetic.document(number) for number in range(synthetic.DOCUMENTS)]
    )
    texts = prompts["text"][prompts["category"] == "synthetic"]
    assert len(texts) == 3 and set(prompts["category"]) == {"synthetic", "english"}
    for text in texts:
        assert sum(document.startswith(text + " ") for document in heldout) == 1, text
        assert text.endswith(" ti")


def test_prompts_of_every_corpus_end_in_different_tokens(tmp_path, text, monkeypatch):
    monkeypatch.setattr(synthetic, "documents", lambda: synthetic_documents[:400])
    monkeypatch.setattr(python_source, "documents", lambda: modules_of_the_library()[:40])
    words = [
        f"Chapter {n}\n\n" + " ".join(f"w{i * n % 97} x{i % 31}" for i in range(400))
        for n in range(1, 42)
    ]
    text.write_text("\n".join(words))
    corpora.build(tmp_path / "c", text)
    sets = corpora.prompt_sets(tmp_path / "c", 16)
    assert list(sets) == list(corpora.NAMES)
    for name, windows in sets.items():
        heldout = corpora.load(tmp_path / "c", name).heldout.tobytes()
        assert (
            windows.shape == (corpora.PROMPTS, 16) and len(set(windows[:, -1])) == corpora.PROMPTS
        )
        assert all(window.tobytes() in heldout for window in windows)


def test_a_corpus_too_short_for_its_prompts_is_refused(folder):
    with pytest.raises(DataError, match="too short for its prompts"):
        corpora.prompt_sets(folder, 16)
