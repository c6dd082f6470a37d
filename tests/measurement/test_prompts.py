import hashlib
import json

import pandas as pd
import pytest

from thermostats.errors import DataError, UsageError
from thermostats.measurement.prompts import load_prompts, read_prompts
from thermostats.tables import store
from thermostats.tables.join import join
from thermostats.tables.runs import hash_prompts


def test_core_has_the_studys_categories_and_ranks():
    core = load_prompts("core")
    assert core.groupby(["category", "complexity"]).size().to_dict() == {
        ("Factual", 1): 5,
        ("Syntactic", 5): 5,
        ("Cliche", 2): 5,
        ("Novel", 4): 5,
        ("Nonsense", 3): 5,
    }


def test_shipped_prompts_differ_and_vary_in_length():
    shipped = pd.concat([load_prompts("core"), load_prompts("wide")])
    assert (
        shipped["text"].str.lower().is_unique
        and (shipped["text"] == shipped["text"].str.strip()).all()
    )
    words = shipped["text"].str.split().str.len()
    assert words.min() >= 2 and words.max() > 45 and words.std() > 5
    for row in shipped.itertuples():
        assert row.text_sha256 == hashlib.sha256(row.text.encode()).hexdigest()


def test_no_shipped_text_is_one_of_the_studys():
    prompts = store.load("prompts")
    ours = prompts["prompt_set"].isin(["core", "wide"])
    assert ours.sum() == 225 and (~ours).any()
    assert not set(prompts["text_sha256"][ours]) & set(prompts["text_sha256"][~ours])


def folder_with(tmp_path, rows):
    frame = pd.DataFrame(rows, columns=["prompt_id", "text"]).assign(
        prompt_set="mine", category="", complexity=None
    )
    frame["text_sha256"] = [hashlib.sha256(text.encode()).hexdigest() for _, text in rows]
    store.save(frame, "prompts", tmp_path / "prompts.csv")
    return frame


def test_hash_of_a_set_is_over_its_texts_in_order_of_their_names(tmp_path):
    frame = folder_with(tmp_path, [("b", "second"), ("a", "first")])
    digests = [hashlib.sha256(text).hexdigest() for text in (b"first", b"second")]
    expected = hashlib.sha256("".join(digests).encode()).hexdigest()
    assert hash_prompts(frame) == hash_prompts(load_prompts("mine", tmp_path)) == expected
    assert hash_prompts(folder_with(tmp_path, [("a", "second"), ("b", "first")])) != expected


def test_imported_texts_fill_a_set_and_hashes_alone_do_not(tmp_path):
    frame = folder_with(tmp_path, [("a", "Once upon a time")])
    store.save(frame.assign(text=""), "prompts", tmp_path / "prompts.csv")
    with pytest.raises(DataError, match=r"not shipped.*thermostats join"):
        load_prompts("mine", tmp_path)
    store.save(frame, "prompts", tmp_path / "private" / "prompts.csv")
    assert load_prompts("mine", tmp_path)["text"].tolist() == ["Once upon a time"]


def test_a_joined_text_finds_its_hash_and_stays_private(tmp_path):
    made = folder_with(tmp_path, [("a", "Once upon a time"), ("b", "never given")])
    store.save(made.assign(text=""), "prompts", tmp_path / "prompts.csv")
    (done,) = join(made.iloc[:1], data=tmp_path)
    assert (done.added, done.replaced) == (0, 0)
    texts = store.load("prompts", tmp_path)
    assert texts.loc[texts["prompt_set"] == "mine", "text"].tolist() == ["Once upon a time", ""]
    public = store.load("prompts", tmp_path, private=False)
    assert (public.loc[public["prompt_set"] == "mine", "text"] == "").all()
    with pytest.raises(DataError, match="other values"):
        join(made.iloc[:1].assign(text="Another"), data=tmp_path)


def test_a_text_that_is_not_the_one_of_its_hash(tmp_path):
    frame = folder_with(tmp_path, [("a", "Once upon a time")])
    store.save(frame.assign(text="Twice"), "prompts", tmp_path / "prompts.csv")
    with pytest.raises(DataError, match="does not match its hash"):
        load_prompts("mine", tmp_path)


def test_text_file(tmp_path):
    path = tmp_path / "own.txt"
    path.write_bytes("\ufeffThe cat\r\n  Der Bär geht \n".encode())
    prompts = load_prompts(str(path))
    assert prompts["prompt_set"].unique().tolist() == ["own"]
    assert dict(zip(prompts["prompt_id"], prompts["text"], strict=True)) == {
        "p001": "The cat",
        "p002": "  Der Bär geht ",
    }


def test_csv_and_jsonl_files_say_the_same(tmp_path):
    rows = [
        {
            "prompt_id": "x",
            "text": 'A "quoted", text\nof two lines',
            "category": "Factual",
            "complexity": 1,
        },
        {"prompt_id": "y", "text": "plain", "category": "", "complexity": None},
    ]
    pd.DataFrame(rows).astype({"complexity": "Int64"}).to_csv(tmp_path / "own.csv", index=False)
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    from_csv, from_json = read_prompts(tmp_path / "own.csv"), read_prompts(tmp_path / "own.jsonl")
    pd.testing.assert_frame_equal(from_csv, from_json)
    assert from_csv["text"].tolist() == [row["text"] for row in rows]
    assert from_csv["complexity"].tolist()[0] == 1 and from_csv["complexity"].isna()[1]


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("a.txt", b"one\n\ntwo\n", DataError, "empty prompt .*line 2"),
        ("a.txt", b"", DataError, "no prompts"),
        ("a.txt", b"caf\xe9\n", DataError, "not UTF-8 .*0xe9 at 3"),
        ("a.csv", b"text\n   \n", DataError, "empty prompt .*line 2"),
        ("a.csv", b"prompt_id,text\na,x\na,y\n", DataError, "occurs twice .*line 3"),
        ("a.csv", b"prompt\nx\n", DataError, "unknown field.*prompt"),
        ("a.csv", b"text\nx,y\n", DataError, "more cells"),
        ("a.csv", b'text\n"x\n', DataError, "CSV is damaged"),
        ("a.csv", b"text,complexity\nx,high\n", DataError, "whole number"),
        ("a.jsonl", b'{"text": "x"\n', DataError, "not JSON.*line 1"),
        ("a.jsonl", b"[1]\n", DataError, "not a JSON object"),
        ("a.jsonl", b'{"text": "a \\ud800"}', DataError, "text holds half a character"),
        (
            "a.jsonl",
            b'{"text": "x", "category": "\\udc00"}',
            DataError,
            "category holds half a character",
        ),
        ("a.jsonl", b'{"text": 3}\n', DataError, "text is not text"),
        ("a.jsonl", b'{"prompt_id": "a"}', DataError, "text is missing"),
        ("a.jsonl", b'{"text": "x", "complexity": 1.5}', DataError, "whole number"),
        ("a.jsonl", b"[" * 9999, DataError, "not JSON"),
        ("a.pdf", b"x", UsageError, "text, CSV or JSONL"),
        ("core.txt", b"mine\n", UsageError, "a prompt set of this name"),
    ],
)
def test_damaged_files_are_named(tmp_path, name, content, error, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=message):
        load_prompts(str(tmp_path / name))
