"""Import rules that import-linter cannot say; the layers of the house are in pyproject.toml."""

from __future__ import annotations

from source_tree import begins_with, imported_names, modules, python_files

from cohabit import kept_code


def test_only_compiled_imports_numba() -> None:
    found = [
        f"{module.at(node)} imports {name}; use `from cohabit.compiled import compiled`"
        for module in modules()
        for node, name in imported_names(module)
        if begins_with(name, "numba", "llvmlite")
        and module.path not in ("src/cohabit/compiled_numba.py", "src/cohabit/kept_code.py")
    ]
    assert not found


def test_the_folder_of_machine_code_is_named_after_all_that_a_kernel_imports() -> None:
    """A file that is not counted in would go on as it was after an edit."""
    driver = kept_code.PACKAGE / "sim" / "trace_driver.py"
    seen, waiting = set(), [driver]
    while waiting:
        if (file := waiting.pop()) not in seen:
            seen.add(file)
            waiting += kept_code._imported_by(file)
    found = {file.relative_to(kept_code.PACKAGE).as_posix() for file in seen}
    kernels = {path.name for path in (kept_code.PACKAGE / "core" / "kernels").glob("*.py")} - {"__init__.py"}
    assert {f"core/kernels/{name}" for name in kernels} | {"core/columns.py", "model/units.py"} <= found
    ladder = kept_code.PACKAGE / "core" / "kernels" / "ladder.py"
    assert kept_code.digest_of(ladder) != kept_code.digest_of(driver)


def test_nothing_imports_pickle() -> None:
    banned = ("pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve")
    found = [
        f"{module.at(node)} imports {name}: loading such a file runs whatever it contains; use msgspec or Parquet"
        for module in python_files("src", "tests", "benchmarks", "scripts")
        if any(name in module.text for name in banned)
        for node, name in imported_names(module)
        if begins_with(name, *banned)
    ]
    assert not found


def test_tables_are_polars() -> None:
    found = [
        f"{module.at(node)} imports {name}; tables are polars (docs/adr/0008)"
        for module in modules()
        for node, name in imported_names(module)
        if begins_with(name, "pandas", "pyarrow")
    ]
    assert not found


def test_agents_know_only_the_model() -> None:
    found = [
        f"{module.at(node)} imports {name}"
        for module in modules()
        for node, name in imported_names(module)
        if module.room == "agent"
        and begins_with(name, "cohabit")
        and not begins_with(name, "cohabit.model", "cohabit.agent")
    ]
    assert not found


def test_fakes_stay_out_of_the_product() -> None:
    found = [
        f"{module.at(node)} imports {name}"
        for module in modules()
        for node, name in imported_names(module)
        if begins_with(name, "tests")
    ]
    assert not found


def test_exercises_stand_alone() -> None:
    found = [
        f"{module.at(node)} imports {name}"
        for module in modules()
        for node, name in imported_names(module)
        if module.room == "exercise"
        and begins_with(name, "cohabit")
        and not begins_with(name, "cohabit.compiled", "cohabit.exercise")
    ]
    assert not found
