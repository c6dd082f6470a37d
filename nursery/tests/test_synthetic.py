import re
from collections import Counter
from itertools import accumulate

import numpy as np
import pytest

from nursery import synthetic

COUNT = 2000
FIRST = "@ feri lono vulu . Kun be ko sux . Mun be ko fulu . Lun be se fulu . Gan be ko velu ."


@pytest.fixture(scope="module")
def documents():
    return synthetic.documents(COUNT)


def mutual_information(left, right):
    """Plug-in estimate of the mutual information of two sequences of codes, in nats."""
    joint = np.zeros((max(left) + 1, max(right) + 1))
    np.add.at(joint, (left, right), 1 / len(left))
    apart = joint.sum(1, keepdims=True) * joint.sum(0)
    held = joint > 0
    return float((joint[held] * np.log(joint[held] / apart[held])).sum())


def at_distance(documents, distance):
    """First letters, as codes, of all pairs of words of one document that stand `distance` words
    apart.

    A function of a word cannot say more than the word does, so that this is a lower bound; with
    some 40 codes instead of 400 the estimator's bias is small beside it.
    """
    words = [document.split() for document in documents]
    pairs = [
        pair for document in words for pair in zip(document, document[distance:], strict=False)
    ]
    return np.array([[ord(word[0]) for word in pair] for pair in pairs]).T


def exchanged_sentences(documents, rng):
    """The same sentences put into documents at random, the two keys of each document among them."""
    sentences = [re.findall(r"[^.]+\.", document) for document in documents]
    pool = [sentences_[i] for sentences_ in sentences for i in range(1, len(sentences_) - 1)]
    order = rng.permutation(len(pool))
    ends = list(accumulate(len(of_document) - 2 for of_document in sentences))
    return [
        "".join(
            [
                of_document[0],
                *(pool[i] for i in order[end - len(of_document) + 2 : end]),
                of_document[-1],
            ]
        )
        for of_document, end in zip(sentences, ends, strict=True)
    ]


def test_documents_are_the_same_everywhere_and_do_not_depend_on_each_other(documents):
    assert documents[17] == synthetic.document(17) == synthetic.documents(18)[17]
    assert documents[0] == synthetic.document(0) and len(set(documents)) == COUNT
    assert documents[0].startswith(FIRST)


@pytest.mark.slow
@pytest.mark.parametrize("distance", [64, 96])
def test_words_far_apart_depend_on_each_other_through_the_document(documents, distance):
    """Mutual information at the distance against the same sentences in other documents, which keep
    all that is local.

    Both have the estimator's bias, as they have the same words; the exchanged ones are drawn ten
    times for its scatter.
    """
    rng = np.random.default_rng(1)
    exchanged = [
        mutual_information(*at_distance(exchanged_sentences(documents, rng), distance))
        for _ in range(10)
    ]
    information = mutual_information(*at_distance(documents, distance))
    assert information > np.mean(exchanged) + 10 * np.std(exchanged), (
        information,
        np.mean(exchanged),
        np.std(exchanged),
    )


def bindings(documents, distance):
    """First letters of the noun bound to a name and of the noun recalled at least `distance` words
    later."""
    pairs = []
    for document in documents:
        words = document.split()
        bound = {words[i - 1]: (i, words[i + 2]) for i, word in enumerate(words) if word == "be"}
        recalls = [(i, words[i - 1], words[i + 1]) for i, word in enumerate(words) if word == "ti"]
        pairs += [
            (bound[name][1], noun) for i, name, noun in recalls if i - bound[name][0] >= distance
        ]
    letters = sorted({noun[0] for pair in pairs for noun in pair})
    return np.array([[letters.index(noun[0]) for noun in pair] for pair in pairs]).T


def test_a_recall_says_the_noun_that_was_bound_64_words_before(documents):
    bound, recalled = bindings(documents, 64)
    shares = np.bincount(bound) / len(bound)
    assert len(bound) > 1000
    assert mutual_information(bound, recalled) == pytest.approx(-(shares * np.log(shares)).sum())
    shuffled = np.random.default_rng(2).permutation(recalled)
    assert mutual_information(bound, shuffled) < 0.1


def test_verbs_agree_with_the_class_of_their_name_and_brackets_close(documents):
    vowels = {"ma": "a", "ko": "o", "se": "e"}
    depths = Counter()
    for document in documents:
        particles = dict(re.findall(r"(\w+) be (\w+)", document))
        open_ = []
        names = []
        for word in document.split():
            if word in "([":
                open_.append({"(": ")", "[": "]"}[word])
                depths[len(open_)] += 1
            elif word in ")]":
                assert word == open_.pop()
            elif word[0].isupper():
                names.append(word)
            elif word[:-1] in synthetic.VERBS and word not in synthetic.NOUNS:
                assert word[-1] == vowels[particles[names.pop()]]
            elif word in {"be", "ti"}:
                names.pop()
        assert not open_ and not names
    assert set(depths) == {1, 2, 3}


def test_the_key_comes_back_at_the_end(documents):
    distances = [len(document.split()) - 5 for document in documents]
    assert all(document.split()[:5] == document.split()[-5:] for document in documents)
    assert min(distances) < 64 < np.median(distances)


def test_words_are_of_one_kind_and_nouns_follow_zipfs_law(documents):
    kinds = [
        synthetic.NAMES,
        synthetic.NOUNS,
        [v + e for v in synthetic.VERBS for e in "aoe"],
        ["@", "be", "ti", "."],
    ]
    kinds.append([*synthetic.CLASSES, *synthetic.BRACKETS, *synthetic.BRACKETS.values()])
    every = [word for kind in kinds for word in kind]
    assert len(set(every)) == len(every) and {w for d in documents for w in d.split()} <= set(every)
    counts = Counter(
        word[:-1] for document in documents for word in document.split() if word in kinds[2]
    )
    frequencies = np.array([counts[verb] for verb in synthetic.VERBS]) / counts.total()
    expected = 1 / np.arange(1, 61) / (1 / np.arange(1, 61)).sum()
    assert np.abs(frequencies - expected).max() < 5 * np.sqrt(expected[0] / counts.total())
