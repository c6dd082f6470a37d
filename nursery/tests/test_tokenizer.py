import json
import subprocess
import sys
from itertools import pairwise

import pytest

from nursery import synthetic, tokenizer
from thermostats.errors import DataError

pytest.importorskip("transformers")

CORPORA = [
    synthetic.documents(300),
    [f"Chapter {n}\nIt is a truth – £{n} a year.\n" for n in range(2000)],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer")
    (path / tokenizer.FILE).write_text(tokenizer.train(CORPORA).to_str(pretty=True))
    return path


def test_training_again_in_another_process_gives_the_same_file(folder):
    code = (
        "from nursery import synthetic, tokenizer; import sys; "
        "english = [f'Chapter {n}\\nIt is a truth – £{n} a year.\\n' for n in range(2000)]; "
        "corpora = [synthetic.documents(300), english]; "
        "sys.stdout.buffer.write(tokenizer.train(corpora).to_str(pretty=True).encode())"
    )
    again = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout
    assert again == (folder / tokenizer.FILE).read_bytes()


def test_any_text_comes_back_and_nothing_is_added(folder):
    loaded = tokenizer.load(folder)
    for text in (CORPORA[0][0], "Übermut, 東京 \x00\n\n  two  spaces", " leading"):
        assert loaded.decode(loaded(text)["input_ids"]) == text
    assert loaded("")["input_ids"] == []


def test_one_token_begins_ends_and_pads(folder):
    loaded = tokenizer.load(folder)
    assert {loaded.bos_token_id, loaded.eos_token_id, loaded.pad_token_id} == {0}
    assert loaded("a<|endoftext|>b")["input_ids"].count(0) == 1
    assert (
        len(json.loads((folder / tokenizer.FILE).read_text())["model"]["vocab"])
        <= tokenizer.VOCAB_SIZE
    )


def test_shares_are_equal_in_bytes_and_spread():
    small = ["ab"] * 50
    large = [f"{n:04d}" for n in range(1000)]
    mix = list(tokenizer.equal_mix([small, large]))
    assert mix[:50] == small
    taken = [int(number) for number in mix[50:]]
    assert len(taken) == 25 and all(35 <= b - a <= 45 for a, b in pairwise(taken))


def test_a_folder_without_a_tokenizer(tmp_path):
    with pytest.raises(DataError, match=r"no tokenizer here.*python -m nursery corpora"):
        tokenizer.load(tmp_path)
