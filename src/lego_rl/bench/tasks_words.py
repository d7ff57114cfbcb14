"""Words of made-up repositories: what people write about them, and the code that they mend.

Not random strings, which never collide: common English words as often as Zipf's law has them, phrases and issue
templates that thousands of issues share, the jargon of each repository in all that is written about it, tracebacks with
the same frames, and code with the idioms of Python. What stands here is the benchmark's own.
"""

import random
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate


def _listed(text: str) -> tuple[str, ...]:
    return tuple(text.split())


COMMON = _listed(
    "the a to of and in is it that for with on this as be not are when i but if from have we an by or can so at "
    "should which was there one all would has no use using will only you does any my do just get same error value "
    "after code then because more into also like default new first file return need see bug how still version test "
    "problem case expected example think work call change object what class set function method type wrong they issue "
    "instead some might argument make other where both before result way current without even data than given correct "
    "string list between since time run however fails module name path import output trying been pass seems raised "
    "why could very option line user found behaviour empty two number here being possible fix check attribute index "
    "sure maybe add support read write create different happen really already master release docs related help "
)

PHRASES = (
    "as far as i can tell",
    "it would be nice if",
    "this used to work in the previous release",
    "i would expect that",
    "the documentation says that",
    "is this the intended behavior",
    "i am happy to open a pull request",
    "thanks for the great work on this project",
    "here is a minimal example",
    "the following code raises an exception",
    "i get the following error message",
    "this happens only when",
    "a possible workaround is to",
    "if i understand correctly",
    "i think the problem is in",
    "it looks like a regression",
    "the root cause seems to be",
    "let me know if you need more information",
    "steps to reproduce the behavior",
    "i could not find an existing issue",
    "the same thing happens with",
    "it took me a while to figure out",
    "on the other hand",
    "at least in my case",
)

TEMPLATES = (
    ("### Describe the bug", "### Steps/Code to Reproduce", "### Expected Results", "### Actual Results"),
    (
        "**Describe the bug**\nA clear and concise description of what the bug is.",
        "**To Reproduce**\nSteps to reproduce the behavior:",
        "**Expected behavior**\nA clear and concise description of what you expected to happen.",
        "**Additional context**\nAdd any other context about the problem here.",
    ),
    ("#### Description", "#### What I did", "#### What I expected", "#### What happened instead"),
    (
        "What happened:",
        "What you expected to happen:",
        "Minimal Complete Verifiable Example:",
        "Anything else we need to know?:",
    ),
    (
        "- [x] I have checked that this issue has not already been reported.\n"
        "- [x] I have confirmed this bug exists on the latest version.",
        "Code Sample",
        "Problem description",
        "Expected Output",
    ),
    ("Bug summary", "Code for reproduction", "Actual outcome", "Expected outcome"),
)
"""Issue templates, in the style of those that large projects have."""

VERSIONS = (
    "System:\n    python: 3.{0}.{1}\n    machine: Linux-5.4.0-{2}-generic-x86_64-with-glibc2.29\n\n"
    "Python dependencies:\n    pip: 21.{1}\n    setuptools: 5{1}.0.0\n    numpy: 1.2{0}.{1}\n    scipy: 1.{0}.{1}",
    "- OS: Ubuntu 20.04\n- Python version: 3.{0}.{1}\n- Package version: {1}.{0}.{2}\n- Installed with pip",
    "Output of pip freeze:\nattrs==2{0}.{1}.0\ncertifi==202{1}.5.7\nidna==3.{0}\nnumpy==1.2{1}.{0}\n"
    "packaging==2{0}.{1}\npluggy==1.{1}.0\npy==1.{0}.0\npyparsing==3.0.{1}\npytest==7.{1}.{0}\nsix==1.1{1}.0\n"
    "urllib3==1.26.{2}",
)

FRAMES = (
    '  File "/usr/lib/python3.{0}/runpy.py", line 194, in _run_module_as_main\n'
    "    return _run_code(code, main_globals, None,",
    '  File "/usr/lib/python3.{0}/importlib/__init__.py", line 127, in import_module\n'
    "    return _bootstrap._gcd_import(name[level:], package, level)",
    '  File "<stdin>", line 1, in <module>',
    '  File "/usr/lib/python3.{0}/unittest/case.py", line 60, in testPartExecutor\n    yield',
)

ERRORS = ("ValueError", "TypeError", "AttributeError", "KeyError", "IndexError", "RuntimeError", "AssertionError")

IDIOMS = (
    "if {0} is None:",
    "return {0}",
    "raise {E}({0!r})",
    "for {0} in {1}:",
    "{0} = {1}.{2}({3})",
    "{0} = self.{1}({2}, {3})",
    "self.{0} = {1}",
    "if not isinstance({0}, {1}):",
    "def {0}(self, {1}, {2}=None):",
    "{0}.append({1})",
    "if {0} in self.{1}:",
    "{0} = kwargs.pop('{1}', None)",
    "with {0}({1}) as {2}:",
    "return self.{0}.{1}({2})",
    "{0} = [{1} for {1} in {2} if {1}.{3}]",
    "try:",
    "except {E}:",
    "else:",
    "elif {0} == '{1}':",
    "{0}, {1} = {2}.{3}()",
    "assert {0} == {1}",
    "from {0}.{1} import {2}",
    '"""Return the {0} of the {1}."""',
    "# {0} may not have a {1} yet",
    "super().__init__({0}, {1})",
    "{0} = {1} if {2} else {3}",
    "return {0} and {1}.{2} >= {3}",
)

_SYLLABLES = _listed(
    "ac al an ar as at ba be bi bo ca ce chi co cu da de di do du el en er es ex fa fe fi fo ga ge gi go gra ha he hi "
    "ho in ir ja ju ka ke ki la le li lo ma me mi mo mu na ne ni no nu or pa pe pi po pre pro qua ra re ri ro sa se si "
    "so spe sta str su ta te ti to tra tri un ur va ve vi vo wa we wi za ze zo"
)


def spelt(draw: random.Random, most: int = 4) -> str:
    """A word that could be one."""
    return "".join(draw.choices(_SYLLABLES, k=draw.randint(2, most)))


@dataclass(frozen=True)
class Language:
    """Words of a whole corpus.

    Attributes:
        seed: Another one makes other rare words.
    """

    seed: int = 0

    @cached_property
    def words(self) -> list[str]:
        """Common words, and then rare ones, by rank."""
        draw = random.Random(f"{self.seed}/words")
        return [*COMMON, *(spelt(draw) for _ in range(6_000))]

    @cached_property
    def weights(self) -> list[float]:
        """Cumulated, by Zipf's law."""
        return list(accumulate(1 / (rank + 2.7) for rank in range(len(self.words))))


@dataclass(frozen=True)
class Repository:
    """A repository, as its issues and patches show it.

    Attributes:
        name: ``owner/name``.
        language: What everybody writes in.
    """

    name: str
    language: Language

    @cached_property
    def template(self) -> tuple[str, ...]:
        """Which issue template it has."""
        return self._draw("template").choice(TEMPLATES)

    @cached_property
    def names(self) -> list[str]:
        """Identifiers of its code, the most used first."""
        draw = self._draw("names")
        stems = [spelt(draw, 3) for _ in range(60)]
        names = ["self", "data", "value", "name", "kwargs", "result"]
        names += ["_".join(draw.choices(stems, k=draw.choice((1, 1, 2, 2, 3)))) for _ in range(240)]
        return names + ["".join(stem.capitalize() for stem in draw.choices(stems, k=2)) for _ in range(60)]

    @cached_property
    def weights(self) -> list[float]:
        """Cumulated, by Zipf's law."""
        return list(accumulate(1 / (rank + 4) for rank in range(len(self.names))))

    def draw_names(self, draw: random.Random, count: int) -> list[str]:
        """Identifiers, as often as they are used."""
        return draw.choices(self.names, cum_weights=self.weights, k=count)

    def _draw(self, what: str) -> random.Random:
        return random.Random(f"{self.language.seed}/{self.name}/{what}")
