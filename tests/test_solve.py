"""The driver: stopping, callbacks, watchers, Ctrl-C, checkpoints, and the schedule of certificates."""

import contextlib
import math
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from helpers import LINEAR, data, problem, solve
from sklearn.exceptions import ConvergenceWarning

import softmargin
from softmargin import DualDescent, Model, Newton, Stop
from softmargin.problem import Iterate

HERE = Path(__file__).parent
NEVER = 1e-300  # a gap that is not reached


def endless(n=300, loss="hinge", bias="free", seed=0):
    """A problem on which coordinate descent is busy for long."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 20)) * np.logspace(-2, 2, 20)
    y = rng.normal(size=n) if loss == "epsilon" else rng.choice([-1.0, 1.0], n)
    return problem(X, y, loss, bias, C=1e4)


def easy():
    X, y, _ = data("tall", "hinge")
    return problem(X, y, "hinge", "free")


class Watch:
    """A watcher that does something in its k-th step."""

    def __init__(self, k, action):
        self.k, self.action, self.steps = k, action, []

    def watch(self, iterate, certificate):
        self.steps.append((iterate.work.passes, certificate))
        return self.action() if len(self.steps) == self.k else None


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)  # the handler runs between two bytecodes


# ---- stopping ----


@pytest.mark.parametrize("solver", LINEAR)
def test_by_gap(solver):
    solution = solve(easy(), solver, Stop(gap=1e-5, passes=math.inf))
    assert solution.status.name == "CONVERGED"
    assert 0 <= solution.certificate.relative_gap <= 1e-5
    assert solution.history.time_to(1e-5) == solution.history[-1].seconds
    assert solution.history.time_to(0.0) == math.inf or solution.certificate.gap == 0.0


@pytest.mark.parametrize("solver", LINEAR)
def test_by_passes(solver):
    solution = solve(endless(), solver, Stop(gap=NEVER, passes=20))
    assert solution.status.name == "PASSES"
    assert 20 <= solution.certificate.work.passes <= 50
    assert len(solution.history) >= 1


def test_by_seconds():
    began = time.perf_counter()
    solution = solve(endless(), "dual_descent", Stop(gap=NEVER, passes=math.inf, seconds=0.2))
    assert solution.status.name == "SECONDS"
    assert 0.2 <= time.perf_counter() - began < 2.0
    assert np.isfinite(solution.certificate.primal)


def test_without_any_time_there_is_still_a_model():
    solution = solve(endless(), stop=Stop(seconds=0.0))
    assert solution.status.name == "SECONDS"
    assert np.isfinite(solution.model.w).all()


@pytest.mark.parametrize("solver", LINEAR)
def test_a_gap_of_zero_means_as_far_as_the_passes_go(solver):
    assert solve(easy(), solver, Stop(gap=0.0, passes=30)).certificate.relative_gap < 1e-2


def test_callbacks_see_every_certificate_and_can_stop():
    seen = []

    def third(record, iterate):
        assert isinstance(iterate, Iterate)
        seen.append(record)
        return len(seen) == 3

    solution = solve(endless(), "dual_descent", Stop(gap=NEVER, passes=math.inf), callbacks=[lambda *_: None, third])
    assert solution.status.name == "CALLBACK"
    assert seen == list(solution.history)
    assert len(seen) == 3


def test_watchers_see_every_step_and_can_stop():
    watch = Watch(7, lambda: True)
    solution = solve(endless(), "dual_descent", Stop(gap=NEVER, passes=math.inf), watchers=[watch])
    assert solution.status.name == "CALLBACK"
    assert len(watch.steps) == 7
    assert solution.history[-1].certificate.work.passes == watch.steps[-1][0], "the last step is certified too"


def test_callbacks_see_the_start_and_the_last_point_too():
    p, seen = endless(), []
    first = solve(p, "dual_descent", Stop(gap=NEVER, passes=15))
    start = Iterate(first.model, first.a)
    again = solve(p, "dual_descent", Stop(NEVER, 15), start=start, callbacks=[lambda r, _: seen.append(r)])
    assert seen == list(again.history)
    assert len(seen) == 2
    solution = solve(p, "dual_descent", Stop(NEVER, 15), start=start, callbacks=[lambda *_: True])
    assert solution.status.name == "CALLBACK"
    assert len(solution.history) == 1


def test_a_bad_model_is_never_worse_than_none():
    p = endless()
    terrible = Iterate(Model(np.full(p.n_features, 1e6)))
    solution = solve(p, stop=Stop(NEVER, passes=1), start=terrible, callbacks=[lambda *_: True])
    assert solution.certificate.primal <= p.c.sum()


def test_the_best_is_kept():
    """Coordinate descent's primal objective goes up and down; what is returned is the best that was certified."""
    p, primals = endless(), []

    def look(record, iterate):
        primals.append(p.primal(iterate.model))

    solution = solve(p, "dual_descent", Stop(gap=NEVER, passes=500), callbacks=[look])
    assert p.primal(solution.model) == pytest.approx(solution.certificate.primal, rel=1e-12)
    assert solution.certificate.primal <= min(primals) * (1 + 1e-12)
    assert p.dual(solution.a) == pytest.approx(solution.certificate.dual, rel=1e-12)


def test_the_solution_is_not_the_solvers_memory():
    solution = solve(endless(), "dual_descent", Stop(gap=NEVER, passes=50))
    w, a = solution.model.w.copy(), solution.a.copy()
    solve(endless(), "dual_descent", Stop(gap=NEVER, passes=50), start=Iterate(solution.model, solution.a))
    np.testing.assert_array_equal(solution.model.w, w)
    np.testing.assert_array_equal(solution.a, a)


@pytest.mark.parametrize("solver", LINEAR)
def test_certificates_are_few(solver):
    solution = solve(endless(), solver, Stop(gap=NEVER, passes=3000))
    assert len(solution.history) <= 3 + math.log2(3000 / 30)
    loose = solve(easy(), solver, Stop(gap=1e-6, passes=3000))
    assert len(loose.history) <= 6 + math.log2(max(loose.certificate.work.passes / 30, 1))


@pytest.mark.parametrize(
    ("solver", "kind", "words"),
    [("fast", ValueError, "'fast'.*dual_descent"), (3, TypeError, "solver=3"), (None, TypeError, "None")],
)
def test_unknown_solvers(solver, kind, words):
    with pytest.raises(kind, match=words):
        solve(easy(), solver)


@pytest.mark.parametrize(
    "wrong",
    [{"gap": -1.0}, {"gap": math.nan}, {"gap": "a"}, {"passes": 0}, {"passes": math.nan}, {"seconds": -1.0}],
)
def test_wrong_stops(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Stop(**wrong)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"stop": 1e-3}, r"Stop\(gap"),
        ({"callbacks": 5}, "callbacks=5"),
        ({"callbacks": print}, "callbacks="),
        ({"callbacks": [3]}, "callbacks="),
        ({"every": -1.0}, "every=-1"),
        ({"start": Iterate(Model(np.ones(1)))}, "1 weights"),
        ({"start": Iterate(Model(np.full(3, np.nan)))}, "not finite"),
        ({"start": Iterate(Model(np.ones(3)), np.ones(1))}, "dual point"),
    ],
)
def test_wrong_options(options, words):
    """Refused before any work."""
    watch = Watch(1, lambda: True)
    p = problem(*data("tall", "hinge")[:2], "hinge", "free").only(slice(None))
    if "start" in options and len(options["start"].model.w) == 3:
        start = options["start"]
        options = {"start": start._replace(model=Model(np.resize(start.model.w, p.n_features)))}
    with pytest.raises((TypeError, ValueError), match=words):
        softmargin.solve(p, watchers=[watch], **options)
    assert not watch.steps


def test_columns_and_frame():
    history = solve(easy(), "dual_descent", Stop(gap=1e-6)).history
    columns = history.columns()
    assert {len(column) for column in columns.values()} == {len(history)}
    pandas = pytest.importorskip("pandas")
    frame = history.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == list(columns)


# ---- Ctrl-C ----


def test_the_first_interrupt_ends_the_run_with_its_best_model():
    usual = signal.getsignal(signal.SIGINT)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    began = time.perf_counter()
    solution = solve(endless(), "dual_descent", Stop(gap=NEVER, passes=math.inf, seconds=20))
    timer.join()
    assert solution.status.name == "INTERRUPTED"
    assert time.perf_counter() - began < 5
    assert np.isfinite(solution.certificate.relative_gap)
    assert np.isfinite(solution.model.w).all()
    assert signal.getsignal(signal.SIGINT) is usual


@pytest.mark.parametrize("solver", LINEAR)
def test_an_interrupt_in_the_first_step(solver):
    solution = solve(endless(), solver, Stop(gap=NEVER), watchers=[Watch(1, interrupt)])
    assert solution.status.name == "INTERRUPTED"
    assert len(solution.history) == 1


def test_the_second_interrupt_raises():
    usual = signal.getsignal(signal.SIGINT)

    def twice():
        interrupt()
        interrupt()

    with pytest.raises(KeyboardInterrupt):
        solve(endless(), "dual_descent", Stop(gap=NEVER), watchers=[Watch(2, twice)])
    assert signal.getsignal(signal.SIGINT) is usual


def test_a_run_after_an_interrupted_one_is_not_interrupted():
    solve(endless(), "dual_descent", Stop(gap=NEVER), watchers=[Watch(1, interrupt)])
    assert solve(easy()).status.name == "CONVERGED"


def test_two_interrupts_in_short_order_end_a_loop_of_runs():
    runs = []

    def loop():
        for _ in range(5):
            runs.append(solve(endless(), "dual_descent", Stop(gap=NEVER), watchers=[Watch(1, interrupt)]))

    with pytest.raises(KeyboardInterrupt):
        loop()
    assert [run.status.name for run in runs] == ["INTERRUPTED"]


@pytest.mark.parametrize(
    ("options", "stop", "expected"),
    [
        ({"watchers": [Watch(1, interrupt)]}, Stop(NEVER), pytest.raises(KeyboardInterrupt)),
        ({}, Stop(NEVER, passes=1), pytest.warns(ConvergenceWarning, match="not gap=1e-14: the limit of passes")),
    ],
)
def test_a_certify_that_falls_short_says_so(monkeypatch, options, stop, expected):
    p = endless()
    model = solve(p, "dual_descent", Stop(NEVER, 5)).model
    monkeypatch.setattr("softmargin.driver.solve", lambda p, solver, _: softmargin.solve(p, solver, stop, **options))
    with expected:
        softmargin.certify(p, model, gap=1e-14)


def test_handlers_of_others_are_left_alone():
    calls = []
    usual = signal.signal(signal.SIGINT, lambda *_: calls.append(1))
    try:
        solution = solve(endless(), "dual_descent", Stop(gap=NEVER, passes=20), watchers=[Watch(1, interrupt)])
    finally:
        signal.signal(signal.SIGINT, usual)
    assert calls == [1]
    assert solution.status.name == "PASSES"


def test_an_interrupt_reaches_worker_threads():
    from concurrent.futures import ThreadPoolExecutor

    from softmargin.threads import interrupts

    stop = Stop(gap=NEVER, passes=math.inf, seconds=20)
    with interrupts(), ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(solve, endless(seed=k), "dual_descent", stop) for k in range(2)]
        time.sleep(0.2)
        interrupt()
        assert [run.result().status.name for run in runs] == ["INTERRUPTED"] * 2


def test_solve_works_in_a_thread():
    results = []
    thread = threading.Thread(target=lambda: results.append(solve(easy())))
    thread.start()
    thread.join()
    assert results[0].status.name == "CONVERGED"


# ---- checkpoints ----

KILLED = """
import os, signal, sys
sys.path.insert(0, {here!r})
from test_solve import Watch, RUNS, solve
make, stop = RUNS[{name!r}]
solve(make(), {name!r}, stop, checkpoint={path!r}, every=0.0,
      watchers=[Watch({step}, lambda: os.kill(os.getpid(), signal.SIGKILL))])
raise SystemExit("was to be killed")
"""
RUNS = {
    "dual_descent": (endless, Stop(gap=NEVER, passes=60)),
    "newton": (lambda: endless(3000, "hinge"), Stop(gap=1e-9, passes=2000)),
    "auto": (endless, Stop(gap=1e-9, passes=2000)),
}


def bits(solution):
    """Everything of a solution but its times."""
    certificates = [record.certificate for record in solution.history]
    return (
        solution.model.w.tobytes(),
        float(solution.model.b),
        solution.a.tobytes(),
        solution.certificate,
        certificates,
        solution.status,
    )


@pytest.mark.parametrize("name", RUNS)
def test_a_killed_run_goes_on_as_if_nothing_had_happened(name, tmp_path):
    make, stop = RUNS[name]
    path = tmp_path / "run"
    code = KILLED.format(here=str(HERE), name=name, path=str(path), step=9 if name == "auto" else 6)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert path.exists()
    watch = Watch(0, None)
    resumed = solve(make(), name, stop, checkpoint=path, watchers=[watch])
    whole = Watch(0, None)
    uninterrupted = solve(make(), name, stop, watchers=[whole])
    assert bits(resumed) == bits(uninterrupted)
    assert 0 < len(watch.steps) < len(whole.steps), "it must not have started anew"
    assert path.exists() == (resumed.status.name == "PASSES"), "only a run that has ended leaves nothing behind"


@pytest.mark.parametrize("loss", ["squared", "logistic", "epsilon"])
@pytest.mark.parametrize("name", LINEAR)
def test_going_on_is_exact_for_every_loss(name, loss, tmp_path):
    p, path = endless(100, loss), tmp_path / "run"

    def fail():
        raise RuntimeError("power cut")

    with contextlib.suppress(RuntimeError):  # a very fast run is over before
        solve(p, name, Stop(gap=1e-9, passes=40), checkpoint=path, every=0.0, watchers=[Watch(2, fail)])
    resumed = solve(p, name, Stop(gap=1e-9, passes=40), checkpoint=path)
    assert bits(resumed) == bits(solve(p, name, Stop(gap=1e-9, passes=40)))


def test_a_checkpoint_is_kept_while_there_is_something_to_go_on_with(tmp_path):
    path = tmp_path / "run"
    assert solve(endless(), "dual_descent", Stop(NEVER, math.inf, 0.05), checkpoint=path).status.name == "SECONDS"
    assert path.exists()
    watch = Watch(1, interrupt)
    assert (
        solve(endless(), "dual_descent", Stop(NEVER, math.inf), checkpoint=path, watchers=[watch]).status.name
        == "INTERRUPTED"
    )
    assert path.exists()
    assert watch.steps[0][0] > 1
    assert solve(endless(), "dual_descent", Stop(NEVER, 2), checkpoint=path).status.name == "PASSES"
    assert path.exists()
    solve(endless(), "dual_descent", Stop(NEVER, math.inf), checkpoint=path, watchers=[Watch(1, lambda: True)])
    assert not path.exists()


def test_a_kept_checkpoint_goes_on_to_a_smaller_gap(tmp_path):
    path = tmp_path / "run"
    first = solve(easy(), stop=Stop(1e-2), checkpoint=path, keep=True)
    assert path.exists()
    second = solve(easy(), stop=Stop(1e-6), checkpoint=path)
    assert second.certificate.relative_gap <= 1e-6
    assert second.history[: len(first.history)] == first.history
    assert not path.exists()


def test_a_checkpoint_is_saved_every_so_often_only(tmp_path):
    path = tmp_path / "run"
    watch = Watch(5, path.exists)  # stops the run if there is a file
    solve(easy(), checkpoint=path, watchers=[watch])
    assert not path.exists()


def test_time_goes_on_too(tmp_path):
    path = tmp_path / "run"
    one = solve(endless(), "dual_descent", Stop(NEVER, passes=math.inf, seconds=0.2), checkpoint=path)
    two = solve(endless(), "dual_descent", Stop(NEVER, passes=math.inf, seconds=0.1), checkpoint=path)
    assert two.history[-1].seconds > one.history[-1].seconds


@pytest.fixture
def saved(tmp_path):
    """The checkpoint of a run that ran out of time."""
    path = tmp_path / "run.ckpt"
    solve(endless(), "dual_descent", Stop(NEVER, passes=math.inf, seconds=0.02), checkpoint=path)
    return path


def refused(path, words, p=None, solver="dual_descent"):
    before = path.read_bytes()
    with pytest.raises(ValueError, match=words) as caught:
        solve(p or endless(), solver, Stop(NEVER, passes=10), checkpoint=path)
    assert path.name in str(caught.value)
    assert path.read_bytes() == before


def test_foreign_checkpoints_are_refused(saved):
    refused(saved, "another run", endless(seed=1))
    refused(saved, "another run", endless(loss="logistic"))
    refused(saved, "another run", endless(bias="none"))
    refused(saved, "another run", problem(*data("tall", "hinge")[:2], "hinge", "free"))
    refused(saved, "another run", solver=Newton())
    refused(saved, "another run", solver=DualDescent(seed=7))


@pytest.mark.parametrize("keep", [0, 1, 100, 0.5, 0.9, -1])
def test_cut_off_checkpoints_are_refused(saved, keep):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    refused(saved, "damaged")


def test_changed_checkpoints_are_refused(saved):
    content = bytearray(saved.read_bytes())
    for place in np.linspace(0, len(content) - 1, 40).astype(int):
        changed = bytearray(content)
        changed[place] ^= 0xFF
        saved.write_bytes(changed)
        try:
            solve(endless(), "dual_descent", Stop(NEVER, passes=1), checkpoint=saved, watchers=[Watch(1, interrupt)])
        except ValueError as error:
            assert "run.ckpt" in str(error)
            assert saved.read_bytes() == changed
        # else the byte was one that means nothing, such as a date


def test_other_files_are_refused(saved):
    from softmargin import archive

    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(saved.parent / "trapped"),)

    saved.write_bytes(b"hello, this is no checkpoint at all")
    refused(saved, "damaged")
    saved.write_bytes(pickle.dumps(Trap()))
    refused(saved, "damaged")
    with saved.open("wb") as file:
        np.savez(file, about=np.array(Trap(), dtype=object))
    refused(saved, "damaged")
    with saved.open("wb") as file:
        np.save(file, np.zeros(3))
    refused(saved, "damaged")
    with saved.open("wb") as file:
        np.savez(file, x=np.zeros(3))
    refused(saved, "damaged")
    archive.write(saved, "model", 1, {}, {})
    refused(saved, "is a softmargin model")
    archive.write(saved, "checkpoint", 99, {}, {})
    refused(saved, "version 99")
    assert not (saved.parent / "trapped").exists()


def test_a_checkpoint_cannot_name_foreign_code(saved):
    from softmargin import archive
    from softmargin.checkpoint import fingerprint

    p = endless()
    about = {"fingerprint": fingerprint(p, DualDescent()), "run": {"type": "os:system", "fields": {"command": "false"}}}
    archive.write(saved, "checkpoint", 1, about, {})
    before = saved.read_bytes()
    with pytest.raises(ValueError, match="os:system"):
        solve(p, "dual_descent", checkpoint=saved)
    assert saved.read_bytes() == before


@pytest.mark.parametrize("kind", ["softmargin.svmlight:dump_svmlight", "softmargin.problem:Work", "softmargin:nothing"])
def test_a_checkpoint_cannot_name_anything_but_a_run(saved, kind):
    from softmargin import archive
    from softmargin.checkpoint import fingerprint

    p = endless()
    for mark in ({"fingerprint": fingerprint(p, DualDescent())}, {}):
        archive.write(saved, "checkpoint", 1, {**mark, "run": {"type": kind, "fields": {}}}, {})
        with pytest.raises(ValueError, match=saved.name):
            solve(p, "dual_descent", checkpoint=saved)


def test_checkpoints_of_other_releases_are_refused(saved):
    """A state with a field that this release does not have."""
    from softmargin import archive

    about, arrays = archive.read(saved, "checkpoint", 1)
    about["run"]["fields"]["state"]["fields"]["momentum"] = 0.5
    archive.write(saved, "checkpoint", 1, about, arrays)
    refused(saved, "release|version|damaged|another")


def test_places_that_cannot_be_written(tmp_path):
    watch = Watch(1, lambda: True)
    with pytest.raises(OSError, match=r"nowhere.*cannot be written"):
        solve(endless(), "dual_descent", checkpoint=tmp_path / "nowhere" / "run", watchers=[watch])
    assert not watch.steps, "refused before any work"
    with pytest.raises((OSError, ValueError), match=tmp_path.name):
        solve(endless(), "dual_descent", Stop(NEVER, passes=20), checkpoint=tmp_path, every=0.0)
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.warns(UserWarning, match=rf"{saved.name}.*No space|No space.*{saved.name}"):
        solution = solve(endless(), "dual_descent", Stop(NEVER, passes=40), checkpoint=saved, every=0.0)
    assert solution.status.name == "PASSES"
    assert np.isfinite(solution.model.w).all()
    assert saved.read_bytes() == before
    assert [f.name for f in saved.parent.iterdir()] == [saved.name]
