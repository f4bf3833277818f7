// The verbs that ask every rank for one thing: replan, pause, resume, trace, snapshot.
#include <fmt/format.h>

#include <memory>

#include "checked_json.hpp"
#include "live/change_input.hpp"
#include "live/rank_answers.hpp"
#include "terminal_text.hpp"
#include "verbs.hpp"

namespace ebbtide::cli {
namespace {

std::string fromStep(const RankAnswer& answer) {
  const auto step = integerAt(answer.document, {"from_step"});
  return step ? fmt::format(" from step {} on", *step) : "";
}

std::string pathOf(const RankAnswer& answer) {
  return forTerminal(textAt(answer.document, {"path"}));
}

int change(const ChangeInput& input, const std::string& path, const nlohmann::json& body,
           const std::function<std::string(const RankAnswer&)>& line) {
  RunningJob job = RunningJob::find(input.job);
  return print(job, job.post(path, body, input.job.timeout()), input.json, line);
}

CLI::App* addChange(CLI::App& app, const char* name, const char* meaning,
                    const std::shared_ptr<ChangeInput>& input) {
  auto* verb = app.add_subcommand(name, meaning);
  input->addTo(*verb);
  return verb;
}

void addPausing(CLI::App& app, int& exit_code, bool paused, const char* meaning) {
  auto input = std::make_shared<ChangeInput>();
  auto* verb = addChange(app, paused ? "pause" : "resume", meaning, input);
  auto force = std::make_shared<bool>(false);
  if (paused)
    verb->add_flag("--force", *force, "do it even if the run may then fail with out of memory");
  verb->callback([=, &exit_code] {
    nlohmann::json body = {{"paused", paused}};
    if (*force) body["force"] = true;
    exit_code = change(*input, "/v1/pause", body, [&](const RankAnswer& answer) {
      return (paused ? "paused" : "resumed") + fromStep(answer);
    });
  });
}

}  // namespace

void addReplan(CLI::App& app, int& exit_code) {
  auto input = std::make_shared<ChangeInput>();
  auto* verb = addChange(app, "replan", "Record a step anew and plan on it", input);
  verb->callback([=, &exit_code] {
    exit_code = change(*input, "/v1/replan", nlohmann::json::object(),
                       [](const RankAnswer& answer) { return "plans anew" + fromStep(answer); });
  });
}

void addPause(CLI::App& app, int& exit_code) {
  addPausing(app, exit_code, true, "Train as PyTorch alone does, without a plan and a budget");
}

void addResume(CLI::App& app, int& exit_code) {
  addPausing(app, exit_code, false, "Train within the budget again");
}

void addTrace(CLI::App& app, int& exit_code) {
  auto input = std::make_shared<ChangeInput>();
  auto steps = std::make_shared<int>(1);
  auto* verb =
      addChange(app, "trace", "Write the next steps as a trace that Perfetto opens", input);
  verb->add_option("--steps", *steps, "how many, 1 to 100")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  verb->callback([=, &exit_code] {
    exit_code = change(*input, "/v1/trace", {{"steps", *steps}}, [](const RankAnswer& answer) {
      return fmt::format("{}, written after {} step{}{}", pathOf(answer),
                         integerAt(answer.document, {"steps"}).value_or(1),
                         integerAt(answer.document, {"steps"}).value_or(1) == 1 ? "" : "s",
                         fromStep(answer));
    });
  });
}

void addSnapshot(CLI::App& app, int& exit_code) {
  auto input = std::make_shared<ChangeInput>();
  auto* verb =
      addChange(app, "snapshot", "Write what memory holds as a snapshot for memory_viz", input);
  verb->callback([=, &exit_code] {
    exit_code = change(*input, "/v1/snapshot", nlohmann::json::object(), pathOf);
  });
}

}  // namespace ebbtide::cli
