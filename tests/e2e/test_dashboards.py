"""What is exported, documented and drawn: a real Prometheus server scrapes a real run of two ranks,
and every query of the dashboard and of the alerts has an answer there."""

import json
import math
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from processes import ROOT, code, run, tiny
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as from_open_metrics
from prometheus_client.parser import text_string_to_metric_families as from_text
from scraped_run import (
    DASHBOARDS,
    JOB_ID,
    OPEN_METRICS,
    OTHER_JOB_ID,
    RANKS,
    Crowd,
    ScrapedRun,
    beside_other_jobs,
    eventually,
    get,
    scraped_run,
    target,
)

DASHBOARD = json.loads((DASHBOARDS / "ebbtide.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
ALERTS = [
    rule
    for group in yaml.safe_load((DASHBOARDS / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
VARIABLES = {"$__rate_interval": "5s", "$job_id": ".*", "$rank": ".*"}  # as Grafana puts them in
COMMON_LABELS = {"rank", "local_rank", "job_id"}
UNKNOWN_ON_A_CPU = {"gpu", "UUID"}
UNITS = {"short", "bytes", "Bps", "s", "percentunit"}  # Grafana's names

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None or shutil.which("prometheus") is None,
    reason="needs Debian's package prometheus: ./dev test installs it",
)


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScrapedRun]:
    with scraped_run(tmp_path_factory.mktemp("scraped")) as one:
        yield one


@pytest.fixture(scope="module")
def crowd(scraped: ScrapedRun, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    with beside_other_jobs(scraped, tmp_path_factory.mktemp("crowd")) as one:
        yield one


def promtool(*arguments: str, text: str | None = None) -> None:
    done = subprocess.run(["promtool", *arguments], input=text, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "", done.stderr  # a finding of the linter


# --- the files ------------------------------------------------------------------------------------


@pytest.mark.quick
def test_promtool_has_no_finding() -> None:
    promtool("check", "config", str(DASHBOARDS / "prometheus.yml"))
    promtool("check", "rules", str(DASHBOARDS / "alerts.yml"))
    promtool("test", "rules", str(DASHBOARDS / "alerts_test.yml"))


@pytest.mark.quick
def test_every_alert_is_tested() -> None:
    tests = yaml.safe_load((DASHBOARDS / "alerts_test.yml").read_text())["tests"]
    fires = {
        case["alertname"]
        for test in tests
        for case in test["alert_rule_test"]
        if case["exp_alerts"]
    }
    assert fires == {rule["alert"] for rule in ALERTS}


@pytest.mark.quick
def test_the_dashboard_can_be_imported() -> None:
    assert DASHBOARD["uid"] == "ebbtide"  # links to it hold
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    taken = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        squares = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not squares & taken, panel["title"]
        taken |= squares
    for panel in PANELS:
        assert panel["title"]
        assert panel["description"], panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
        for one in [panel, *panel["targets"]]:
            assert one["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    assert variables == {"datasource", "job_id", "rank"}


# --- what a run exports ---------------------------------------------------------------------------


def families(text: str) -> dict[str, Metric]:
    """By their names in the text format."""
    return {
        family.name + ("_total" if family.type == "counter" else ""): family
        for family in from_text(text)
    }


def documented() -> dict[str, dict[str, str]]:
    """The table of docs/metrics.md: type, unit and labels by name."""
    rows = {}
    for line in (ROOT / "docs" / "metrics.md").read_text().splitlines():
        if not line.startswith("| `ebbtide_"):
            continue
        name, kind, unit, labels, meaning = (cell.strip() for cell in line.strip("|").split("|"))
        assert meaning, line
        rows[name.strip("`")] = {"type": kind, "unit": unit, "labels": labels}
    return rows


def test_the_documentation_lists_what_is_exported(scraped: ScrapedRun) -> None:
    exported = families(scraped.text)
    rows = documented()
    assert set(rows) == set(exported)
    for name, family in exported.items():
        row = rows[name]
        kind = "info" if name.endswith("_info") else family.type
        assert row["type"] == kind, name
        unit = name.removesuffix("_total").rpartition("_")[2]
        assert row["unit"] == (unit if unit in ("bytes", "seconds", "ratio") else ""), name
        labels = set(re.findall(r"`(\w+)`", row["labels"]))
        seen = {label for sample in family.samples for label in sample.labels} - COMMON_LABELS
        assert seen <= labels, name
        assert labels <= seen | UNKNOWN_ON_A_CPU, name


def documented_queries() -> list[str]:
    """Those of docs/metrics.md that are whole."""
    cells = re.findall(r"^\| .+\? \| `([^`…]+)`", (ROOT / "docs" / "metrics.md").read_text(), re.M)
    return [cell.replace("[5m]", f"[{VARIABLES['$__rate_interval']}]") for cell in cells]


def test_documented_queries_have_data(scraped: ScrapedRun) -> None:
    queries = documented_queries()
    assert len(queries) == 7
    for query in queries:
        scraped.prometheus.figures(query)


def test_promtool_accepts_what_is_exported(scraped: ScrapedRun) -> None:
    promtool("check", "metrics", text=scraped.text)


def test_each_scraper_gets_its_format(scraped: ScrapedRun) -> None:
    """By the type that the answer names, read by a parser that takes nothing else."""
    server = target(scraped.base)
    kind, text = get(server, "/metrics")
    assert kind.startswith("text/plain; version=0.0.4")
    plain = {family.name for family in from_text(text)}
    kind, text = get(server, "/metrics", OPEN_METRICS)
    assert kind.startswith("application/openmetrics-text; version=1.0.0")
    assert {family.name for family in from_open_metrics(text)} == {
        name.removesuffix("_info") for name in plain
    }


def test_a_run_under_a_budget_counts(scraped: ScrapedRun) -> None:
    """What happens in such a run is in its series; that it fits, too."""
    for rank in range(RANKS):
        one = f'{{rank="{rank}"}}'

        def value(series: str, labels: str = one) -> float:
            (found,) = scraped.prometheus.data(series + labels)
            return float(found["value"][1])

        for counter in (
            "recomputed_ops",
            "recompute_seconds",
            "audits",
            "rehearsed_steps",
            "allocations",
        ):
            assert scraped.prometheus.data(f"ebbtide_{counter}_total{one} > 0"), counter
        # One query compares figures of one moment: the run goes on.
        whole, placed = (f"ebbtide_{kind}allocations_total{one}" for kind in ("", "placed_"))
        assert scraped.prometheus.data(f"{whole} > {placed}")
        for counter in ("budget_violations", "ooms", "audit_failures"):
            assert value(f"ebbtide_{counter}_total") == 0, counter
        budget = value("ebbtide_memory_budget_bytes")
        assert 0 < value("ebbtide_memory_step_peak_bytes") <= budget
        live, mapped = (f"ebbtide_memory_{kind}_bytes{one}" for kind in ("allocated", "mapped"))
        assert scraped.prometheus.data(f"{live} <= {mapped}")
        assert value("ebbtide_memory_mapped_peak_bytes") <= budget
        assert value("ebbtide_memory_smallest_feasible_budget_bytes") > 0
        assert 0 <= value("ebbtide_memory_fragmentation_ratio") < 1
        assert 0 < value("ebbtide_plan_predicted_peak_bytes") <= budget
        assert value("ebbtide_rank_info", f'{{rank="{rank}",stage="{rank}"}}') == 1
        # By operator and in all: within a step they are apart by what that has replayed so far.
        by_op = {
            sample.labels["op"]: sample.value
            for sample in families(scraped.text)["ebbtide_op_recompute_seconds_total"].samples
            if sample.labels["rank"] == str(rank)
        }
        assert by_op["other"] == 0
        assert len(by_op) > 1, by_op


# --- what is drawn --------------------------------------------------------------------------------


def in_place(expression: str) -> str:
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    return expression


def labels_of(legend: str) -> set[str]:
    return set(re.findall(r"{{(\w+)}}", legend))


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_each_panel_has_data(panel: dict, scraped: ScrapedRun) -> None:
    """Figures, from every rank where it is drawn by rank: NaN draws nothing. Until two scrapes have
    seen a step between them a share of its time is 0/0, so it is waited for."""
    for drawn in panel["targets"]:
        expected = RANKS if "rank" in labels_of(drawn["legendFormat"]) else 1
        series = scraped.prometheus.figures(in_place(drawn["expr"]), at_least=expected)
        for one in series:
            assert labels_of(drawn["legendFormat"]) <= set(one["metric"]), (drawn["expr"], one)


def test_budget_in_use_is_what_the_budget_bounds(scraped: ScrapedRun) -> None:
    """Mapped bytes and margin. A CPU has no margin: so the expressions are looked at, too."""
    (panel,) = (panel for panel in PANELS if panel["title"] == "Budget in use")
    (drawn,) = panel["targets"]
    for one in scraped.prometheus.figures(in_place(drawn["expr"]), at_least=RANKS):
        assert 0 < float(one["value"][1]) <= 1
    budget = "/ ebbtide_memory_budget_bytes"
    shares = [query["expr"] for panel in PANELS for query in panel["targets"]]
    shares = [share for share in shares + documented_queries() if budget in share]
    assert len(shares) == 3  # both panels, and the documentation
    for share in shares:
        assert "ebbtide_memory_external_margin_bytes) " + budget in share


def test_top_operators_are_shares_of_the_time(scraped: ScrapedRun) -> None:
    """Together what the panel "Recompute share" has: fewer than ten operators run again here."""
    by_title = {panel["title"]: panel["targets"][0]["expr"] for panel in reversed(PANELS)}
    in_all = by_title["Recompute share"]  # the first one: of all ranks
    parts = in_place(f"sum({by_title['Top recomputed operators']}) / ({in_all})")
    # A rate leaves out what a name has at its first scrape: so in the beginning they are fewer.
    scraped.prometheus.figures(f"({parts}) > 0.95 < 1.05")


# --- beside other jobs ----------------------------------------------------------------------------


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_jobs_are_not_merged(panel: dict, crowd: Crowd) -> None:
    """Beside a machine with another job of the same id, as two have that nobody named, and one of
    another id: no query fails, and each rank, stage or operator is that of one job."""
    for drawn in panel["targets"]:
        labels = labels_of(drawn["legendFormat"])
        series = crowd.prometheus.figures(in_place(drawn["expr"]))
        if not labels:
            continue  # all in one figure, by the choice of jobs; or a table with every label
        assert "job_id" in labels, drawn["legendFormat"]
        assert {one["metric"]["job_id"] for one in series} <= {JOB_ID, OTHER_JOB_ID}
        if "rank" in labels:
            places = [(one["metric"]["instance"], one["metric"]["rank"]) for one in series]
            assert len(set(places)) == len(places)


def test_made_up_ranks_export_what_real_ones_do(scraped: ScrapedRun, crowd: Crowd) -> None:
    for instance, _ in crowd.jobs:
        made_up = families(get(instance, "/metrics")[1])
        assert {name: one.type for name, one in made_up.items()} == {
            name: one.type for name, one in families(scraped.text).items()
        }


def test_documented_queries_hold_beside_other_jobs(crowd: Crowd) -> None:
    for query in documented_queries():
        assert crowd.prometheus.figures(query), query


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_alerts_are_of_one_rank_of_one_job(rule: dict, crowd: Crowd) -> None:
    measured, _, _ = comparison(rule)
    each = f"count by (instance, job_id, rank) ({measured})"
    assert {one["value"][1] for one in crowd.prometheus.data(each)} == {"1"}
    jobs = f"count(count by (instance, job_id) ({measured})) == {len(crowd.jobs)}"
    assert crowd.prometheus.data(jobs)  # rates need two scrapes of each


def test_the_dashboards_variables_have_values(scraped: ScrapedRun) -> None:
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] != "query":
            continue
        series, label = re.fullmatch(
            r"label_values\((.+), (\w+)\)", variable["query"]["query"]
        ).groups()
        least = RANKS if label == "rank" else 1  # a scrape leaves out a rank that is late
        info = scraped.prometheus.figures(in_place(series), at_least=least)
        found = {one["metric"].get(label) for one in info}
        if label == "rank":
            assert found == {str(rank) for rank in range(RANKS)}


def comparison(rule: dict) -> tuple[str, str, str]:
    return re.fullmatch(r"(.+) (>|<) ([0-9.]+)", rule["expr"]).groups()


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_each_alert_has_data(rule: dict, scraped: ScrapedRun) -> None:
    """Of every rank, or of the machine."""
    measured, _, _ = comparison(rule)
    per_rank = "$labels.rank " in rule["annotations"]["summary"]
    series = scraped.prometheus.figures(measured, at_least=RANKS if per_rank else 1)
    ranks = [one["metric"].get("rank") for one in series]
    assert sorted(ranks) == [str(rank) for rank in range(RANKS)] if per_rank else ranks == [None]


def test_prometheus_is_content(scraped: ScrapedRun) -> None:
    """All targets answer, all rules can be evaluated, and none fires in a run that is well."""

    def all_up() -> bool:
        active = scraped.prometheus.ask("targets")["activeTargets"]
        return {one["health"] for one in active} == {"up"}

    def evaluated_rules() -> list[dict]:
        groups = scraped.prometheus.ask("rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        return [] if "unknown" in (rule["health"] for rule in rules) else rules

    eventually(all_up, scraped.prometheus.process)  # a scrape may have been late
    for rule in eventually(evaluated_rules, scraped.prometheus.process):
        assert rule["health"] == "ok", rule
        assert rule["state"] != "firing" or rule["name"] == "EbbtideRecomputesMuch", rule


# --- the file -------------------------------------------------------------------------------------


# Over 20 s, as the module's: Prometheus has to see counters before and after they rise.
@pytest.fixture
def ended(tmp_path: Path) -> Iterator[tuple[ScrapedRun, str]]:
    """A run of its own, as the other tests need theirs to go on; and its output."""
    with scraped_run(tmp_path) as one:
        yield one, one.end()


def test_the_file_has_the_last_word(ended: tuple[ScrapedRun, str]) -> None:
    scraped, output = ended
    assert "EBBTIDE_TEXTFILE" not in output, output
    for rank in range(RANKS):
        report = json.loads((scraped.folder / f"report-{rank}.json").read_text())
        text = scraped.text_file(rank).read_text()
        promtool("check", "metrics", text=text)
        values = {
            sample.name: sample.value for family in from_text(text) for sample in family.samples
        }
        assert values["ebbtide_step_duration_seconds_count"] == report["steps"]
        assert values["ebbtide_recomputed_ops_total"] == report["recomputed_ops"]
        assert values["ebbtide_spilled_bytes_total"] == report["spilled_bytes"]
        assert values["ebbtide_audits_total"] == sum(report["audited"].values())
        assert values["ebbtide_memory_peak_bytes"] == report["peak_bytes"]
        assert values["ebbtide_memory_mapped_peak_bytes"] == report["mapped_peak_bytes"]
        smallest = report["smallest_feasible_budget_bytes"]
        assert values["ebbtide_memory_smallest_feasible_budget_bytes"] == smallest
        by_op = [
            sample.value
            for family in from_text(text)
            for sample in family.samples
            if sample.name == "ebbtide_op_recompute_seconds_total"
        ]
        assert sum(by_op) == pytest.approx(report["recompute_seconds"])
        # Nobody is to wait for its next step: the files stay, and the alert reads them.
        assert math.isnan(values["ebbtide_last_step_timestamp_seconds"])
        assert math.isnan(values["ebbtide_start_timestamp_seconds"])
    assert {path.name for path in scraped.folder.glob("*.prom*")} == {
        f"rank-{rank}.prom" for rank in range(RANKS)
    }


def test_an_error_that_ends_a_run_is_in_its_file(tmp_path: Path) -> None:
    """Nobody scrapes between the two."""
    program = code(
        f"import sys; sys.path.insert(0, {str(ROOT / 'tests' / 'e2e')!r})\n"
        "import out_of_memory, torch\n"
        "trainer = out_of_memory.Trainer()\n"
        "for _ in range(3): trainer.step()\n"
        "torch.empty(64 << 20, dtype=torch.uint8)\n"
    )
    file = tmp_path / "series.prom"
    variables = {"EBBTIDE_BUDGET": f"{20 << 20}", "EBBTIDE_TEXTFILE": str(file)}
    done = run(program, variables, tmp_path / "run", out=False)
    assert done.status == 1 and done.said(r"out of memory\. .*: 64\.0 MiB asked for"), done.output
    exported = families(file.read_text())
    (errors,) = exported["ebbtide_ooms_total"].samples
    assert errors.value == 1
    (last_step,) = exported["ebbtide_last_step_timestamp_seconds"].samples
    assert math.isnan(last_step.value)


def test_a_folder_that_goes_away_is_one_warning(tmp_path: Path) -> None:
    folder = tmp_path / "series"
    folder.mkdir()
    program = tiny(steps=4)
    text = (
        "import runpy, shutil, sys, torch; sys.argv = sys.argv[1:];"
        # After the first allocation that trains: the file is there, and then is not.
        f"old = torch.optim.AdamW.step; torch.optim.AdamW.step = lambda *a, **k: "
        f"(shutil.rmtree({str(folder)!r}, ignore_errors=True), old(*a, **k))[1];"
        "sys.path.insert(0, __import__('os').path.dirname(sys.argv[0]));"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    python, *rest = program.command
    changed = type(program)((python, "-c", text, *rest))
    variables = {"EBBTIDE": "1", "EBBTIDE_TEXTFILE": str(folder / "{rank}.prom")}
    done = run(changed, variables, tmp_path / "run").succeeded()
    warnings = re.findall(r"warning: .*", done.output)
    assert warnings == [
        f"warning: the series are not written to the file of EBBTIDE_TEXTFILE: {folder}/0.prom: "
        "No such file or directory [EB47]"
    ], done.output
    assert done.results == run(program, {}, tmp_path / "plain").succeeded().results
