// AskedCurve: what each budget would cost in time, computed where somebody asks: a point at a time,
// on the planning thread, as plans that a step waits for come first. Torch-free.
//
//   asked ─► wanted ─► a point, a point, … ─► whole ─► shown ─► another program or budget: anew
//
// Thread rule: addPoint() by the planning thread, without the session's guard.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "control/program_needs.hpp"
#include "plan/budget_curve.hpp"
#include "plan/plan_search.hpp"
#include "runtime/run/session_guard.hpp"
#include "runtime/run_view.hpp"

namespace ebbtide::plugin {

class AskedCurve {
 public:
  using Held = SessionGuard::Held;

  struct Shown {
    std::string state = "none";  // "computing", "ready"
    std::string why;             // there is none
    std::vector<BudgetCurve::Point> points;
    double plain_seconds = 0;  // of the step that it is of
    bool wakes = false;        // the planning thread is to compute it
  };

  // Both must outlive it.
  AskedCurve(Session& session, const ProgramNeeds& needs);

  // As far as it is computed; from now on it is. A step has been recorded.
  Shown show(const Held& held, const RunView& run);
  bool isWanted(const Held&) const { return wanted_; }
  void forget(const Held&);  // the next one is computed anew
  void addPoint();

 private:
  struct Of {
    std::uint64_t program = 0;
    int budget_number = -1;
    bool operator==(const Of&) const = default;
  };

  bool begins(const Held&, const RunView& run);  // now, and anew
  void addPointTo(const Of& of, const RecordedStep& step);
  void begin(const RecordedStep& step);

  Session& session_;
  const ProgramNeeds& needs_;
  const PlanSearch search_;
  std::unique_ptr<BudgetCurve> curve_;  // of the planning thread, like the next one
  Of curve_is_of_;
  // The session's guard guards these.
  Of of_;
  RecordedStep step_;            // while it is computed
  double recorded_seconds_ = 0;  // of that step
  std::vector<BudgetCurve::Point> points_;
  std::string problem_;
  bool wanted_ = false;
  bool shown_ = false;  // whole, to anybody
};

}  // namespace ebbtide::plugin
