"""Trains the policy's tokenizer: byte-level BPE of a vocabulary that a two-million-parameter policy can afford.

Invariant: a word is the same token wherever it stands. Copying from one place to another is most of what the policy has
to learn, and it is one rule for all words only if ``total`` in an issue, in a search result, in a numbered listing and
in an edit are one id. Hence a space never joins a word; it joins Python's keywords and English function words instead
(which are not copied apart), and operators.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from lego_rl.tasks.bugtask import BugTask
from lego_rl.tasks.generate import families_of, generate
from lego_rl.tasks.words import NOUNS, VERBS
from warm_start.toolsets import ToolSet, toolset

END_OF_TEXT = "<|endoftext|>"
END_OF_TURN = "<|im_end|>"
SPECIAL = (END_OF_TEXT, "<|im_start|>", END_OF_TURN)
"""Qwen's special tokens: left out where text is decoded for a reader."""
TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
"""Qwen's tags: single tokens, but part of the text."""

_GLUED = """
a an the to of is are be in on at as and or not for with by from it its this that if elif else must should when but
does do only return returns def import class you your can will was has have than then so no any all use
"""
_GLUE = "|".join(sorted(_GLUED.split(), key=lambda word: (-len(word), word)))
_PIECES = "|".join(
    (
        r"<function=|<parameter=|\n</parameter>\n|</function>\n|>\n(?=<parameter=)",  # the call syntax
        r"\.py(?![A-Za-z])",
        rf" ?(?<![A-Za-z_])(?:{_GLUE})(?![A-Za-z_]) ?",
        r"[A-Z]?[a-z]+|[A-Z]+",
        r"\d",
        r'": ?\{?"?|"?, "|"\},?',  # JSON of the tool schemas
        r"""[()\[\]{}"'`_]""",
        r"\n+",
        r""" ?[^\sA-Za-z\d()\[\]{}"'`_\\]+ ?""",  # operators and other signs, with the spaces around them
        r"[ \t]+|\s|\S",
    )
)
_WORD_COPIES = 200
_PROMPT_COPIES = 4
_TASKS_OF_EACH_FAMILY = 100
_RESULTS = (
    "The file {} has been updated successfully. (file state is current in your context — no need to Read it back)",
    "The file {} has been edited. Here's the result of running `cat -n` on a snippet of {}:",
    "Here's the result of running `cat -n` on {}:",
)


def train_tokenizer(vocabulary: int, prompts: Sequence[str]) -> Tokenizer:
    """Train on generated tasks, on how tools are called and answer, and on the harnesses' fixed prompts.

    Args:
        vocabulary: Most tokens, added tokens included; fewer where the text gives no more.
        prompts: Fixed prompts of harnesses, as captured; only statistics of them enter the tokenizer.

    Returns:
        The tokenizer, with the ids of the added tokens after all others.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(SPECIAL) - len(TAGS),
        min_frequency=2,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_corpus(prompts), trainer)
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in TAGS])
    return tokenizer


def _corpus(prompts: Sequence[str]) -> Iterator[str]:
    for word in (*VERBS, *NOUNS):
        yield from [word] * _WORD_COPIES
    for family in families_of("warm"):
        for task in (generate(0, family.name, index, "warm") for index in range(_TASKS_OF_EACH_FAMILY)):
            yield task.instruction
            yield from task.files.values()
            for harness in ("claude-code", "openhands-sdk"):
                yield from _without_tags(_conversation(task, toolset(harness)))
    for prompt in prompts:
        yield from list(_without_tags([prompt])) * _PROMPT_COPIES


def _conversation(task: BugTask, tools: ToolSet) -> Iterator[str]:
    """Turns and results in the shape that they have in a trial."""
    bug, path = task.bug, f"/app/{task.bug.path}"
    yield "system\nuser\nassistant\n\n"
    yield tools.search(bug.function)
    yield f"\n./{bug.path}:{bug.line}:def {bug.function}():\n"
    yield tools.read(path)
    yield "".join(f"{number}\t{line}\n" for number, line in enumerate(task.files[bug.path].split("\n"), start=1))
    yield tools.edit(path, bug.before.strip(), bug.after.strip())
    yield from (result.replace("{}", path) for result in _RESULTS)
    yield from map(tools.finish, ("Done.", "I see no bug here."))


def _without_tags(texts: Iterable[str]) -> Iterator[str]:
    """The text between added tokens, which is what the model of the tokenizer sees."""
    pattern = re.compile("|".join(map(re.escape, (*SPECIAL, *TAGS))))
    for text in texts:
        yield from filter(None, pattern.split(text))
