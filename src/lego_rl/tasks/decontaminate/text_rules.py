"""Rules that compare what a task says and what solves it."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, override

import pyarrow as pa

from lego_rl.tasks.decontaminate.candidates import Origin
from lego_rl.tasks.decontaminate.near import Measure, NearIndex
from lego_rl.tasks.decontaminate.normal import LEAST_TOKENS, LEAST_WORDS
from lego_rl.tasks.decontaminate.rule import Hit, Reference, Rule, RuleName
from lego_rl.tasks.decontaminate.shingles import changes_of, words_of
from lego_rl.tasks.decontaminate.telling import any_word, own_name
from lego_rl.tasks.decontaminate.texts import Texts


class TextRule(Rule):
    """An issue text or a patch that is the reference's, word for word or nearly so."""

    _measure: ClassVar[Measure]
    _what: ClassVar[str]

    def __init__(self, texts: Sequence[str | None], digests: dict[str, str], ids: Sequence[str]) -> None:
        self._ids = ids
        self._digests = digests
        self._near = NearIndex(pa.array(texts, pa.string()), self._measure)
        self.comparable = self._near.comparable

    @abstractmethod
    def _digest(self, origin: Origin) -> str | None:
        """Of its text."""

    @abstractmethod
    def _texts(self, texts: Texts) -> Any:
        """Which of its texts."""

    @override
    def hits(self, origins: Sequence[Origin], first: int, texts: Texts | None) -> Iterator[Hit]:
        same = {place: self._digests.get(self._digest(origin) or "") for place, origin in enumerate(origins, first)}
        for place, instance in same.items():
            if instance is not None:
                yield Hit(place, self.name, instance, f"its {self._what} is that of {instance}")
        for near in self._near.near(self._texts(texts)) if texts is not None else ():
            place = first + near.text
            if same[place] is None:
                instance = self._ids[near.reference]
                shared = f"shares {near.overlap:.0%} of its runs of three words ({near.shared}), by weight"
                yield Hit(place, self.name, instance, f"its {self._what} {shared}, with {instance}")

    @override
    def compares(self, origin: Origin) -> bool:
        return self._digest(origin) is not None


class IssueTextRule(TextRule):
    """The issue text."""

    name = RuleName.ISSUE_TEXT
    needs = f"an issue text of {LEAST_WORDS} words"
    _what = "issue text"
    _measure = Measure(words_of, any_word, overlap=0.2, evidence=6.0)

    def __init__(self, reference: Reference) -> None:
        digests = reference.by(lambda origin: [origin.issue_digest] if origin.issue_digest else [])
        super().__init__([task.issue for task in reference.tasks], digests, [t.instance_id for t in reference.tasks])

    @override
    def _digest(self, origin: Origin) -> str | None:
        return origin.issue_digest

    @override
    def _texts(self, texts: Texts) -> Any:
        return texts.issues


class PatchRule(TextRule):
    """The patch, either way round."""

    name = RuleName.PATCH
    needs = f"a patch that changes {LEAST_TOKENS} tokens"
    _what = "patch"
    _measure = Measure(changes_of, own_name, overlap=0.2, evidence=6.0)

    def __init__(self, reference: Reference) -> None:
        digests = reference.by(lambda origin: [origin.patch_digest] if origin.patch_digest else [])
        super().__init__([task.patch for task in reference.tasks], digests, [t.instance_id for t in reference.tasks])

    @override
    def _digest(self, origin: Origin) -> str | None:
        return origin.patch_digest

    @override
    def _texts(self, texts: Texts) -> Any:
        return texts.patches
