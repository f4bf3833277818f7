#include "verbs.hpp"

#include "shell/help_text.hpp"

namespace ebbtide::cli {

std::unique_ptr<CLI::App> makeProgram(int& exit_code) {
  using Adder = void (*)(CLI::App&, int&);
  auto app = std::make_unique<CLI::App>(
      "Trains within a memory budget: see and tune running jobs, "
      "plan recorded steps offline",
      "ebbtide");
  app->set_version_flag("--version", EBBTIDE_VERSION);
  app->require_subcommand(1);
  app->formatter(helpText());  // of the verbs too
  app->get_help_ptr()->description("print this help");
  const auto add = [&](const char* group, std::initializer_list<Adder> adders) {
    for (const Adder adder : adders) {
      const std::size_t before = app->get_subcommands({}).size();
      adder(*app, exit_code);
      app->get_subcommands({}).at(before)->group(group);
    }
  };
  add("Running jobs",
      {addTop, addStatus, addBudget, addReplan, addPause, addResume, addTrace, addSnapshot});
  add("Scripts", {addFit, addProve});
  add("Recorded steps and runs",
      {addReport, addPlan, addCurve, addCheck, addPlanners, addSimulate, addPlace});
  add("This machine", {addDoctor, addCompletion, addManual});
  // Last: verbs take it over.
  app->footer("Of a verb: ebbtide VERB --help. All of it: ebbtide man | man -l -");
  return app;
}

}  // namespace ebbtide::cli
