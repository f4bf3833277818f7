// SessionControl: what a Session answers to those who look on, and what it takes from them while
// the run goes on. Torch-free.
//
//   request ─► view: copies with the session's guard held, shortly; written out without it
//           ─► command: checked, waits for the planning thread, answered there
//                budget ─► a plan for it is made ─► due ─► in force when the next step begins
//
// Thread rule: the session's routes from any thread, the rest as RunControl says. The session's
// guard guards what changes.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/rank_socket.hpp"
#include "control/asked_curve.hpp"
#include "control/program_needs.hpp"
#include "control/rank_status.hpp"
#include "ebbtide/metrics/http_server.hpp"
#include "ebbtide/metrics/routes.hpp"
#include "ebbtide/scheduler/budget_form.hpp"
#include "plan/plan_picture.hpp"
#include "runtime/run/run_control.hpp"
#include "runtime/run_view.hpp"
#include "runtime/steps/recorded_steps.hpp"

namespace ebbtide::plugin {

class SessionControl final : public RunControl {
 public:
  static constexpr std::size_t kMostWaiting = 8;  // commands; further ones are refused

  // The session must outlive it.
  explicit SessionControl(Session& session);
  static std::unique_ptr<RunControl> makeFor(Session& session) {
    return std::make_unique<SessionControl>(session);
  }

  Served serve(bool on_any_port) override;
  void close() override;
  void takePlan(const Held& held, const std::string& size) override;
  bool hasWork(const Held& held) const override;
  void work() noexcept override;

 private:
  struct BudgetChange {
    std::string size;  // as it was written, "" for none
    std::optional<std::int64_t> bytes;
    std::vector<ProgramChange> programs;               // all that run; what needs most is the first
    std::int64_t held_bytes = 0;                       // proved when it was asked; 0: none
    std::int64_t least_bytes = 0, smallest_bytes = 0;  // less is refused; what is told
  };
  void addRoutes();
  std::optional<metrics::Response> ofAnotherRank(const metrics::Request& request) const;
  // Why nothing is answered, or nothing changed, now; nothing: all is well.
  std::optional<metrics::Response> gone() const;
  std::optional<metrics::Response> refusal(const RunView& run) const;
  static std::optional<metrics::Response> pauseRefusal(const RunView& run);

  // --- answers (session_answers.cpp)
  metrics::Response status();
  metrics::Response plan();
  metrics::Response curve();
  metrics::Response config() const;
  static double secondsOf(const scheduler::Trace& trace) {
    return static_cast<double>(trace.duration_ns) * 1e-9;
  }
  void drawPlain() noexcept;

  // --- commands (session_commands.cpp)
  void postBudget(const metrics::Request& request, const metrics::Answer& answer);
  void postReplan(const metrics::Request& request, const metrics::Answer& answer);
  void postPause(const metrics::Request& request, const metrics::Answer& answer);
  metrics::Response replan();
  metrics::Response pauseNow(const Held& held, bool paused);
  void planLater(std::function<void()> command, const metrics::Answer& answer);
  void changeBudget(const scheduler::BudgetForm& form, bool force, const metrics::Answer& answer);
  // Unless it was told to go on since then.
  void pauseWhereItFits(const metrics::Answer& answer, std::int64_t resumed);
  // Why these must not run under such a budget, or none; nothing: they may.
  std::optional<metrics::Response> overfills(const std::vector<ProgramChange>& programs,
                                             std::optional<std::int64_t> budget) const;
  std::optional<std::int64_t> bytesOf(const scheduler::BudgetForm& form,
                                      const std::vector<RecordedStep>& recorded) const;
  void planFor(BudgetChange& change);
  void planFor(ProgramChange& program, std::int64_t cap);
  static bool isHeld(const RunView& run, const BudgetChange& change);
  RunView viewNow() const;  // takes the guard
  metrics::Response promise(BudgetChange change);
  const ProgramChange& shownOf(const BudgetChange& change) const;
  nlohmann::json foretold(const RunView& run, const BudgetChange& change) const;
  void takePlan(const Held& held, const ProgramChange& program);

  Session& session_;
  const ProgramNeeds needs_;
  AskedCurve curve_{session_, needs_};
  metrics::Routes& routes_;             // the session's
  const std::string host_, variables_;  // this machine; JSON, as they were when it began
  std::unique_ptr<metrics::HttpServer> server_;
  std::string unix_path_, tcp_address_;  // the session's guard guards these and all below
  std::deque<std::function<void()>> commands_;
  std::optional<BudgetChange> change_;                // due
  std::int64_t resumed_ = 0;                          // how often it was told to go on
  std::shared_ptr<const PlanPicture> plain_picture_;  // nothing dropped; nullptr: not to be drawn
  std::optional<std::uint64_t> plain_picture_of_;     // nothing: none is drawn yet
  bool draw_plain_ = false;                           // until it is
};

}  // namespace ebbtide::plugin
