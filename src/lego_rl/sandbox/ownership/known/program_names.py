"""What programs are called with which tests are run."""

import re

from lego_rl.sandbox.ownership.known.runners import runner_of

PROGRAMS = re.compile(
    r"(python|pypy|pip)[0-9.]*|py\.?test|tox|nox|coverage|uvx?|poetry|pdm|hatch|make|env|(ba|da|z|k|a)?sh|busybox|git"
)
"""Programs with which tests are run: one of such a name in the work tree may come before theirs on ``PATH``."""

_COMMON = frozenset({
    "ar", "as", "awk", "b2sum", "base64", "basename", "bc", "bunzip2", "bzip2", "c++", "c89", "c99", "cat", "cc",
    "chgrp", "chmod", "chown", "cksum", "clang", "clang++", "cmake", "cmp", "col", "column", "comm", "cp", "cpio",
    "cpp", "csplit", "curl", "cut", "date", "dc", "dd", "df", "diff", "diff3", "dir", "dirname", "du", "echo",
    "ed", "egrep", "expand", "expect", "expr", "factor", "false", "fgrep", "file", "find", "flock", "fmt", "fold",
    "g++", "gawk", "gcc", "gdb", "getconf", "getent", "getopt", "gmake", "go", "grep", "groups", "gunzip", "gzip",
    "head", "hexdump", "hostname", "iconv", "id", "install", "java", "javac", "jq", "ld", "less", "ln", "locale",
    "logname", "ls", "lua", "m4", "mawk", "md5sum", "mkdir", "mkfifo", "mktemp", "mv", "nawk", "nice", "ninja",
    "nl", "nm", "node", "nodejs", "nohup", "npm", "nproc", "npx", "numfmt", "objcopy", "objdump", "od", "openssl",
    "paste", "patch", "pathchk", "perl", "php", "pkg-config", "pkill", "pnpm", "pr", "printf", "ps", "pwd",
    "ranlib", "readelf", "readlink", "realpath", "rm", "rmdir", "rsync", "ruby", "rustc", "sdiff", "sed", "seq",
    "sh", "sha1sum", "sha256sum", "sha512sum", "shuf", "size", "sleep", "sort", "split", "ssh", "stat", "stdbuf",
    "strings", "strip", "stty", "sum", "sync", "tac", "tail", "tar", "tee", "timeout", "touch", "tr", "true",
    "truncate", "tsort", "tty", "uname", "unexpand", "uniq", "unzip", "valgrind", "wc", "wget", "which", "whoami",
    "xargs", "xxd", "xz", "yarn", "yes", "zcat", "zip",
})  # fmt: skip
"""Programs that a machine has, and that tests, their helpers and tools of a build call by name."""


def is_common(name: str) -> bool:
    """Whether a machine has a program of such a name of its own, or a runner of tests is called so."""
    return name in _COMMON or runs_tests(name)


def runs_tests(name: str) -> bool:
    """Whether a program of such a name runs tests, of whatever language."""
    return PROGRAMS.fullmatch(name) is not None or runner_of(name) is not None
