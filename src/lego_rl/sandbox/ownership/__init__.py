"""What of a change is the task's own: its tests, and whatever decides which of them run, and how.

`rules.Ownership` has the decision, for one task; `split` is what comes of it. Everything else knows one thing that
decides. A package here needs only those before it, and this is the order in which they are best read:

`texts`
    Reads what anybody wrote. `task_tree`: the task's files. `words`, `shell_words`, `python_syntax`, `python_imports`,
    `ini_texts`, `toml_keys`: one reader for each language.
`known`
    Names, as data: `deciding_files`, `runners`, `launchers`, `program_names`, `test_names`, `collected`,
    `expected_files`; what a test run imports anyway has `known_modules` with `asked_modules`.
`merge`
    Files in two parts. `configuration` with `installed_parts`: INI and TOML. `manifests`: those of other languages.
    `setup_py`: the one that is a program.
`run`
    What runs the tests. `declared_run` (`script_run` where a script grades) asks `reader`, which reads text after text
    (`command_words`, `shell_texts`, `makefile`, `python_words`, `python_in_shell`); `keeper` keeps of it in `found`
    what counts by `naming` and is not tested itself (`tested_code`). `testpaths`: where pytest looks by itself.
    `started`: which words are programs; `lacking`: those that an agent could put there; `imported`: whose modules
    count; `variables`: what assignments say. `launched`: programs and variables by name.
    `runner_files`: what the configuration of a runner names.
`modules`
    What would be imported. `module_path` with `packaging_folders`: from where. `tests_side`: what the tests import.
    `installed` with `installed_search`: what the image has. `shadowing` decides.
`own_tests`
    What lies around the tests. `folders_of_tests` with `packages_of_tests`, `shipped_helpers`, `tested_folders` and
    `helpers_beside`, which ask `local_imports`; `strays`: new tests elsewhere; `kept_folders`; `node_names`: what
    Node would take in place of a helper; `remade`: what `make` would make something of the task's own from;
    `reported_names`: tests that a report would mistake for the task's.

Beside them, `links` and `linked` have what the task's own links lead to, and `replacements` what goes together.

Invariant: only `merge` and `own_tests.strays` read what a change has in its files. Whatever that is, `Ownership.asked`
and `Ownership.split` raise nothing but an `OSError` of the host, and what they do grows no faster than the change.
"""
