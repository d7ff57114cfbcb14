"""A patch as ownership divides it, and why; `verdict.json` has the texts."""

from dataclasses import dataclass, field
from enum import StrEnum

from lego_rl.sandbox.verdict import Change


class Reason(StrEnum):
    """One for each path that is rolled back."""

    TEST_FILE = "it is a test file of the task's"
    OWN_TEST = "only the task's own tests run"
    SUPPORT = "the task's tests use it"
    TEST_PACKAGE = "it makes a package of a folder of tests, changes it or unmakes it"
    ROOT = "it would make a folder of tests the root of the test run"
    STRAY = "only the task's own tests run, and nothing of the product names it"
    DECIDES = "it decides which tests run, or how"
    DECIDES_IN_PART = "it decides which tests run, or how; the rest of it is applied"
    UNREADABLE = "it cannot be read as configuration"
    TOO_MUCH = "the change has more configuration than is read"
    PROGRAM = "it would be run in place of a program that runs the tests"
    REMADE = "make would make something of the task's own from it"
    VARIABLES = "it sets the environment in which tests run"
    SHADOWS = "it would be imported in place of a module that the tests or their runner use"
    ADDS_TO_PATH = "Python would execute it where the tests add to their module path"
    COMES_FIRST = "Node would take it in place of a file that the task's tests use"
    NAMED_ALIKE = "a report would name its tests like the task's own"
    IN_THE_WAY = "it takes the place of a folder with files of the task's"
    REPLACES_OWN = "it takes the place of something of the task's own, or goes with what does"


@dataclass(frozen=True)
class Split:
    """A patch, divided.

    Attributes:
        applied: What is written into the grading sandbox.
        rolled_back: Path → why it, or a part of it, is the task's own instead.
    """

    applied: tuple[Change, ...] = ()
    rolled_back: dict[str, Reason] = field(default_factory=dict)
