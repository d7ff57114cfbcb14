"""Programs that the scripts of rows call, by what they may do to a work tree, and how code that does it looks."""

import re

READS = frozenset({
    "config", "describe", "rev-parse", "rev-list", "ls-files", "ls-tree", "ls-remote", "cat-file", "for-each-ref",
    "name-rev", "symbolic-ref", "version", "tag", "branch", "init", "add", "commit", "remote", "grep", "blame",
    "shortlog", "submodule", "lfs", "var", "help",
})  # fmt: skip
"""Commands of git that bring nothing into the work tree: there is no network, and no object but those of its past."""
WITH_VALUE = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"})
PATCHES = frozenset({"patch", "gpatch", "git-apply", "git-am", "wiggle", "interdiff", "combinediff", "hg", "svn"})
SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh", "ash"})
RUN = frozenset({*PATCHES, *SHELLS, "git", "eval"})
KEYWORDS = frozenset({
    "if", "then", "elif", "else", "while", "until", "do", "!", "{", "}", "time", "fi", "done", "esac",
})  # fmt: skip
RUN_NOTHING = frozenset({
    "echo", "printf", ":", "cd", "pushd", "popd", "true", "false", "test", "[", "[[", "]]", "which", "type", "hash",
    "grep", "egrep", "fgrep", "ls", "mkdir", "cat", "head", "tail", "wc", "sort", "uniq", "rm", "rmdir", "touch",
    "chmod", "chown", "set", "unset", "shift", "return", "exit", "break", "continue", "local", "export", "declare",
    "typeset", "readonly", "read", "for", "case", "select", "function", "pip", "pip3", "pipx", "apt", "apt-get",
    "apk", "yum", "dnf", "gem", "pytest", "py.test", "sed", "awk", "cp", "mv", "ln", "tee", "diff", "cmp", "sleep",
    "kill", "pwd", "umask", "ulimit",
})  # fmt: skip
"""Programs that run none of their words, whatever these are called."""
RUN_TEXT = frozenset({"sed", "awk", "tee", "cp", "mv", "ln"})
"""Of these, those that may run a text that they are given, or put it into a file."""
INTERPRETERS = re.compile(r"(?:python|pypy)[\d.]*|perl|ruby|node|nodejs|php|lua")
INLINE = re.compile(r"-\w*[ceEr]|--eval|--print")
INLINE_HERE = re.compile(r"(?:-[ceE]|--eval=|--print=)(?P<code>.+)", re.DOTALL)
COPY = frozenset(["cp", "mv", "ln", "install", "rsync"])
EDIT = COPY | {"tee", "dd", "truncate", "ed", "ex", "vi", "vim", "rm", "unlink", "shred", "curl", "wget"}
DECODE = {
    "base64": re.compile(r"-\w*[dD]\w*|--decode"),
    "base32": re.compile(r"-\w*[dD]\w*|--decode"),
    "basenc": re.compile(r"-\w*[dD]\w*|--decode"),
    "xxd": re.compile(r"-\w*r\w*|-revert"),
    "uudecode": re.compile(r".*"),
    "openssl": re.compile(r"enc|base64"),
}
RUN_BY_OTHERS = (RUN | EDIT | DECODE.keys() | {"sed", "awk", "gawk"}) - {"install"}
"""What is looked for among the words of any command that may run others."""
ACTIVATES = re.compile(
    r"\$\((?:[\w./~-]*/)?(?:conda|mamba|micromamba|pyenv|rbenv|nodenv|opam|fnm|luarocks)\b[^|;&`$()<>]*\)"
)
"""How environments are made the current one: by what their own programs print."""
SHELL_CODE = re.compile(r"#!.*\b(?:bash|sh|dash|zsh|ksh)\b")
ASKS_NOTHING = re.compile(r"\$\((?!which\b|command\b|type\b)[^()]*\)")
NOWHERE = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})
GIT, APPLIES = re.compile(r"\bgit\b"), re.compile(r"\b(?:apply|am)\b")
PATCH_OPTION = re.compile(r"(?<![\w.-])patch[ \t]+-")
CODE_PATCHES = re.compile(r"['\"]g?patch['\"]|\b(?:import|from)[ \t]+(?:patch|patch_ng|whatthepatch)\b")
CODE_WRITES = re.compile(
    r"\bwrite|\bopen\([^)]{0,200}['\"][rbt]*[wax+]|\b(?:shutil|subprocess|popen|system|exec|eval|rename|replace|unlink"
    r"|remove|copy|fileinput)\b|\bFile\.|\bfs\.|>|\bsed\b",
    re.IGNORECASE,
)
PATHS = re.compile(r"[\w./@+-]+")
