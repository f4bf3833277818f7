// FileOrRun: verbs that read a recorded step where one is named, and else ask a running job. An
// option that the one has and the other has not is refused beside the other.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "ebbtide/scheduler/graph.hpp"
#include "graph_input.hpp"
#include "live/running_job.hpp"

namespace ebbtide::cli {

struct FileOrRun {
  // As the help groups the options.
  static constexpr const char* kOfFile = "With a file";
  static constexpr const char* kOfRun = "Which run, without a file";

  JobInput job;

  // Last of all options of the verb: those that are there by now are the file's, but for these.
  void addTo(CLI::App& verb, CLI::Option& file, const std::vector<std::string>& of_both);
};

// As graph.read(). Where the file is not there and is called like a rank, the problem says how the
// rank is asked.
scheduler::Graph readGraphOrHint(const GraphInput& graph);

}  // namespace ebbtide::cli
