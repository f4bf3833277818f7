// The arguments of verbs that change something in a running job.
#pragma once

#include <CLI/App.hpp>

#include "live/running_job.hpp"

namespace ebbtide::cli {

struct ChangeInput {
  JobInput job;
  bool json = false;

  // A change is answered at the end of a step, which may last.
  ChangeInput() { job.timeout_seconds = 60; }

  void addTo(CLI::App& verb) {
    job.addTo(verb);
    verb.add_flag("--json", json, "one JSON document on stdout");
  }
};

}  // namespace ebbtide::cli
