"""`cohabit profiles`: every part from end to end, for people and as JSON, and wrong calls."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cli_calls import cohabit, program

from cohabit.model.profile import Profile, ScaleProfile
from cohabit.store.json_form import CoRunSample
from cohabit.store.profiles import open_store

PLAIN_PROGRAM = {
    "class": "scaling", "single_node_only": False, "ce_time_16p_s": 100, "ipc_llc_rel": {"2": 0.8, "10": 1},
    "bw_llc_gbs": {"2": 30, "10": 20}, "speedup_by_scale": {"1": 1, "2": 1.5}, "memory_bound_fraction_mu": 0.5,
}  # fmt: skip
CURVES = (
    "BENCH,NR_WAYS,ipc,bandwidth_mbps,stalls_l3_miss\nlbm,1,1.0,4000,0.1\nlbm,2,0.99,4000,0.1\nlbm,11,2.0,3000,0.1\n"
)


@pytest.fixture(autouse=True)
def _own_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))  # no controller is there
    for name in ("COHABIT_STORE", "COHABIT_SERVER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    path = tmp_path / "programs.json"
    path.write_text(json.dumps({"programs": {"solver": PLAIN_PROGRAM, "other": PLAIN_PROGRAM}}))
    return path


def test_show_for_people() -> None:
    answer = cohabit("profiles", "show", "MG", "--catalogue", "sns12")
    assert answer.code == 0, answer.err
    assert answer.err == ""
    assert "Class: scaling, because spreading makes it faster: +22.0 % at scale 2" in answer.out
    assert "it gains from more memory bandwidth" in answer.out
    assert "IPC against cache ways" in answer.out
    assert "GB/s per node against cache ways" in answer.out
    assert re.search(r"[\u2801-\u28ff]{5}", answer.out)
    assert re.search(r"^  2 +2 x 8 +79\.5 +1\.22 +2 +66\.87 ", answer.out, re.MULTILINE)
    steps = re.findall(r"^  (\d)\. (.*)$", answer.out, re.MULTILINE)
    assert [number for number, _ in steps] == ["1", "2", "3", "4", "5"]
    assert steps[0][1] == "with all 20 ways its IPC is 0.75 (F-IPC)"
    assert "T-IPC" in steps[2][1]
    assert steps[3][1] == "the fewest ways that give it: 3 (IPC 0.679; 2 would give 0.645)"
    assert steps[4][1].startswith("with 3 ways it draws 109.50 GB/s per node")
    assert "Where the numbers come from: cls: T" in answer.out
    assert "\x1b" not in answer.out


def test_show_other_classes_in_words() -> None:
    said = {
        name: cohabit("profiles", "show", name, "--catalogue", "sns12").out
        for name in ("BFS", "EP", "GAN", "TS")
    }  # fmt: skip
    assert "Class: compact, because spreading makes it slower" in said["BFS"]
    assert "Class: neutral, because its time stays within 5 %" in said["EP"]
    assert "Class: compact, because it cannot run on more than one node" in said["GAN"]
    assert "it gains from more cache" in said["TS"]


def test_show_as_json_at_another_alpha() -> None:
    call = ("profiles", "show", "CG", "--catalogue", "sns12", "--json")
    strict, loose = (cohabit(*call, "--alpha", alpha).document for alpha in ("0.9", "0.7"))
    assert (strict["program"], strict["class"], strict["ideal_scale"]) == ("CG", "scaling", 2)
    assert [row["ways"] for row in strict["by_scale"]] == [10, 7, 4, 3]
    assert loose["by_scale"][0]["ways"] == 4
    assert strict["by_scale"][0]["ipc"]["20"] == pytest.approx(0.6, abs=0.5)
    assert len(strict["by_scale"][0]["steps"]) == 5
    more = cohabit(*call, "--processes", "28").document["by_scale"][0]
    assert (more["nodes"], more["cores"]) == (1, 28)
    assert more["bandwidth_gbs"] > strict["by_scale"][0]["bandwidth_gbs"]


def test_a_narrow_or_plain_terminal(tmp_path: Path) -> None:
    answer = program("profiles", "show", "MG", "--catalogue", "sns12", PYTHONIOENCODING="ascii", folder=tmp_path)
    assert answer.code == 0, answer.err
    assert answer.out.isascii()
    assert re.search(r"\|o?\.{3}", answer.out)


def test_list_of_a_catalogue_and_of_files(programs: Path) -> None:
    rows = cohabit("profiles", "list", "--catalogue", "sns12", "--json").document["profiles"]
    assert len(rows) == 12
    assert rows[0]["program"] == "WC"
    rows = cohabit("profiles", "list", "--file", programs, "--json").document["profiles"]
    assert [(row["program"], row["hardware"], row["scales"]) for row in rows] == [
        ("solver", "", [1, 2]), ("other", "", [1, 2]),
    ]  # fmt: skip
    assert "scaling" in cohabit("profiles", "list", "--file", programs).out
    curves = programs.with_name("curves.csv")
    curves.write_text(CURVES)
    answer = cohabit("profiles", "show", "lbm", "--file", curves)
    assert "1 point of 1 IPC curve(s) fell by at most 5 %" in answer.err
    assert "Class: unknown, because only scale 1 has been measured" in answer.out
    assert "600 s for every program" in answer.out


def test_the_store_from_import_to_forgetting(programs: Path, tmp_path: Path) -> None:
    empty = cohabit("profiles", "list")
    assert (empty.code, empty.out) == (0, "")
    assert "has no profiles yet" in empty.err
    assert cohabit("profiles", "list", "--json").document["profiles"] == []
    assert not (tmp_path / "data").exists()
    done = cohabit("profiles", "import", programs, "--cores", "32", "--ways", "12")
    assert "imported 2 profiles into" in done.out
    assert cohabit("profiles", "import", "sns12", "--json").document["imported"] == 12
    rows = cohabit("profiles", "list", "--json").document["profiles"]
    assert len(rows) == 14
    assert {row["hardware"] for row in rows} == {"28c-20w-118.26g", "32c-12w"}
    shown = cohabit("profiles", "show", "MG", "--json").document
    direct = cohabit("profiles", "show", "MG", "--catalogue", "sns12", "--json").document
    for row, expected in zip(shown["by_scale"], direct["by_scale"], strict=True):
        assert {key: row[key] for key in ("nodes", "cores", "time_s", "ways", "bandwidth_gbs", "ipc")} == {
            key: expected[key] for key in ("nodes", "cores", "time_s", "ways", "bandwidth_gbs", "ipc")
        }
    assert "nodes of 28 cores and 20 ways" in cohabit("profiles", "show", "MG").out
    out = tmp_path / "exported.json"
    assert cohabit("profiles", "export", out, "--json").document == {"exported": 14, "co_runs": 0, "file": str(out)}
    copy = tmp_path / "copy.db"
    assert "imported 14 profiles" in cohabit("profiles", "import", out, "--store", copy).out
    assert cohabit("profiles", "list", "--store", copy, "--json").document["profiles"] == rows
    assert cohabit("profiles", "list", "--file", out, "--json").document["profiles"] == rows
    assert cohabit("profiles", "forget", "MG", "--json").document == {"forgotten": 1, "program": "MG"}
    assert len(cohabit("profiles", "list", "--json").document["profiles"]) == 13


def test_runs_beside_others_go_along_from_store_to_store(tmp_path: Path) -> None:
    here, out, there = tmp_path / "here.db", tmp_path / "exported.json", tmp_path / "there.db"
    with open_store(here) as store:
        store.put(Profile("MG", 16, (ScaleProfile(1, 10.0),)))
        store.add_co_runs([CoRunSample("MG", ("EP",), percent, "", 1) for percent in (10.0, 30.0)])
    done = cohabit("profiles", "export", out, "--store", here)
    assert done.out == f"exported 1 profile and 2 runs beside others to {out}\n"
    assert "count only in a store" in cohabit("profiles", "list", "--file", out).err
    done = cohabit("profiles", "import", out, "--store", there)
    assert done.out == f"imported 1 profile and 2 runs beside others into {there}\n"
    shown = cohabit("profiles", "show", "MG", "--store", there, "--json").document["neighbours"]["co_runs"]
    assert [(one["beside"], one["runs"], one["mean_percent"]) for one in shown] == [(["EP"], 2, 20.0)]


def test_the_store_may_be_named_by_the_environment(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COHABIT_STORE", str(tmp_path / "elsewhere.db"))
    assert cohabit("profiles", "import", programs).code == 0
    assert (tmp_path / "elsewhere.db").exists()
    assert not (tmp_path / "data").exists()


@pytest.fixture
def owned(tmp_path: Path) -> Path:
    """A store with profiles of one program that two users own; root, the only account for sure, is one of them."""
    place, times = tmp_path / "owned.db", {"0": 10.0, "1000000001": 20.0}
    with open_store(place) as store:
        store.replace(Profile("solver", 16, (ScaleProfile(1, time_s),), owner=owner) for owner, time_s in times.items())
    return place


def test_an_owners_profile_is_shared(owned: Path) -> None:
    done = cohabit("profiles", "share", "solver", "--from", "root", "--store", owned)
    assert (done.code, done.out) == (0, f"shared 1 profile of solver from root in {owned}\n")
    rows = cohabit("profiles", "list", "--store", owned, "--json").document["profiles"]
    assert [(row["owner"], row["owner_name"]) for row in rows] == [
        ("", "shared"), ("0", "root"), ("1000000001", "1000000001"),
    ]  # fmt: skip
    assert re.search(r"^ *solver +shared +16 ", cohabit("profiles", "list", "--store", owned).out, re.MULTILINE)
    document = cohabit("profiles", "share", "solver", "--from", "1000000001", "--store", owned, "--json").document
    assert document == {"program": "solver", "from": "1000000001", "owner": "1000000001", "in_store": 1,
                        "in_controller": None, "store": str(owned)}  # fmt: skip
    shown = cohabit("profiles", "show", "solver", "--store", owned, "--owner", "shared", "--json").document
    assert (shown["owner"], shown["by_scale"][0]["time_s"]) == ("", 20.0)


def test_show_takes_the_callers_own_profile_then_the_shared_one(owned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(caller: int) -> str:
        monkeypatch.setattr("os.getuid", lambda: caller)
        return str(cohabit("profiles", "show", "solver", "--store", owned, "--json").document["owner"])

    assert (shown(0), shown(1_000_000_001)) == ("0", "1000000001")
    monkeypatch.setattr("os.getuid", lambda: 7)
    sentence = cohabit("profiles", "show", "solver", "--store", owned).sentence()
    assert sentence == "several users have a profile of solver: root, 1000000001; choose one with --owner"
    assert cohabit("profiles", "share", "solver", "--from", "root", "--store", owned).code == 0
    assert shown(7) == ""


def test_forgetting_takes_one_owners_profile(owned: Path) -> None:
    call = ("profiles", "forget", "solver", "--store", owned)
    assert "several users have a profile of solver" in cohabit(*call).sentence()
    assert "shared has no profile of solver" in cohabit(*call, "--owner", "shared").sentence()
    assert cohabit(*call, "--owner", "root", "--json").document == {"forgotten": 1, "program": "solver"}
    assert cohabit(*call, "--json").document["forgotten"] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "MGG", "--catalogue", "sns12"], "there is no program called 'MGG'; did you mean 'MG'?"),
        (["show", "zzz", "--catalogue", "sns12"], "known: BFS, BW"),
        (["show", "MG"], "has no profiles"),
        (["show", "MG", "--catalogue", "sns13"], "did you mean 'sns12'"),
        (["show", "MG", "--catalogue", "sns12", "--alpha", "0"], "--alpha 0 "),
        (["show", "MG", "--catalogue", "sns12", "--alpha", "nan"], "--alpha nan "),
        (["show", "MG", "--catalogue", "sns12", "--scale", "3"], "at scale 3; known scales: 1, 2, 4, 8"),
        (["show", "MG", "--catalogue", "sns12", "--processes", "0"], "--processes 0"),
        (["show", "MG", "--catalogue", "sns12", "--ways", "11"], "has a point at 20 ways, but the cache has 11"),
        (["show", "MG", "--catalogue", "sns12", "--cores", "-1"], "--cores -1"),
        (["show", "MG", "--catalogue", "sns12", "--file", "x.json"], "do not go together"),
        (["list", "--file", "absent.json"], "absent.json: no such file"),
        (["list", "--store", "absent.db"], "absent.db: there is no profile store"),
        (["import", "absent.json"], "absent.json: no such file"),
        (["forget", "MG"], "there is no program called 'MG'"),
        (["show", "MG", "--catalogue", "sns12", "--owner", "no-such-user"], "there is no user no-such-user"),
        (["show", "MG", "--catalogue", "sns12", "--owner", "1001"], "1001 has no profile of MG"),
        (["share", "MG"], "--from"),
        (["share", "MG", "--from", "1001"], "1001 has no profile of MG; see the owners: cohabit profiles list"),
        (["share", "MG", "--from", "no-such-user"], "no-such-user has no profile of MG"),
        (["share", "MG", "--from", "shared"], "is shared already"),
        (["share", "MG", "--from", "1001", "--server", "absent"], "no scheduler is there"),
        (["bogus"], "bogus"),
        (["show"], "PROGRAM"),
    ],
)  # fmt: skip
def test_wrong_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in cohabit("profiles", *arguments).sentence()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"profiles": 5}', "not a file of profiles"),
        (json.dumps({"programs": {"X": PLAIN_PROGRAM | {"ipc_llc_rel": {"2": 1, "10": 0.9}}}}), "X falls by 10.0 %"),
        (json.dumps({"programs": {"X": PLAIN_PROGRAM | {"ipc_llc_rel": {"2": 1}}}}), "X has 1 point"),
    ],
)
def test_files_that_cannot_be_imported(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    sentence = cohabit("profiles", "import", path).sentence()
    assert "bad.json" in sentence
    assert words in sentence
    assert [one.name for one in tmp_path.iterdir()] == ["bad.json"]


def test_an_export_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "cannot be written" in cohabit("profiles", "export", tmp_path / "file" / "x.json").sentence()


def test_every_part_has_help_with_an_example() -> None:
    for part in ("list", "show", "import", "export", "share", "forget"):
        answer = cohabit("profiles", part, "--help")
        assert answer.code == 0
        assert re.search(rf"Example:\s+cohabit profiles {part}", answer.out)
        assert "--json" in answer.out
