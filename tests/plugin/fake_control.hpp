// Who answers for a run that nobody asks.
#pragma once

#include <string>

#include "runtime/run/run_control.hpp"

namespace ebbtide::plugin::test {

class FakeControl final : public RunControl {
 public:
  // Where it is found.
  Served serve(bool on_any_port) override { return {"here", on_any_port ? "" : "no port"}; }
  void close() override {}
  void takePlan(const Held&, const std::string&) override {}
  bool hasWork(const Held&) const override { return false; }
  void work() noexcept override {}
};

}  // namespace ebbtide::plugin::test
