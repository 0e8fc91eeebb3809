"""How the tests are run: in how many processes, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import conftest
import needs
import plans
import pytest
import thinned


def a_config(*arguments: str, **options: Any) -> Any:
    chosen = {"keyword": "", "capture": "fd", "collectonly": False, **options}
    return SimpleNamespace(args=list(arguments), option=SimpleNamespace(**chosen))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set the cores and the memory that the machine seems to have."""

    def has(cores: int, gib: int) -> None:
        monkeypatch.setattr(conftest.os, "sched_getaffinity", lambda pid: set(range(cores)))
        monkeypatch.setattr(conftest.os, "sysconf", {"SC_PHYS_PAGES": gib << 18, "SC_PAGE_SIZE": 4096}.get)

    return has


def test_all_cores_run_tests_where_memory_suffices(machine: Any) -> None:
    count = conftest.pytest_xdist_auto_num_workers
    machine(cores=2, gib=16)
    assert count(a_config("tests")) == count(a_config("tests/test_one.py", "tests/test_two.py")) == 2
    machine(cores=8, gib=256)
    assert count(a_config("tests")) == 8
    machine(cores=8, gib=16)
    assert 1 < count(a_config("tests")) < 8
    machine(cores=1024, gib=1 << 20)
    assert count(a_config("tests")) < 100


def test_one_core_or_little_memory_runs_the_tests_in_one_process(machine: Any) -> None:
    for cores, gib in ((1, 64), (64, 1), (2, 4)):
        machine(cores, gib)
        assert conftest.pytest_xdist_auto_num_workers(a_config("tests")) == 0


def test_chosen_tests_and_those_whose_output_is_to_be_seen_run_in_one_process(machine: Any) -> None:
    machine(cores=8, gib=256)
    for config in (
        a_config("tests/test_one.py::test_this"),
        a_config("tests", keyword="this or that"),
        a_config("tests", capture="no"),
        a_config("tests", collectonly=True),
    ):
        assert conftest.pytest_xdist_auto_num_workers(config) == 0


@pytest.mark.parametrize("argument", ["tests/nosuch.py", "nosuch", "nosuch.py::test_x[1::2]"])
def test_a_path_that_does_not_exist_is_refused_before_processes_are_started(
    argument: str, tmp_path: Path
) -> None:
    (tmp_path / "tests").mkdir()
    config = a_config("tests", "tests::x", argument, pyargs=False)
    config.invocation_params = SimpleNamespace(dir=tmp_path)
    with pytest.raises(pytest.UsageError) as refused:
        conftest.pytest_configure(config)
    assert str(refused.value) == f"file or directory not found: {argument}"
    (tmp_path / argument.partition("::")[0]).touch()
    conftest.pytest_configure(config)
    config.args.append("a.module")
    config.option.pyargs = True
    conftest.pytest_configure(config)


def collect(config: Any, items: list[Any], others: Callable[[], None] = lambda: None) -> None:
    """Call the hook, and the other plugins' hooks where it does."""
    hook = conftest.pytest_collection_modifyitems(config, items)
    next(hook)
    others()
    with pytest.raises(StopIteration):
        next(hook)


def test_tests_of_one_element_type_come_one_after_another(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VKDML_TEST_EVERY_CASE", "1")

    def item(file: str, number: int, **parameters: Any) -> Any:
        path = Path(file)
        made = SimpleNamespace(path=path, number=number, callspec=SimpleNamespace(params=parameters))
        if not parameters:
            del made.callspec
        return made

    items = [
        item("test_argreduce_axes.py", 0, name="int8"),
        item("test_argreduce_axes.py", 1, name="float32"),
        item("test_argreduce_axes.py", 2),
        item("test_argreduce_types.py", 3, name="int8", op="argmin"),
        item("test_array.py", 4, name="float32"),
        item("test_argreduce_types.py", 5, name="float32", op="argmin"),
        item("test_argreduce_types.py", 6, name="no element"),
        item("test_places.py", 7),
    ]
    collect(request.config, items)
    assert [made.number for made in items] == [1, 5, 0, 3, 7, 2, 4, 6]


@pytest.mark.parametrize("driver", ["", "lavapipe", "swiftshader", "swiftshader-older"])
@pytest.mark.parametrize("every_case", ["", "1"])
def test_a_few_of_those_that_differ_in_parameters_alone_run(
    monkeypatch: pytest.MonkeyPatch, driver: str, every_case: str
) -> None:
    monkeypatch.setenv("DRIVER", driver)
    monkeypatch.setenv("VKDML_TEST_EVERY_CASE", every_case)
    left_out: list[Any] = []
    hook = SimpleNamespace(pytest_deselected=lambda items: left_out.extend(items))

    def item(number: int, marks: set[str], **parameters: object) -> Any:
        return SimpleNamespace(
            path=Path("test_kernels.py"),
            originalname="test",
            number=number,
            callspec=SimpleNamespace(params=parameters),
            get_closest_marker=lambda name: SimpleNamespace(kwargs={}) if name in marks else None,
        )

    marked = [item(3 * a + b, {"in_turn"}, a=10 * a, b=20 * b) for a in range(3) for b in range(3)]
    others = [item(9, set(), a=1), item(10, {"any_driver"}, a=2)]
    items = [*marked, *others]
    config: Any = SimpleNamespace(hook=hook)
    collect(config, items)
    numbers = [made.number for made in items]
    if not every_case:
        *some, ninth, tenth = numbers
        assert (ninth, tenth) == (9, 10)
        assert sorted(n // 3 for n in some) == [0, 1, 2], "each value is there once"
        assert sorted(n % 3 for n in some) == [0, 1, 2]
        assert sorted([*numbers, *(made.number for made in left_out)]) == list(range(11))
    else:
        assert (numbers, left_out) == (list(range(11)), [])


def marked_in_turn(file: str, options: dict[str, object], **parameters: object) -> Any:
    """Return a test of these parameters with the mark ``in_turn(**options)``."""
    return SimpleNamespace(
        path=Path(file),
        originalname="test",
        callspec=SimpleNamespace(params=parameters),
        get_closest_marker=lambda _: SimpleNamespace(kwargs=options),
    )


@pytest.mark.parametrize(
    ("driver", "files", "every_element", "count"),
    [
        ("lavapipe", ("one", "another"), False, 4),
        ("lavapipe", ("one", "another"), True, 7),
        ("swiftshader", ("one", "another"), False, 1),
        ("swiftshader", ("kernels", "kernels_another"), False, 2),
        ("swiftshader", ("readme", "chunked"), False, 2),
        ("swiftshader", ("one", "kernels"), True, 7),
    ],
)
def test_of_elements_alike_one_is_taken(
    monkeypatch: pytest.MonkeyPatch, driver: str, files: tuple[str, str], every_element: bool, count: int
) -> None:
    """On SwiftShader of all, of kernels a narrow and a wide one; elsewhere of those as wide as each other."""
    monkeypatch.delenv("VKDML_TEST_EVERY_CASE", raising=False)
    monkeypatch.setenv("DRIVER", driver)
    names = ("int8", "uint8", "float16", "bfloat16", "float32", "bool", "int64")
    items = [
        marked_in_turn(f"test_{file}.py", {"every_element": every_element}, name=name)
        for file in files
        for name in names
    ]
    assert len(items) - len(conftest.out_of_turn(items)) == 2 * count


@pytest.mark.parametrize("driver", ["lavapipe", "swiftshader"])
def test_of_elements_alike_each_is_taken_in_some_tests(monkeypatch: pytest.MonkeyPatch, driver: str) -> None:
    monkeypatch.delenv("VKDML_TEST_EVERY_CASE", raising=False)
    monkeypatch.setenv("DRIVER", driver)
    names = ("int8", "bool", "uint8")
    items = [marked_in_turn(f"test_{file}.py", {}, name=name) for file in range(40) for name in names]
    left_out = conftest.out_of_turn(items)
    taken = Counter(item.callspec.params["name"] for item in items if item not in left_out)
    assert set(taken) == set(names)
    assert taken.total() == 40


@pytest.mark.parametrize(
    ("driver", "any_of", "count"),
    [
        ("swiftshader", (), 3), ("swiftshader", ("name",), 2), ("swiftshader", ("name", "step"), 1),
        ("lavapipe", ("name", "step"), 3),
    ],
)  # fmt: skip
def test_of_some_parameters_any_value_will_do_on_swiftshader(
    monkeypatch: pytest.MonkeyPatch, driver: str, any_of: tuple[str, ...], count: int
) -> None:
    monkeypatch.delenv("VKDML_TEST_EVERY_CASE", raising=False)
    monkeypatch.setenv("DRIVER", driver)
    items = [
        marked_in_turn("test_kernels.py", {"any_of": any_of, "every_element": True}, name=name, step=step)
        for name in ("int8", "float32", "int64")
        for step in (1, 2)
    ]
    assert len(items) - len(conftest.out_of_turn(items)) == count


def test_those_that_run_are_taken_from_what_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-k` leaves one test, which then runs whatever its parameters."""
    monkeypatch.setenv("DRIVER", "swiftshader")
    for chosen in range(4):
        items = [marked_in_turn("test_kernels.py", {"any_of": ("step",)}, step=step) for step in range(4)]
        config: Any = SimpleNamespace(hook=SimpleNamespace(pytest_deselected=lambda items: None))
        only = items[chosen]
        collect(config, items, lambda items=items, only=only: items.__setitem__(slice(None), [only]))  # type: ignore[misc]
        assert items == [only]


@pytest.mark.parametrize(
    ("driver", "every_case", "count"),
    [("system", "", 2), ("lavapipe", "", 1), ("swiftshader", "", 1), ("swiftshader", "1", 9)],
)
def test_a_test_builds_a_few_pipelines_of_each_kernel(
    monkeypatch: pytest.MonkeyPatch, driver: str, every_case: str, count: int
) -> None:
    monkeypatch.setenv("DRIVER", driver)
    monkeypatch.setenv("VKDML_TEST_EVERY_CASE", every_case)

    def plan(*pipelines: tuple[str, int]) -> Any:
        return SimpleNamespace(steps=[SimpleNamespace(kernel=kernel, constants=c) for kernel, c in pipelines])

    for _ in range(2):
        assert [plans.may_build(plan(("rows", c))) for c in range(9)] == [c < count for c in range(9)]
    assert plans.may_build(plan(("columns", 0)))
    assert plans.may_build(plan(("columns", 0), ("rows", 8))) == (count == 9)
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "another")
    assert plans.may_build(plan(("rows", 8))), "each test has its own"


@pytest.mark.parametrize(
    ("driver", "memory", "count"),
    [("lavapipe", "", 60), ("swiftshader", "", 10), ("lavapipe", "discrete", 10)],
)
def test_fewer_examples_are_drawn_where_they_run_elsewhere(
    monkeypatch: pytest.MonkeyPatch, driver: str, memory: str, count: int
) -> None:
    monkeypatch.setenv("DRIVER", driver)
    monkeypatch.setenv("VKDML_TEST_MEMORY", memory)
    monkeypatch.delenv("VKDML_TEST_EVERY_CASE", raising=False)
    assert thinned.examples(60).max_examples == count
    monkeypatch.setenv("VKDML_TEST_EVERY_CASE", "1")
    assert thinned.examples(40).max_examples == 40


def test_only_files_that_exist_are_the_same_on_any_driver(request: pytest.FixtureRequest) -> None:
    files = {path.stem.removeprefix("test_") for path in request.path.parent.glob("test_*.py")}
    assert files >= conftest.ANY_DRIVER | conftest.MANY_KERNELS
    assert "any_driver" in request.keywords, "this file's tests are marked"
    assert not {"array", "argreduce_types", "kernels", "native_sequence", "slice1"} & conftest.ANY_DRIVER


@pytest.mark.parametrize(("value", "raised"), [("1", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_what_is_missing_fails_a_test_where_all_have_to_run(
    monkeypatch: pytest.MonkeyPatch, value: str, raised: type[BaseException]
) -> None:
    monkeypatch.setenv("VKDML_TEST_ALL", value)
    with pytest.raises(raised, match="a second driver"):
        needs.missing("a second driver")
