"""`from fedpriv import …`: the names are complete, documented, true to their examples, and lazy."""

import doctest
import subprocess
import sys

import pytest

import fedpriv


@pytest.mark.parametrize("name", fedpriv.__all__)
def test_every_name_has_an_example_that_is_true(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # examples write into folders
    thing = getattr(fedpriv, name)
    finder = doctest.DocTestFinder(recurse=False)
    found = [test for test in finder.find(thing, name, globs={}) if test.examples]
    assert found, f"fedpriv.{name} has no example in its docstring"
    assert "Args:" in thing.__doc__
    runner = doctest.DocTestRunner()
    for test in found:
        printed: list[str] = []
        runner.run(test, out=printed.append)
        assert not runner.failures, "".join(printed)


def test_dir_names_everything():
    assert set(fedpriv.__all__) <= set(dir(fedpriv))
    assert fedpriv.__all__ == sorted(fedpriv.__all__)


def test_what_editors_see_is_what_is_imported():
    assert set(fedpriv._HOME) == set(fedpriv.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'runn'"):
        _ = fedpriv.runn


def test_importing_fedpriv_imports_neither_torch_nor_flower():
    code = "import sys, fedpriv; print({'torch', 'flwr', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
