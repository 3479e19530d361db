"""The layout: imports go one way, the package is light to import, public names resolve, memory is not wasted."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import softmargin

PACKAGE = Path(softmargin.__file__).parent

# Every module may import those above it only. A package's __init__ comes after its modules.
ORDER = [
    "threads",
    "rows",
    "products",
    "losses",
    "validate",
    "kernels",
    "store",
    "gram",
    "water",
    "problem",
    "kernel_problem",
    "prediction",
    "certificate",
    "kernel_certificate",
    "history",
    "progress",
    "archive",
    "checkpoint",
    "solvers.support",
    "solvers.linear.*",
    "solvers.kernel.*",
    "solvers",
    "driver",
    "estimators.*",
    "estimators",
    "liblinear",
    "_svmlight_kernel",
    "svmlight",
    "libsvm",
    "persist",
    "datasets",
    "cli.*",
    "cli",
    "__main__",
]
MODULES = sorted(PACKAGE.rglob("*.py"))


def name(path):
    """The module of a file, without the package's name."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def level(module):
    """Its place in ORDER."""
    if module in ORDER:
        return ORDER.index(module)
    for k, entry in enumerate(ORDER):
        if entry.endswith(".*") and module.startswith(entry[:-1]):
            return k
    raise AssertionError(f"{module} has no place in ORDER: give it one")


def imported(path):
    """The modules of the package that a file imports, whether at its top or in a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where they go"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [
                n if (PACKAGE.parent / n.replace(".", "/")).with_suffix(".py").exists() else node.module for n in names
            ]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {n.removeprefix("softmargin").lstrip(".") for n in names if n.split(".")[0] == "softmargin"}
    return found


@pytest.mark.parametrize("path", [p for p in MODULES if name(p)], ids=name)
def test_imports_go_up_the_layout(path):
    module = name(path)
    for other in imported(path) - {""}:
        inside = level(other) == level(module) and "." in module  # one solver may use another: see below for circles
        assert level(other) < level(module) or inside, f"{module} imports {other}, which comes after it"


def test_the_layout_names_what_there_is():
    found = {name(path) for path in MODULES}
    assert {entry for entry in ORDER if not entry.endswith(".*")} <= found
    assert all(any(module.startswith(entry[:-1]) for module in found) for entry in ORDER if entry.endswith(".*"))


def test_no_circles():
    graph = {name(path): imported(path) - {""} for path in MODULES}
    done, under_way = set(), []

    def visit(module):
        assert module not in under_way, f"circle: {under_way[under_way.index(module) :]}"
        if module not in done:
            under_way.append(module)
            for other in graph.get(module, ()):
                visit(other)
            under_way.pop()
            done.add(module)

    for module in graph:
        visit(module)


def test_only_rows_knows_sparse_from_dense():
    for path in MODULES:
        module = name(path)
        if module.startswith("solvers") or module in ("certificate", "problem", "driver", "losses"):
            text = path.read_text()
            for word in ("scipy.sparse", "issparse", "indptr"):
                assert word not in text, module


def test_solvers_and_certificates_do_not_know_each_other():
    text = (PACKAGE / "certificate.py").read_text()
    assert "solvers" not in text
    for path in (PACKAGE / "solvers").rglob("*.py"):
        assert "certificate" not in imported(path), path


def test_solvers_know_no_clock_and_print_nothing():
    for path in (PACKAGE / "solvers").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
                assert not names & {"time", "warnings", "logging", "sys"}, path
            assert not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"), path


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True).stdout


def test_importing_is_light():
    loaded = run("import sys, softmargin; print(*sys.modules)").split()
    for heavy in ("numba", "scipy", "sklearn", "numpy", "rich", "pandas"):
        assert heavy not in loaded
    loaded = run(
        "import sys; from softmargin import LinearSVC; LinearSVC(C=2.0).get_params(); print(*sys.modules)"
    ).split()
    assert "numba" not in loaded, "compilers are for training"


def test_public_names_resolve():
    for public in softmargin.__all__:
        assert getattr(softmargin, public) is not None
    assert set(softmargin.__all__) <= set(dir(softmargin))
    assert len(set(softmargin.__all__)) == len(softmargin.__all__)
    with pytest.raises(AttributeError, match="SVNC"):
        softmargin.SVNC  # noqa: B018


def test_names_for_type_checkers_are_the_same():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {alias.asname: node.module for node in block.body for alias in node.names}
    assert typed == {public: f"softmargin.{home}" for public, home in softmargin._HOME.items()}


def test_public_names_mean_the_same_in_every_order():
    """`solve` is a function, also when its module was loaded first."""
    code = (
        "from softmargin import LinearSVC, Stop; LinearSVC().fit([[0.0], [1.0]], [0, 1])\n"
        "from softmargin import solve\nprint(callable(solve))"
    )
    assert run(code).strip() == "True"
    for public, home in softmargin._HOME.items():
        assert public != home.split(".")[0], (
            f"{public} is a module and a name: which one is found depends on the order of imports"
        )


MEMORY = """
import resource, warnings
import numpy as np, scipy.sparse as sp
from softmargin import LinearSVC

def data(n, k=50, width=20):
    if {dense}:
        return np.random.default_rng(0).random((n, 2 * k), dtype=np.float32), np.arange(n) % {classes}
    rng = np.random.default_rng(0)
    indices = rng.integers(0, width, (n, k), dtype=np.int32)
    indices += np.arange(k, dtype=np.int32) * width
    values = rng.random(n * k, dtype=np.float32)
    indptr = np.arange(0, n * k + 1, k, dtype=np.int32)
    return sp.csr_array((values, indices.reshape(-1), indptr), shape=(n, k * width)), np.arange(n) % {classes}

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

warnings.simplefilter("ignore")
for solver in ("dual_descent", "newton"):
    LinearSVC(solver=solver, max_iter=2).fit(*data(3000))  # compiles
X, y = data(500_000)
size = X.nbytes if {dense} else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
before = peak()
LinearSVC(C=1e-6, solver={solver!r}, max_iter=1).fit(X, y).predict(X[:10])
print(size, (peak() - before) / size)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is measured in other units elsewhere")
@pytest.mark.parametrize(
    ("solver", "dense", "classes"),
    [("dual_descent", 0, 2), ("newton", 0, 2), ("dual_descent", 1, 2), ("newton", 1, 2), ("dual_descent", 0, 4)],
)
def test_data_are_not_copied(solver, dense, classes):
    """200 MB of float32 entries: a fit needs some vectors of the length of y more, and no second matrix."""
    size, extra = run(MEMORY.format(solver=solver, dense=dense, classes=classes)).split()
    assert int(size) > 190e6
    assert float(extra) < 0.5
