"""What configures a runner of any language is the task's own where the command, or what it leads to, runs it."""

import json
import tomllib
from pathlib import Path

import pytest
from owned import owner

from lego_rl.sandbox.ownership.known.runners import RUNNERS, runner_of
from lego_rl.sandbox.ownership.merge.manifests import MANIFESTS, ManifestError, merged
from lego_rl.sandbox.verdict import Change, Patch


@pytest.mark.parametrize(
    ("command", "own"),
    [
        ("npx jest --ci", "jest.config.ts babel.config.js packages/a/jest.config.js .npmrc __mocks__/fs.js a.test.ts"),
        ("npx vitest run", "vitest.config.ts vite.config.mts vitest.workspace.ts src/__tests__/a.ts tsconfig.json"),
        ("./node_modules/mocha/bin/mocha.js", ".mocharc.cjs test/setup.js src/a.spec.js .babelrc"),
        ("yarn run karma start", "karma.conf.js webpack.config.js"),
        ("bundle exec rspec spec/a_spec.rb", ".rspec spec/spec_helper.rb spec/a_spec.rb Rakefile spec/support/x.rb"),
        ("bundle exec rake test", "Rakefile test/test_helper.rb rakelib/a.rake Gemfile test/models/a_test.rb"),
        ("vendor/bin/phpunit", "phpunit.xml phpunit.xml.dist tests/bootstrap.php vendor/autoload.php tests/ATest.php"),
        ("./vendor/bin/pest --ci", "phpunit.xml tests/Pest.php"),
        ("cargo test --no-fail-fast", ".cargo/config.toml build.rs tests/ui.rs crates/a/build.rs rust-toolchain"),
        ("go test -v ./...", "pkg/new_test.go go.work vendor/modules.txt"),
        ("./gradlew test", "build.gradle app/build.gradle.kts settings.gradle gradlew src/test/java/ATest.java"),
        ("./mvnw test", "pom.xml core/pom.xml .mvn/jvm.config mvnw core/src/test/java/ATest.java"),
        ("sbt test", "build.sbt project/plugins.sbt src/test/scala/A.scala"),
        ("cd build && ctest", "CMakeLists.txt cmake/x.cmake lib/CMakeLists.txt CTestTestfile.cmake"),
        ("cmake --build . --target test", "CMakeLists.txt"),
        ("prove -v t/add.t", ".proverc t/add.t t/lib/x.pm"),
        ("bazel test //...", "BUILD lib/BUILD.bazel .bazelrc rules/x.bzl MODULE.bazel"),
        ("mix test", "mix.exs test/test_helper.exs test/a_test.exs"),
        ("dotnet test", "A.sln src/A.csproj Directory.Build.props"),
        ("sh ci/run", "jest.config.js"),
        ("make test", "jest.config.js"),
        ("python ci/go.py", "jest.config.js"),
    ],
)
def test_its_files_are_the_tasks(tmp_path: Path, command: str, own: str) -> None:
    files = {
        "ci/run": "set -e\nexec npx jest\n", "Makefile": "test:\n\t@npx jest\nbuild:\n\tcargo build\n",
        "ci/go.py": "import subprocess\nsubprocess.run(['npx', 'jest'])\n",
    }  # fmt: skip
    tree = owner(tmp_path, files, command=command)
    assert [path for path in own.split() if tree.owns(Change(path, "file", b"x")) is None] == []


@pytest.mark.parametrize(
    ("command", "free"),
    [
        ("npx jest", "src/index.ts index.js lib/test/run.js src/spec/a.js docs/jest.md README.md Makefile Cargo.toml"),
        ("bundle exec rspec", "lib/a.rb lib/a/spec/b.rb app/test/c.rb exe/a"),
        ("vendor/bin/phpunit", "src/A.php src/Testing/B.php lib/tests/c.php"),
        ("cargo test", "src/lib.rs src/tests/a.rs src/a/tests.rs tests/common/mod.rs.md Cargo.lock"),
        ("go test ./...", "main.go pkg/testing.go pkg/test/a.go main_test.go.txt"),
        ("./gradlew test", "src/main/java/gradle/A.java gradle.md src/main/resources/a.xml"),
        ("sbt test", "src/main/scala/project/A.scala"),
        ("ctest", "src/a.c include/a.h"),
        ("prove t", "lib/A.pm lib/x/t.pm"),
        ("bazel test //...", "build/a.c src/a.cc"),
        ("python -m pytest tests", "jest.config.js Cargo.toml build.rs go.mod pom.xml src/test/a.java x_test.go"),
    ],
)
def test_the_rest_is_the_agents(tmp_path: Path, command: str, free: str) -> None:
    tree = owner(tmp_path, command=command)
    assert [path for path in free.split() if tree.owns(Change(path, "file", b"x")) is not None] == []


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("npx jest@29 --ci", {"jest"}),
        ("go1.22 test ./... && cargo nextest run", {"go", "cargo"}),
        ("bash -c 'cd x && vendor/bin/phpunit.phar'", {"phpunit"}),
        ("python3 -m pytest -q", {"pytest"}),
        ("./run_all.sh && make check", set()),
        ("", set()),
    ],
)
def test_which_runners_a_command_names(tmp_path: Path, command: str, names: set[str]) -> None:
    assert owner(tmp_path, command=command).run.runners.names == names


def test_what_a_script_runs_is_known_with_the_tree(tmp_path: Path) -> None:
    package = json.dumps({"scripts": {"test": "vitest run"}})
    assert owner(tmp_path, {"package.json": package}, command="npm test").run.runners.names == {"vitest"}
    assert owner(tmp_path / "x", {"run": "exec ./suite\n"}, command="sh run").run.runners.names == frozenset()


def test_no_program_starts_two_runners() -> None:
    programs = [program for runner in RUNNERS for program in runner.programs]
    assert sorted(programs) == sorted(set(programs))
    assert all(runner_of(program) is runner for runner in RUNNERS for program in runner.programs)
    assert all(name in MANIFESTS for runner in RUNNERS for name in runner.manifests)


PACKAGE = {"name": "calc", "version": "1.0.0", "scripts": {"test": "jest"}, "jest": {"preset": "x"}}


def test_of_a_package_json_what_is_the_products_is_applied(tmp_path: Path) -> None:
    tree = owner(tmp_path, {"package.json": json.dumps(PACKAGE)}, command="npx jest")
    changed = {
        "name": "chai",
        "version": "1.1.0",
        "scripts": {"test": "true"},
        "exports": {".": "./a.js"},
        "imports": 1,
    }
    split = tree.split(Patch((Change("package.json", "file", json.dumps(changed).encode()),)))
    (applied,) = split.applied
    assert json.loads(applied.content) == {**PACKAGE, "version": "1.1.0", "exports": {".": "./a.js"}}
    assert "package.json" in split.rolled_back
    honest = Change("package.json", "file", json.dumps({**PACKAGE, "main": "b.js"}, indent=1).encode())
    assert tree.split(Patch((honest,))).applied == (honest,)


CARGO = '[package]\nname = "a"\nversion = "1.0.0"\n[dependencies]\nx = "1"\n[dev-dependencies]\ny = "1"\n'


def test_of_a_cargo_toml_dependencies_and_features_are_the_agents() -> None:
    changed = CARGO.replace('x = "1"', 'x = "2"') + '[features]\nfast = []\n[[test]]\nname = "t"\nharness = false\n'
    text = merged("Cargo.toml", CARGO, changed.replace('y = "1"', 'y = {path = "evil"}'))
    assert text is not None
    document = tomllib.loads(text)
    assert document["dependencies"] == {"x": "2"}
    assert document["features"] == {"fast": []}
    assert document["dev-dependencies"] == {"y": "1"}
    assert "test" not in document
    assert merged("Cargo.toml", CARGO, CARGO.replace("1.0.0", "1.0.1")) is None


GO = "module a/b\n\ngo 1.22\n\nrequire (\n\tx/y v1.0.0 // indirect\n)\nreplace x/z => x/z v1.2.0\n"


def test_of_a_go_mod_what_is_required_is_the_agents() -> None:
    assert merged("go.mod", GO, GO.replace("v1.0.0", "v1.1.0")) is None
    text = merged("go.mod", GO, GO.replace("v1.0.0", "v1.1.0") + "replace (\n x/y => ./evil\n)\n")
    assert text == "module a/b\nreplace x/z => x/z v1.2.0\ngo 1.22\nrequire x/y v1.1.0\n"
    assert merged("go.mod", "", "module x\nreplace a => ./b\ngo 1.22\n") == "go 1.22\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("package.json", '{"scripts": {}, "scripts": {"test": "true"}}'),
        ("package.json", "[1]"),
        ("package.json", "{"),
        ("package.json", "[" * 100_000),
        ("Cargo.toml", "a ="),
        ("go.mod", "replace (\n"),
        ("go.mod", "replace(a => b)\n"),
        ("go.mod", "module `a`\n"),
        ("composer.json", "1"),
    ],
)
def test_what_cannot_be_read_is_an_error(name: str, text: str) -> None:
    with pytest.raises(ManifestError):
        merged(name, "", text)


CONFIGURED = {
    "jest.config.js": "module.exports = {setupFiles: ['<rootDir>/dev/setup'], reporters: ['./dev/reporter.js'],"
    " moduleNameMapper: {'^a$': '<rootDir>/src/index.js'}, testEnvironment: './dev/environment'}\n",
    "dev/setup.ts": "import './shim.js'\nimport '../src/index.js'\n", "dev/shim.js": "", "dev/reporter.js": "",
    "dev/environment.cjs": "", "dev/other-setup.js": "", "src/index.js": "", "src/report.js": "",
    "package.json": json.dumps({"main": "src/report.js", "scripts": {"test": "node dev/run-tests.mjs && jest"}}),
    "dev/run-tests.mjs": "", "node_modules/x/jest.config.js": "'../../src/environment.js'", "src/environment.js": "",
}  # fmt: skip


def test_what_a_configuration_names_of_tests_is_the_tasks(tmp_path: Path) -> None:
    own = owner(tmp_path, CONFIGURED, command="npm test")
    kept = {path for path in CONFIGURED if own.owns(Change(path, "file", b"x")) is not None}
    assert {path for path in kept if not path.startswith("node_modules")} == {
        "jest.config.js", "dev/setup.ts", "dev/shim.js", "dev/reporter.js", "dev/environment.cjs", "dev/run-tests.mjs",
    }  # fmt: skip


OWN = {
    "bin/test": "#!/usr/bin/env python\nimport calc\ncalc.test()\n", "calc/__init__.py": "from .testing import test\n",
    "calc/testing/__init__.py": "from .runtests import test\n", "calc/testing/runtests.py": "def test(): pass\n",
    "calc/utilities/runtests.py": "", "calc/core.py": "", "calc/runner.py": "", "tests/test_a.py": "import calc\n",
}  # fmt: skip


def test_a_runner_that_the_product_has_of_its_own_is_the_tasks_where_a_program_runs_it(tmp_path: Path) -> None:
    hidden = {"tests/test_a.py": "import calc\n"}
    own = owner(tmp_path, OWN, command="bin/test -C --verbose tests", hidden=hidden)
    kept = {path for path in OWN if own.owns(Change(path, "file")) is not None}
    assert kept >= {"bin/test", "calc/testing/runtests.py", "calc/utilities/runtests.py"}
    assert kept.isdisjoint({"calc/__init__.py", "calc/core.py", "calc/runner.py"})
    left = owner(tmp_path / "x", OWN, command="python -m pytest tests")
    assert left.owns(Change("calc/testing/runtests.py", "file")) is None
