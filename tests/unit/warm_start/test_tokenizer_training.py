"""The tokenizer's training: what it must give whatever the harnesses' prompts are."""

import pytest
from tokenizers import Tokenizer

from lego_rl.gateway.encoding import Encoder
from lego_rl.tasks.generate import generate
from lego_rl.tasks.words import NOUNS, VERBS
from warm_start.tokenizer import SPECIAL, TAGS, train_tokenizer
from warm_start.toolsets import write_call

PROMPT = "You fix bugs. The bureaucratic questionnaire says so. " * 5


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(1600, [PROMPT])


def test_the_vocabulary_ends_with_the_added_tokens(tokenizer: Tokenizer) -> None:
    size = tokenizer.get_vocab_size()
    assert size <= 1600
    assert [tokenizer.token_to_id(text) for text in (*SPECIAL, *TAGS)] == list(range(size - 9, size))


def test_every_word_of_the_tasks_is_one_token(tokenizer: Tokenizer) -> None:
    assert [word for word in (*VERBS, *NOUNS) if len(tokenizer.encode(word).ids) != 1] == []


def test_prompts_shape_the_merges(tokenizer: Tokenizer) -> None:
    without = train_tokenizer(1600, [])
    assert len(tokenizer.encode(PROMPT).ids) < len(without.encode(PROMPT).ids)


def test_a_call_costs_few_tokens_besides_what_it_says(tokenizer: Tokenizer) -> None:
    call = write_call("Read", {"file_path": "/app/a.py"})
    assert len(tokenizer.encode(call).ids) <= 24


def test_the_gateway_accepts_it_and_loses_nothing(tokenizer: Tokenizer) -> None:
    encoder = Encoder(tokenizer.to_str())
    for text in generate(0, "key", 0, "warm").files.values():
        assert encoder.decode(encoder.encode(text)) == text
