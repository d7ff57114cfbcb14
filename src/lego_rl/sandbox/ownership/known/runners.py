"""Test runners of every language that is known, and the files by which each decides which tests run, and how.

A runner counts for a task where its command, or a script that the command leads to, names the program. Then its files
are the task's own, there or not yet. What runs nothing by itself (``make``, ``npm``) is no runner; what its file says
is read instead (`launchers`).

Patterns are of the last parts of a path, or of all of it where they begin with ``/``; a ``*`` also stands for folders.
Source: the manual of each runner, as to where it looks for its configuration and its tests.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property
from pathlib import PurePosixPath


@dataclass(frozen=True)
class Runner:
    """A test runner.

    Attributes:
        name: What it is called.
        programs: Names of the programs that start it.
        decides: Files that decide which tests run and how, whoever wrote them.
        tests: Paths, as expressions, of what is tests and nothing else. An agent's are left out: of many runners none
            runs where one of them cannot be built.
        manifests: Files of which a part does, and the rest is the product's (`manifests`).
    """

    name: str
    programs: frozenset[str]
    decides: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    manifests: frozenset[str] = frozenset()


_NODE = (
    ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.*", "pnpm-workspace.yaml", ".nvmrc", ".node-version", ".babelrc",
    ".babelrc.*", "babel.config.*", ".swcrc", "tsconfig.json", "tsconfig.*.json", ".env.test", ".env.test.local",
    "lerna.json", "nx.json", "project.json", "turbo.json", ".nycrc", ".nycrc.*", ".c8rc", ".c8rc.*", ".taprc",
    "deno.json", "deno.jsonc", "bunfig.toml", "__mocks__/*",
)  # fmt: skip
_NO_SOURCES = r"(?!(?:.*/)?(?:src|lib|app)/)"
_NODE_TESTS = (
    r".*\.(?:test|spec)\.[cm]?[jt]sx?",
    r"(?:.*/)?__(?:tests|snapshots)__/.*",
    _NO_SOURCES + r"(?:.*/)?(?:tests?|specs?)/.*\.[cm]?[jt]sx?",
)
_RUBY_TESTS = (_NO_SOURCES + r"(?:.*/)?(?:spec|test)/.*\.rb",)
_PHP_TESTS = (r"(?:.*/)?[Tt]ests?/(?:.*/)?\w*Test(?:Case)?\.php", _NO_SOURCES + r"(?:.*/)?[Tt]ests?/.*\.php")
_BUNDLER = (".bundle/config", "Gemfile", "Gemfile.lock", "gems.rb", "gems.locked", "*.gemspec", "/vendor/bundle/*",
            "Rakefile", "rakefile", "Rakefile.rb", "rakefile.rb", "rakelib/*", "*.rake", ".simplecov",
            ".ruby-version")  # fmt: skip
_JVM_TESTS = (r"(?:.*/)?src/(?:test|it|integrationTest|androidTest|testFixtures|functionalTest)/.*",)
_GRADLE = ("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "init.gradle", "*.gradle",
           "*.gradle.kts", "gradle.properties", "gradlew", "/gradle/*", "/buildSrc/*", "/build-logic/*",
           "junit-platform.properties")  # fmt: skip
_CMAKE = ("CMakeLists.txt", "*.cmake", "CMakePresets.json", "CMakeUserPresets.json", "DartConfiguration.tcl",
          "meson.build", "meson_options.txt", "meson.options", "cdash.ini")  # fmt: skip


def _runner(
    programs: str,
    decides: Iterable[str] = (),
    tests: Iterable[str] = (),
    manifests: Iterable[str] = (),
) -> Runner:
    names = programs.split()
    return Runner(names[0], frozenset(names), tuple(decides), tuple(tests), frozenset(manifests))


def _node(programs: str, *decides: str) -> Runner:
    return _runner(programs, (*_NODE, *decides), _NODE_TESTS, ("package.json",))


_VITE = ("vite.config.*", "vitest.config.*", "vitest.workspace.*", "vitest.projects.*", "vitest.setup.*")

RUNNERS = (
    # Python: `deciding_files` has its files, whatever runs.
    _runner("pytest py.test unittest nose nosetests nose2 trial stestr", [".stestr.conf", ".testr.conf"]),
    _runner("behave", ["behave.ini", ".behaverc"],
            [r"(?:.*/)?features/(?:.*/)?(?:steps/.*\.py|environment\.py|\w+_environment\.py|[^/]*\.feature)"]),
    _runner("robot pabot", ["robot.toml", ".robot.toml"], [r".*\.(?:robot|resource)"]),
    # JavaScript and TypeScript.
    _node("jest ts-jest react-scripts craco jest-cli", "jest.config.*", "*.jest.config.*", "jest.setup.*", "jest-*.js",
          "jest.*.js", "setupTests.*", "craco.config.*"),
    _node("vitest", *_VITE),
    _node("mocha _mocha nyc c8 mochapack ts-mocha electron-mocha", ".mocharc", ".mocharc.*", "mocha.opts"),
    _node("karma ng", "karma.conf.*", "karma.*.js", "angular.json", "webpack.*.js", "webpack.config.*",
          "rollup.config.*"),
    _node("jasmine", "jasmine.json", "jasmine.*js"),
    _node("ava", "ava.config.*"),
    _node("tap tape node-tap borp uvu zora lab testem qunit wtr web-test-runner nodeunit vows zunit node tsx ts-node",
          ".labrc.js", "testem.*", "web-test-runner.config.*", ".tap/*"),
    _node("playwright cypress wdio", "playwright.config.*", "cypress.config.*", "cypress.json", "wdio.conf.*"),
    _node("bun deno"),
    # Ruby.
    _runner("rspec", [*_BUNDLER, ".rspec", ".rspec-local", "spec_helper.rb", "rails_helper.rb", "spec/support/*"],
            _RUBY_TESTS),
    _runner("rake minitest testrb rails test-unit",
            [*_BUNDLER, "test_helper.rb", "minitest_helper.rb", "spec_helper.rb", "test/support/*", ".test-unit.yml"],
            _RUBY_TESTS),
    _runner("cucumber", [*_BUNDLER, "cucumber.yml", "features/support/*"]),
    # PHP.
    _runner("phpunit simple-phpunit paratest",
            ["phpunit.xml", "phpunit.xml.*", "phpunit.dist.xml", ".phpunit.*", "phpunit-*.xml", "tests/bootstrap.php",
             "test/bootstrap.php", "/vendor/*", "auth.json", "php.ini", ".user.ini", "phpunit"],
            _PHP_TESTS, ("composer.json",)),
    _runner("pest", ["phpunit.xml", "phpunit.xml.*", "tests/Pest.php", "tests/bootstrap.php", "/vendor/*", "php.ini"],
            _PHP_TESTS, ("composer.json",)),
    _runner("behat codecept phpspec kahlan atoum",
            ["behat.*", "codeception.*", "phpspec.*", "kahlan-config.php", ".atoum.php", "/vendor/*"], _PHP_TESTS,
            ("composer.json",)),
    # Rust.
    _runner("cargo cargo-nextest nextest rustc",
            [".cargo/*", "build.rs", "rust-toolchain", "rust-toolchain.toml", ".config/nextest.toml", "nextest.toml",
             "/vendor/*", "Makefile.toml"],
            [r"(?!(?:.*/)?src/)(?:.*/)?(?:tests|benches)/[^/]*\.rs"], ("Cargo.toml",)),
    # Go.
    _runner("go gotestsum ginkgo gotest", ["go.work", "/vendor/*", "magefile.go", ".gotestsum*"], [r".*_test\.go"],
            ("go.mod",)),
    # The Java virtual machine.
    _runner("gradle gradlew gradlew.bat", _GRADLE, _JVM_TESTS),
    _runner("mvn mvnw mvnd", ["pom.xml", "*.pom", "mvnw", ".mvn/*", "settings.xml", "junit-platform.properties"],
            _JVM_TESTS),
    _runner("sbt sbtx", ["build.sbt", "*.sbt", "/project/*", "project/build.properties", ".sbtopts", ".jvmopts", "sbt",
                          ".sbt/*"], _JVM_TESTS),
    _runner("mill bleep", ["build.sc", "build.mill", "*.mill", "mill", ".mill-*", "bleep.yaml"]),
    _runner("ant", ["build.xml", "build.properties", "ivy.xml"]),
    _runner("lein clj clojure", ["project.clj", "profiles.clj", "deps.edn", "tests.edn", "bb.edn"]),
    # C, C++ and what builds many languages.
    _runner("ctest cmake", [*_CMAKE, "CTestConfig.cmake", "CTestCustom.*", "CTestTestfile.cmake"]),
    _runner("meson ninja", [*_CMAKE, "build.ninja"]),
    _runner("bazel bazelisk buck buck2",
            ["BUILD", "BUILD.bazel", "WORKSPACE", "WORKSPACE.bazel", "MODULE.bazel", "*.bzl", ".bazelrc",
             ".bazelversion", "*.bazelrc", "tools/bazel", "BUCK", ".buckconfig", "MODULE.bazel.lock"]),
    _runner("autoreconf automake", ["configure", "configure.ac", "Makefile.am", "Makefile.in", "*.m4", "aclocal.m4"]),
    _runner("lit llvm-lit", ["lit.cfg", "lit.cfg.py", "lit.site.cfg*", "lit.local.cfg"]),
    # Others.
    _runner("prove yath", [".proverc", ".yath.rc", "Makefile.PL", "Build.PL", "dist.ini", "cpanfile"],
            [r"(?:.*/)?x?t/.*"]),
    _runner("bats", ["setup_suite.bash", "test_helper.bash"]),
    _runner("dotnet vstest xunit nunit3-console",
            ["*.runsettings", "*.csproj", "*.fsproj", "*.sln", "*.slnx", "Directory.*.props", "Directory.*.targets",
             "xunit.runner.json", "global.json", "nuget.config", "NuGet.Config"]),
    _runner("mix", ["mix.exs", "test_helper.exs", ".formatter.exs", "config/test.exs"], [r"(?:.*/)?test/.*\.exs"]),
    _runner("rebar3", ["rebar.config", "rebar.config.script"]),
    _runner("swift xctest xcodebuild", ["Package.swift", "*.xctestplan", "*.xcconfig", "Package@*.swift"]),
    _runner("stack cabal", ["stack.yaml", "*.cabal", "cabal.project*", "package.yaml", "Setup.hs", "hie.yaml"]),
    _runner("dart flutter", ["pubspec.yaml", "dart_test.yaml", "analysis_options.yaml", "flutter_test_config.dart"]),
    _runner("busted luatest", [".busted", ".luacov"]),
    _runner("zig", ["build.zig", "build.zig.zon"]),
    _runner("julia", ["Project.toml", "Manifest.toml", "test/runtests.jl"]),
    _runner("Rscript testthat", [".Rprofile", ".Renviron", "tests/testthat.R", "setup-*.R", "helper-*.R"]),
    _runner("dune", ["dune", "dune-project", "dune-workspace", "*.opam"]),
    _runner("nimble nim", ["*.nimble", "nim.cfg", "config.nims"]),
    _runner("crystal shards", ["shard.yml", "spec_helper.cr"]),
    _runner("forge hardhat truffle", ["foundry.toml", "hardhat.config.*", "truffle-config.js", "remappings.txt"]),
)  # fmt: skip
"""Every runner that is known."""

BUILDS = frozenset({
    "ant", "autoreconf", "bazel", "bun", "cargo", "ctest", "dart", "dotnet", "dune", "forge", "go", "gradle", "karma",
    "lein", "meson", "mill", "mix", "mvn", "nimble", "rake", "rebar3", "sbt", "stack", "swift", "tap", "zig",
})  # fmt: skip
"""Those that build and run programs, too."""

_BY_PROGRAM = {program: runner for runner in RUNNERS for program in runner.programs}
_SUFFIXES = re.compile(r"\.(?:js|cjs|mjs|phar|bat|cmd|sh|py|exe|php)")


def runner_of(word: str) -> Runner | None:
    """The runner that a word of a command starts, whatever the path and version: ``vendor/bin/phpunit``, ``go1.22``."""
    name = PurePosixPath(word.partition("@")[0]).name
    for each in (name, _SUFFIXES.sub("", name), re.sub(r"[-.]?[0-9][0-9.]*$", "", name)):
        if each in _BY_PROGRAM:
            return _BY_PROGRAM[each]
    return None


def runners_in(words: Iterable[str]) -> frozenset[Runner]:
    """The runners that some words of commands start."""
    return frozenset(runner for word in words if (runner := runner_of(word)) is not None)


@dataclass(frozen=True)
class Runners:
    """What the runners of one task's command make the task's own."""

    found: frozenset[Runner] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """What they are called; empty where none is known."""
        return frozenset(each.name for each in self.found)

    @property
    def manifests(self) -> frozenset[str]:
        """Names of files of which a part is the task's."""
        return frozenset(name for each in self.found for name in each.manifests)

    def decide_by(self, path: str) -> bool:
        """Whether a file says which tests run, or how."""
        return self._decides.fullmatch(f"/{path}") is not None

    def take_for_test(self, path: str) -> bool:
        """Whether a file is a test and nothing else."""
        return self._tests.fullmatch(path) is not None

    @cached_property
    def _decides(self) -> re.Pattern[str]:
        patterns = sorted({pattern for each in self.found for pattern in each.decides})
        return re.compile("|".join(_anywhere(pattern) for pattern in patterns) or r"(?!)")

    @cached_property
    def _tests(self) -> re.Pattern[str]:
        return re.compile("|".join(sorted({pattern for each in self.found for pattern in each.tests})) or r"(?!)")


def _anywhere(pattern: str) -> str:
    """An expression for a path that begins with ``/``."""
    return translate(pattern if pattern.startswith("/") else f"*/{pattern}")
