"""What the form of an issue brings into it, whoever fills it in: it says nothing of what the issue is about.

Invariant: the same is taken out of every text, of the reference and of a pool, whatever else is in either. A reference
of one issue, or one that has a form once, cannot tell a form from what is in it, so forms are known here: those that
GitHub offers, and those of repositories that public sets of tasks are made from.

Source: GitHub's own ``bug_report.md``, ``feature_request.md`` and ``bug_report.yml``; the others are worded as issues
of those repositories have them.
"""

import re
from typing import Any

import pyarrow.compute as pc

HEADINGS = """
actual behavior|actual behaviour|actual outcome|actual output|actual result|actual results|additional context
additional information|additional notes|affected version|any other comments|anything else|anything else we need to know
browser|bug description|bug report|bug summary|checklist|code for reproduction|code of conduct|code sample
code to reproduce|command used|configuration|contact details|context|current behavior|current behaviour|description
describe alternatives you've considered|describe the bug|describe the feature|describe the problem
describe the solution you'd like|describe the workflow you want to enable|describe your proposed solution|desktop
details|device|environment|environment info|environment information|example|expected behavior|expected behaviour
expected outcome|expected output|expected result|expected results|extra tools|how to reproduce|installation
is there an existing issue for this|issue|issue description|log output|logs|minimal complete verifiable example
minimal example|minimal reproducible example|mvce confirmation|notes|observed behavior|operating system|os
possible fix|possible solution|problem|problem description|pylint output|pylint version|python version|related issues
relevant log output|reproducer|reproduction|reproduction steps|screenshots|search before asking|smartphone
software versions|solution|stack trace|step to reproduce|steps to reproduce|steps/code to reproduce|suggested fix
summary|system details|system info|system information|to reproduce|traceback|version|versions|what did you do
what did you expect to happen|what happened|what i did|what you expected to happen|willingness to contribute
your environment|your project|your setup
"""
"""Lines that are no more than the name of what comes next."""

SENTENCES = """
a clear and concise description of what the bug is
a clear and concise description of the bug
a clear and concise description of what you expected to happen
a clear and concise description of what the problem is
a clear and concise description of what you want to happen
a clear and concise description of any alternative solutions or features you've considered
a concise description of what you're experiencing
a concise description of what you expected to happen
a description of the expected outcome from the code snippet
a detailed description of the bug or problem you are having
a detailed description of the bug or suggestion
a minimal, complete and verifiable example will make it much easier for maintainers to help you
a minimum code snippet required to reproduce the bug
a short 1-2 sentences that succinctly describes the bug
add any other context about the problem here
add any other context or screenshots about the feature request here
also tell us, what did you expect to happen?
are you willing to work on and submit a PR to address the issue?
by submitting this issue, you agree to follow our code of conduct
code sample, a copy-pastable example if possible
describe alternatives you've considered
describe the solution you'd like
ex. I'm always frustrated when
go to '...' 2. click on '....' 3. scroll down to '....' 4. see error
how can we get in touch with you if we need more info?
I agree to follow this project's code of conduct
I have checked that this issue has not already been reported
I have confirmed this bug exists on the latest version of
I have confirmed this bug exists on the main branch of
I have confirmed this bug exists on the master branch of
I have searched the existing issues
I searched the issues and found no similar issues
if applicable, add screenshots to help explain your problem
if possible, link to the project or provide a minimal example
if this used to work in an earlier version of
is there an existing issue for this?
is your feature request related to a problem? please describe
link to your project
minimal example if possible
no response
operating system versions
output of pip list from the virtual environment you are using
please complete the following information
please copy and paste any relevant log output
please describe what the rule should do
please make sure to minimize the number of dependencies required, and provide any necessary plotted data
please provide a minimal example
please search to see if an issue already exists for the bug you encountered
please specify your platform and versions of the relevant libraries you are using
steps to reproduce the behavior
steps to reproduce the problem
thanks for taking the time to fill out this bug report
the output produced by the above code, which may be a screenshot, console output, etc
this command is only available on requests v2.16.4 and greater
this issue tracker is a tool to address bugs in
this should explain why the current behavior is a problem and why the expected output is a better solution
this will be automatically formatted into code, so no need for backticks
what happened instead
what you expected
yes I am willing to submit a PR
"""
"""What a form asks for, or offers to be filled in; also in the middle of a line."""

_NAMED = (
    r"(?:extra |operating |your )?(?:os|system|platform|browser|device|version|versions|python|arch|architecture|tools)"
    r"|[\w.+-]{1,24} version(?:s)?"
)


def _words(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", text.lower()))


def _any_of(lines: list[str], between: str) -> str:
    ordered = sorted(filter(None, map(_words, lines)), key=len, reverse=True)
    return "|".join(line.replace(" ", between) for line in ordered)


_HEADING = rf"(?i)(?:{_any_of(re.split(r'[|\n]', HEADINGS), r'[^\pL\pN\n]+')})"
# Lines are of some length only: an issue may have been put on one line, with all that it says.
_LINES = (
    r"(?s)<!--.*?-->",  # what GitHub shows to the writer alone
    r"(?i)\[e\.g\.[^\]\n]*\]",
    r"(?m)^[ \t]*[-*][ \t]*\[[ xX]\].{0,200}$",
    rf"(?m)^[^\pL\pN\n]*{_HEADING}[^\pL\pN\n]*(?:\([^)\n]*\)[^\pL\pN\n]*)?$",
    rf"(?im)^[^\pL\pN\n]*(?:{_NAMED})[*_ \t]*[:=].{{0,80}}$",
)
_SENTENCE = rf"\b(?:{_any_of(SENTENCES.splitlines(), ' ')})\b"


def without_form_lines(texts: Any) -> Any:
    """Issue texts without comments, placeholders, boxes to tick, headings of forms and lines of versions.

    Args:
        texts: ``[texts]`` of strings, as they were written.
    """
    for pattern in _LINES:
        texts = pc.replace_substring_regex(texts, pattern, " ")
    return texts


def without_form_sentences(words: Any) -> Any:
    """Issue texts without what forms ask for.

    Args:
        words: ``[texts]`` of strings: words in small letters with a blank between.
    """
    return pc.replace_substring_regex(words, _SENTENCE, " ")
