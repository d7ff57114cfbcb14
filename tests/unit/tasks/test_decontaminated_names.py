"""What is read of the names of repositories, instances and images, as public sets write them."""

import json
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.tasks.decontaminate.names import NOTHING, Name, id_readings, image_readings, read_id, read_image
from lego_rl.tasks.decontaminate.repositories import R2E_GYM, RENAMES, canonical


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("sympy/sympy", "sympy/sympy"),
        ("Sympy/SymPy", "sympy/sympy"),
        ("swesmith/sympy__sympy.2ab64612", "sympy/sympy"),
        ("SWE-Gym/sympy__sympy", "sympy/sympy"),
        ("sympy", "sympy/sympy"),
        ("orange3", "biolab/orange3"),
        ("coveragepy", "coveragepy/coveragepy"),
        ("nedbat/coveragepy", "coveragepy/coveragepy"),
        ("kennethreitz/requests", "psf/requests"),
        ("PyCQA/pylint", "pylint-dev/pylint"),
        ("https://github.com/psf/requests.git", "psf/requests"),
        ("git@github.com:psf/requests.git", "psf/requests"),
        ("https://github.com/psf/requests/pull/12", "psf/requests"),
        ("swesmith/kennethreitz__requests.0123abcd", "psf/requests"),
        ("nobody-knows-it", "?/nobody-knows-it"),
        ("?/nobody-knows-it", "?/nobody-knows-it"),
        ("sympy/sympy.git:main", "sympy/sympy"),
        ("https://github.com/sympy/sympy.git/pull/12", "sympy/sympy"),
        ("sympy/sympy?tab=readme", "sympy/sympy"),
        ("swesmith/sympy__sympy.2ab64612:main", "sympy/sympy"),
        ("none-1.0", None),
        ("?/none", None),
        ("?", None),
        ("sklearn", "scikit-learn/scikit-learn"),
        ("Django-5.0.1", "django/django"),
        ("https://example.org/team/tool/-/merge_requests/1", "team/tool"),
        ("unknown", None),
        ("(unset)", None),
        ("", None),
        ("  ", None),
    ],
)
def test_a_repository_has_one_name(written: str, name: str | None) -> None:
    assert canonical(written) == name


PIECES = ("?", "/", "sympy", "o", "n-1.0", "-2.0", ".git", ":", "@", "#", "__", "github.com", "https://", "pull", "1")


@given(st.text(max_size=40) | st.lists(st.sampled_from(PIECES), max_size=9).map("".join))
def test_a_canonical_name_is_its_own(written: str) -> None:
    name = canonical(written)
    if name is not None:
        assert canonical(name) == name


def test_the_tables_end_in_canonical_names() -> None:
    assert [rename for rename in RENAMES if canonical(rename.new) != rename.new] == []
    assert [rename for rename in RENAMES if not rename.source or rename.old == rename.new] == []
    assert [owner for owner in R2E_GYM.values() if canonical(owner) != owner] == []


@pytest.mark.parametrize(
    ("instance", "name"),
    [
        ("django__django-11099", Name("django/django", "django-django", 11099)),
        ("Django__Django-11099", Name("django/django", "django-django", 11099)),
        ("scikit-learn__scikit-learn-30152", Name("scikit-learn/scikit-learn", "scikit-learn-scikit-learn", 30152)),
        ("PyCQA__pylint-12", Name("pylint-dev/pylint", "pylint-dev-pylint", 12)),
        ("django_1776_django-11099", Name("django/django", "django-django", 11099)),
        ("django_s_django-11099", Name("django/django", "django-django", 11099)),
        ("django-django:11099", Name(None, "django-django", 11099)),
        ("django/django#11099", Name("django/django", "django-django", 11099)),
        ("swe-bench/django__django-11099", Name("django/django", "django-django", 11099)),
        ("https://github.com/django/django/pull/11099", Name("django/django", "django-django", 11099)),
        ("pandas-dev__pandas.95280573.pr_53652", Name("pandas-dev/pandas", "pandas-dev-pandas", 53652, "95280573")),
        (
            "sympy__sympy.2ab64612.func_basic__x8j2",
            Name("sympy/sympy", "sympy-sympy", None, "2ab64612"),
        ),
        ("unidata__netcdf-c-1925", Name("unidata/netcdf-c", "unidata-netcdf-c", 1925)),
        (f"instance_NodeBB__NodeBB-{'0' * 40}-vnan", Name("nodebb/nodebb", "nodebb-nodebb", None, "0" * 40)),
        ("arithmetic-train-001", NOTHING),
        ("", NOTHING),
    ],
)
def test_an_id_says_what_it_says(instance: str, name: Name) -> None:
    assert read_id(instance) == name


@pytest.mark.parametrize(
    ("image", "name"),
    [
        (
            "swebench/sweb.eval.x86_64.astropy_1776_astropy-12907:latest",
            Name("astropy/astropy", "astropy-astropy", 12907),
        ),
        ("xingyaoww/sweb.eval.x86_64.getmoto_s_moto-1234:latest", Name("getmoto/moto", "getmoto-moto", 1234)),
        ("sweb.eval.arm64.django__django-7:v1", Name("django/django", "django-django", 7)),
        ("jyangballin/swesmith.x86_64.sympy_1776_sympy.2ab64612", Name("sympy/sympy", "sympy-sympy", None, "2ab64612")),
        (
            "swesmith.x86_64.pandas-dev__pandas.95280573",
            Name("pandas-dev/pandas", "pandas-dev-pandas", None, "95280573"),
        ),
        ("docker.io/swerebenchv2/unidata-netcdf-c:1925-ad6bf35", Name(None, "unidata-netcdf-c", 1925, "ad6bf35")),
        ("namanjain12/orange3_final:0123abcdef", Name("biolab/orange3", "biolab-orange3", None, "0123abcdef")),
        ("localhost:5000/swebench/sweb.eval.x86_64.psf_1776_requests-1", Name("psf/requests", "psf-requests", 1)),
        ("swebench/sweb.eval.x86_64.psf_1776_requests-1@sha256:00", Name("psf/requests", "psf-requests", 1)),
        ("python:3.12", NOTHING),
        ("ubuntu:22.04", NOTHING),
        ("continuumio/miniconda3:25.3.1-1", NOTHING),
    ],
)
def test_an_image_says_what_it_says(image: str, name: Name) -> None:
    assert read_image(image) == name


@pytest.mark.parametrize(
    "instance",
    [
        "sympy__sympy-99999-1",
        "sympy__sympy-99999-0001",
        "sympy__sympy-99999.1",
        "sympy__sympy-99999:0",
        "sympy__sympy-99999__1",
        "sympy__sympy-99999-bug",
        "sympy__sympy-99999-pr-1",
        "sympy/sympy#99999-1",
        "sympy_1776_sympy-99999-1",
        "https://github.com/sympy/sympy/pull/99999/files",
    ],
)
def test_what_comes_after_a_number_does_not_hide_it(instance: str) -> None:
    assert ("sympy/sympy", 99999) in {(name.repository, name.number) for name in id_readings(instance)}
    image = "x/" + instance.rpartition("/")[2].replace(":", "-").replace("#", "-")
    if "__" in image:
        assert "sympy/sympy" in {name.repository for name in image_readings(image)}


@pytest.mark.parametrize(
    "image",
    [
        "ghcr.io/epoch-research/swe-bench.eval.x86_64.pallets__flask-5000:latest",
        "ghcr.io/timesler/swe-polybench.eval.x86_64.pallets__flask-5000:latest",
        "starryzhang/sweb.eval.win.pallets_1776_flask-5000",
        "registry:5000/a/openswe.eval.pallets__flask-5000",
        "a/swe.eval.aarch64.pallets_1776_flask-5000",
        "mswebench/pallets_m_flask:pr-5000",
        "a/swebench-verified:sweb.eval.x86_64.pallets__flask-5000",
        "a/sweb.eval.x86_64.pallets__flask-5000-2:latest",
    ],
)
def test_an_image_is_read_behind_any_prefix(image: str) -> None:
    assert ("pallets/flask", 5000) in {(name.repository, name.number) for name in image_readings(image)}


@pytest.mark.parametrize("image", ["a/sympy_final:latest", "a/sympy_final", "a/sympy_final:0123abcdef"])
def test_an_image_of_r2e_gym_is_read_with_any_tag(image: str) -> None:
    assert read_image(image).repository == "sympy/sympy"


def test_every_id_of_verified_is_read() -> None:
    text = (files("lego_rl.tasks.decontaminate") / "swe-bench-verified.json").read_text(encoding="utf-8")
    rows = json.loads(text)["instances"]
    assert len(rows) == 500
    assert [row for row in rows if read_id(row["instance_id"]).repository != canonical(row["repo"])] == []
    names = ("_1776_", "_s_", "__")
    images = [f"a/sweb.eval.x86_64.{row['instance_id'].replace('__', name)}:latest" for row in rows for name in names]
    assert [image for image in images if read_image(image).number is None] == []
