// SessionControl: what a Session answers to those who look on, and what it takes from them while
// the run goes on. Torch-free.
//
//   request ─► view: copies under the session's mutex_, held shortly; written out without it
//           ─► command: checked, waits for the planning thread, answered there
//                budget ─► a plan for it is made ─► due ─► in force when the next step begins
//
// Thread rule: routes() from any thread; what is below each heading as it says. The session's
// mutex_ guards what changes.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "budget_curve.hpp"
#include "ebbtide/metrics/http_server.hpp"
#include "ebbtide/metrics/routes.hpp"
#include "plan_picture.hpp"
#include "rank_socket.hpp"
#include "rank_status.hpp"

namespace ebbtide::plugin {

class Session;
struct Program;

class SessionControl {
 public:
  static constexpr std::size_t kMostWaiting = 8;  // commands; further ones are refused

  // The session must outlive it.
  explicit SessionControl(Session& session);

  const metrics::Routes& routes() const { return routes_; }

  // --- the session begins and ends
  // At its first training op. Where it is found, in words; warns of what is not served.
  std::string serve();
  // The planning thread has ended: who still waits is told so, and nobody is served any more.
  void close();

  // --- training threads, with mutex_ held
  void noteBegin(const allocator::Statistics& memory);
  // A step with a backward pass is over.
  void noteEnd(const allocator::Statistics& memory, double seconds,
               const ExecutorCounters::Totals& done);
  void noteRecorded(std::shared_ptr<const scheduler::Trace> trace, bool first_step);
  // The session has just taken this budget: the plan that was made for it is in force too.
  void takePlan(const std::string& size);
  // From now on steps tell whether it is held.
  void judgeFromNowOn();

  // --- the planning thread
  bool hasWork() const;  // with mutex_ held
  void work() noexcept;  // one piece of it, without

 private:
  struct RecordedStep {
    std::shared_ptr<const scheduler::Trace> trace;  // nullptr: none yet
    bool first_step = false;
  };
  struct BudgetChange {
    std::string size;  // as it was written, "" for none
    std::optional<std::int64_t> bytes;
    RecordedStep step;
    std::shared_ptr<Plan> plan;  // nullptr: nothing needs to be dropped
    std::int64_t plain_peak_bytes = 0, predicted_peak_bytes = 0, smallest_bytes = 0;
  };
  struct CurveOf {
    std::uint64_t program = 0;
    int budget_number = -1;
    bool operator==(const CurveOf&) const = default;
  };

  void addRoutes();
  std::optional<metrics::Response> ofAnotherRank(const metrics::Request& request) const;
  // Why nothing is answered, or nothing changed, now; nothing: all is well.
  std::optional<metrics::Response> gone() const;
  std::optional<metrics::Response> refusal() const;       // mutex_ held
  std::optional<metrics::Response> pauseRefusal() const;  // mutex_ held
  std::int64_t nextStep() const;  // the first one that has not begun; mutex_ held

  // --- views (session_views.cpp)
  metrics::Response status();
  metrics::Response plan();
  metrics::Response curve();
  metrics::Response config() const;
  const Program* program() const;         // that runs; mutex_ held
  std::size_t stepsOfActivePlan() const;  // or of those without one, the last ones; mutex_ held
  void addCurvePoint();
  void drawPlain();

  // --- commands (session_commands.cpp)
  void postBudget(const metrics::Request& request, const metrics::Answer& answer);
  void postReplan(const metrics::Request& request, const metrics::Answer& answer);
  void postPause(const metrics::Request& request, const metrics::Answer& answer);
  metrics::Response replan();
  metrics::Response pause(bool paused);
  void changeBudget(const std::string& size, const metrics::Answer& answer);
  std::int64_t bytesOf(const std::string& size) const;
  void planFor(BudgetChange& change);
  bool isHeld(const BudgetChange& change) const;  // mutex_ held
  bool isHeldNow(const BudgetChange& change) const;
  metrics::Response promise(BudgetChange change);

  Session& session_;
  const PlanSearch curve_search_;
  metrics::Routes routes_;
  const RankSocket socket_;
  const std::string host_, variables_;  // this machine; JSON, as they were when it began
  std::unique_ptr<metrics::HttpServer> server_;
  std::string unix_path_, tcp_address_;  // mutex_ guards these and all below
  std::deque<std::function<void()>> commands_;
  RecordedStep last_;
  std::optional<BudgetChange> change_;  // due
  std::int64_t steps_before_budget_ = 0, violations_before_budget_ = 0;
  bool step_open_ = false;
  RecentSteps recent_;
  allocator::Statistics memory_;                      // when a step last began or ended
  std::shared_ptr<const PlanPicture> plain_picture_;  // of last_, nothing dropped
  std::uint64_t plain_picture_of_ = 0;
  bool draw_plain_ = false;
  std::unique_ptr<BudgetCurve> curve_;  // of the planning thread
  CurveOf curve_of_;
  std::vector<BudgetCurve::Point> curve_points_;
  std::string curve_problem_;
  bool curve_wanted_ = false;
};

}  // namespace ebbtide::plugin
