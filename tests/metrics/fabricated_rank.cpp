#include "fabricated_rank.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <utility>

#include "ebbtide/metrics/pages.hpp"
#include "ebbtide/scheduler/budget_form.hpp"

namespace ebbtide::metrics::test {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr std::int64_t kBaseBytes = 4 * kGiB;
constexpr std::int64_t kMarginBytes = 256 * kMiB;
constexpr std::int64_t kMostBudget = std::int64_t{1} << 53;
constexpr std::int64_t kFloorBytes = 9 * kGiB;  // the smallest budget with a plan
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

Response reply(const Json& body, int status = 200) {
  return {.status = status, .body = body.dump() + "\n"};
}

std::int64_t scaled(std::int64_t bytes, double factor) {
  return static_cast<std::int64_t>(static_cast<double>(bytes) * factor);
}

// A budget in any of its forms, or bytes; "none" is nothing. False: it is no budget.
bool parseBudget(const Json& given, const scheduler::BudgetFacts& facts,
                 std::optional<std::int64_t>& bytes) try {
  bytes.reset();
  if (given.is_number()) {
    // 1.0 is an integer, for JSON Schema; above 2^53 a double is not what was given.
    const auto number = given.get<double>();
    if (number != std::floor(number) || given > kMostBudget || !(number >= 1)) return false;
    bytes = static_cast<std::int64_t>(number);
    return true;
  }
  if (!given.is_string()) return false;
  scheduler::refuseFewBytes("budget", given);
  bytes = scheduler::resolve(scheduler::BudgetForm::parse("budget", given), facts);
  return true;
} catch (const std::invalid_argument&) {
  return false;
}

Json bodyOf(const Request& request) {
  return request.body.empty() ? Json::object()
                              : Json::parse(request.body, nullptr, /*allow_exceptions=*/false);
}

bool isForceWell(const nlohmann::json& body) {
  return !body.contains("force") || body["force"].is_boolean();
}

}  // namespace

FabricatedRank::FabricatedRank(Place place)
    : place_(std::move(place)), series_({place_.rank, place_.rank, place_.job_id}) {
  if (!is(1)) budget_bytes_ = 16 * kGiB;
  paused_ = is(2);
  series_.setBuild("0.1.0", "2.11.0");
  if (is(6)) series_.setStages({0, 4});
  if (is(6)) series_.setGpu(place_.rank, "GPU-00000000-" + std::to_string(place_.rank));
  for (int op = 0; op < place_.ops; ++op)
    ops_.push_back(series_.opNumber("aten::op" + std::to_string(op)));
}

std::int64_t FabricatedRank::steps() const {
  const std::chrono::duration<double> age = std::chrono::steady_clock::now() - started_;
  if (is(5)) return 0;
  return 150 + static_cast<std::int64_t>(age.count() / place_.step_seconds);
}

double FabricatedRank::stepSeconds(std::int64_t step) const {
  const double wave = 1 + 0.03 * std::sin(static_cast<double>(step * 7 + place_.rank));
  return place_.step_seconds * wave * (is(3) ? 1.8 : 1);
}

std::int64_t FabricatedRank::plainBytes() const {
  return 24 * kGiB + place_.rank % 5 * 512 * kMiB;
}

std::int64_t FabricatedRank::peakBytes(std::int64_t step) const {
  const std::int64_t held =
      budget_bytes_ && !paused_ ? std::min(*budget_bytes_, plainBytes()) : plainBytes();
  return scaled(held, (is(4) ? 1.02 : 0.97) + 0.005 * std::sin(static_cast<double>(step)));
}

// Nothing to recompute at the plain peak, 45 % of a step at the floor.
double FabricatedRank::overheadAt(std::int64_t budget_bytes) const {
  const double missing = static_cast<double>(plainBytes() - budget_bytes) /
                         static_cast<double>(plainBytes() - kFloorBytes);
  return missing <= 0 ? 0 : 0.45 * missing * missing;
}

Json FabricatedRank::memory() {
  const std::int64_t peak = peakBytes(steps());
  return {{"budget_bytes", budget_bytes_ ? Json(*budget_bytes_) : Json()},
          {"allocated_bytes", scaled(peak, 0.6)},
          {"mapped_bytes", scaled(peak, 0.98)},
          {"cached_bytes", scaled(peak, 0.38)},
          {"peak_allocated_bytes", peak},
          {"peak_mapped_bytes", scaled(peak, 1.01)},
          {"predicted_peak_bytes", planSummary().is_null() ? Json() : Json(scaled(peak, 0.99))},
          {"base_bytes", kBaseBytes},
          {"margin_bytes", kMarginBytes},
          {"step_peak_bytes", peak - kBaseBytes}};
}

Json FabricatedRank::totals() {
  const std::int64_t done = steps();
  const bool planned = !planSummary().is_null();
  return {{"recomputed_ops", planned ? done * 96 : 0},
          {"recompute_seconds", planned ? static_cast<double>(done) * 0.06 : 0.0},
          {"replays_ahead", planned ? done * 4 : 0},
          {"decoded_values", planned ? done * 12 : 0},
          {"offloaded_bytes", is(6) ? done * 64 * kMiB : 0},
          {"spilled_bytes", is(4) ? 512 * kMiB : 0},
          {"budget_violations", is(4) ? 3 : 0},
          {"replans", replans_},
          {"followed_steps", planned ? done : 0},
          {"ooms", is(4) ? 1 : 0},
          {"audited", planned ? done * 2 : 0},
          {"rejected", is(3) ? 2 : 0}};
}

Json FabricatedRank::planSummary() {
  if (!budget_bytes_ || paused_ || steps() == 0) return nullptr;
  return {{"planner", "auto"},
          {"predicted_peak_bytes", scaled(std::min(*budget_bytes_, plainBytes()), 0.96)},
          {"overhead_ratio", overheadAt(*budget_bytes_)},
          {"recomputed_ops", 96},
          {"offloaded_bytes", is(6) ? 64 * kMiB : 0},
          {"active_from_step", 3}};
}

Json FabricatedRank::history() {
  Json history = {{"steps", Json::array()},
                  {"step_seconds", Json::array()},
                  {"peak_bytes", Json::array()},
                  {"recompute_seconds", Json::array()}};
  const std::int64_t last = steps();
  for (std::int64_t step = std::max<std::int64_t>(1, last - 119); step <= last; ++step) {
    history["steps"].push_back(step);
    history["step_seconds"].push_back(stepSeconds(step));
    history["peak_bytes"].push_back(peakBytes(step));
    history["recompute_seconds"].push_back(budget_bytes_ ? stepSeconds(step) * 0.12 : 0.0);
  }
  return history;
}

Json FabricatedRank::status() {
  const std::int64_t done = steps();
  const auto seconds = [&](double value) { return done == 0 ? Json() : Json(value); };
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  const std::string gpu = std::to_string(place_.rank);
  return {{"rank", place_.rank},
          {"local_rank", place_.rank},
          {"world_size", place_.world_size},
          {"local_world_size", place_.world_size},
          {"job_id", place_.job_id},
          {"host", "fabricated"},
          {"pid", ::getpid()},
          {"version", "0.1.0"},
          {"torch_version", "2.11.0"},
          {"device", is(6) ? "cuda:" + gpu : "cpu"},
          {"gpu", is(6) ? Json{{"index", place_.rank}, {"uuid", "GPU-00000000-" + gpu}} : Json()},
          {"stages", is(6) ? Json{0, 4} : Json::array()},
          {"mode", mode()},
          {"state", done == 0 ? "starting"
                    : paused_ ? "paused"
                              : "training"},
          {"on_infeasible", "stop"},
          {"steps", done},
          {"last_step_unix_seconds", seconds(now.count())},
          {"step_seconds",
           {{"first", seconds(stepSeconds(1) * 1.5)},
            {"last", seconds(stepSeconds(done))},
            {"median", seconds(stepSeconds(0))}}},
          {"memory", memory()},
          {"totals", totals()},
          {"recompute_ratio", planSummary().is_null() ? 0.0 : 0.12},
          {"plan", planSummary()},
          {"smallest_feasible_budget_bytes", done == 0 ? Json() : Json(kFloorBytes)},
          {"history", history()}};
}

// A step's hill: forward fills, backward empties.
Json FabricatedRank::timeline() {
  Json timeline = {{"seconds", Json::array()},
                   {"live_bytes", Json::array()},
                   {"mapped_bytes", Json::array()},
                   {"budget_bytes", budget_bytes_ ? Json(*budget_bytes_) : Json()}};
  const std::int64_t peak = peakBytes(steps());
  constexpr int kPoints = 400;
  for (int point = 0; point < kPoints; ++point) {
    const double at = static_cast<double>(point) / (kPoints - 1);
    const double hill = std::sin(at * 3.14159265) * (1 + 0.05 * std::sin(at * 90));
    timeline["seconds"].push_back(at * stepSeconds(0));
    timeline["live_bytes"].push_back(kBaseBytes +
                                     scaled(peak - kBaseBytes, std::clamp(hill, 0.0, 1.0)));
    timeline["mapped_bytes"].push_back(scaled(peak, 1.01));
  }
  return timeline;
}

Json FabricatedRank::areas() {
  constexpr int kPoints = 120;
  const std::vector<std::pair<std::string, std::string>> labels = {
      {"base", "base"},          {"aten::gelu", "recomputed"},
      {"aten::addmm", "kept"},   {"aten::bmm", "offloaded"},
      {"aten::relu", "encoded"}, {"aten::native_layer_norm", "kept"}};
  Json all = Json::array();
  const std::int64_t share = (peakBytes(steps()) - kBaseBytes) / 5;
  for (const auto& [label, action] : labels) {
    Json bytes = Json::array();
    for (int point = 0; point < kPoints; ++point) {
      const double hill = std::max(0.0, std::sin(point * 3.14159265 / (kPoints - 1)));
      bytes.push_back(action == "base" ? kBaseBytes : scaled(share, hill));
    }
    all.push_back({{"label", label}, {"action", action}, {"live_bytes", bytes}});
  }
  return all;
}

Json FabricatedRank::gantt() {
  if (!is(6)) return nullptr;
  Json rows = Json::array();
  for (int rank = 0; rank < 4; ++rank) {
    Json slices = Json::array();
    const auto slice = [&](const char* kind, Json microbatch, double start, double seconds) {
      slices.push_back({{"kind", kind},
                        {"microbatch", std::move(microbatch)},
                        {"stage", rank},
                        {"start_seconds", start},
                        {"seconds", seconds}});
    };
    if (rank > 0) slice("wait", nullptr, 0, rank * 0.02);
    for (int microbatch = 0; microbatch < 4; ++microbatch) {
      slice("forward", microbatch, rank * 0.02 + microbatch * 0.02, 0.02);
      slice("recompute", microbatch, 0.2 - rank * 0.02 + microbatch * 0.05, 0.01);
      slice("backward", microbatch, 0.21 - rank * 0.02 + microbatch * 0.05, 0.04);
    }
    rows.push_back({{"name", "rank " + std::to_string(rank)}, {"slices", slices}});
  }
  return {{"rows", rows}};
}

Json FabricatedRank::plan() {
  Json summary = planSummary();
  if (!summary.is_null()) {
    summary.update({{"plain_peak_bytes", plainBytes()},
                    {"decoded_values", 12},
                    {"offloaded_values", is(6) ? 2 : 0},
                    {"replays_ahead", 4},
                    {"plan_seconds", 0.8}});
  }
  const bool started = steps() > 0;
  const bool planned = !summary.is_null();
  Json seconds = Json::array();
  for (int point = 0; planned && point < 120; ++point) {
    seconds.push_back(point * stepSeconds(0) / 119);
  }
  Json recomputed = Json::array();
  if (planned) {
    recomputed = {
        {{"op", "aten::gelu"}, {"ops", 48}, {"seconds", 0.03}, {"freed_bytes", 3 * kGiB}},
        {{"op", "aten::native_layer_norm"}, {"ops", 40}, {"seconds", 0.02}, {"freed_bytes", kGiB}},
        {{"op", "aten::_softmax"}, {"ops", 8}, {"seconds", 0.01}, {"freed_bytes", 2 * kGiB}}};
  }
  return {{"rank", place_.rank},
          {"mode", mode()},
          {"plan", summary},
          {"timeline", started ? timeline() : Json()},
          {"areas", planned ? areas() : Json::array()},
          {"area_seconds", seconds},
          {"recomputed", recomputed},
          {"gantt", started ? gantt() : Json()}};
}

Json FabricatedRank::curve() {
  if (steps() == 0) {
    return {{"rank", place_.rank},
            {"state", "none"},
            {"why", "no step has been recorded yet"},
            {"points", Json::array()},
            {"present", nullptr}};
  }
  Json points = Json::array();
  for (int point = 0; point < 32; ++point) {
    const std::int64_t budget = kFloorBytes + (plainBytes() - kFloorBytes) / 31 * point;
    points.push_back({{"budget_bytes", budget},
                      {"predicted_peak_bytes", scaled(budget, 0.97)},
                      {"overhead_ratio", overheadAt(budget)},
                      {"step_seconds", stepSeconds(0) * (1 + overheadAt(budget))}});
  }
  return {{"rank", place_.rank},
          {"state", "ready"},
          {"why", ""},
          {"points", points},
          {"present",
           {{"budget_bytes", budget_bytes_ ? Json(*budget_bytes_) : Json()},
            {"peak_bytes", peakBytes(steps())},
            {"step_seconds", stepSeconds(steps())},
            {"overhead_ratio", stepSeconds(steps()) / stepSeconds(0) - 1}}}};
}

Json FabricatedRank::config() {
  return {{"rank", place_.rank},
          {"variables",
           {{{"name", "EBBTIDE_BUDGET"}, {"value", is(1) ? "" : "16GiB"}, {"given", !is(1)}},
            {{"name", "EBBTIDE_PORT"}, {"value", "9464"}, {"given", false}},
            {{"name", "EBBTIDE_LOG"}, {"value", "warning"}, {"given", true}}}},
          {"sockets",
           {{"unix", place_.socket}, {"tcp", place_.tcp.empty() ? Json() : Json(place_.tcp)}}}};
}

// By the product's own series: how they are called, and how they are written, is not made up.
std::string FabricatedRank::metrics(Format format) {
  const Json memory = this->memory();
  const auto set = [&](Gauge gauge, const char* name) {
    series_.set(gauge, memory[name].is_null() ? kUnknown : memory[name].get<double>());
  };
  set(Gauge::kAllocatedBytes, "allocated_bytes");
  set(Gauge::kMappedBytes, "mapped_bytes");
  set(Gauge::kCachedBytes, "cached_bytes");
  set(Gauge::kPeakBytes, "peak_allocated_bytes");
  set(Gauge::kMappedPeakBytes, "peak_mapped_bytes");
  set(Gauge::kExternalMarginBytes, "margin_bytes");
  set(Gauge::kPredictedPeakBytes, "predicted_peak_bytes");
  series_.setBudgetBytes(budget_bytes_.value_or(std::numeric_limits<std::int64_t>::max()));
  series_.setBytes(Gauge::kStepPeakBytes, peakBytes(steps()));
  series_.set(Gauge::kFragmentationRatio, 0.02);
  const Json plan = planSummary();
  series_.setPlan(plan.is_null() ? "" : plan["planner"].get<std::string>(), !is(4));
  series_.set(Gauge::kOverheadRatio, plan.is_null() ? 0 : plan["overhead_ratio"].get<double>());
  countSteps();
  return series_.render(format);
}

// Those that have ended since the last time.
void FabricatedRank::countSteps() {
  const std::int64_t done = steps();
  if (done == counted_steps_) return;
  const Json now = totals();
  const auto raise = [&](Counter counter, double total) { series_.raiseTo(counter, total); };
  const double recompute_seconds = now["recompute_seconds"];
  const double new_ns = std::max(0.0, recompute_seconds - counted_recompute_seconds_) * 1e9;
  counted_recompute_seconds_ = recompute_seconds;
  // The first one takes most, the last one nearly nothing: 1 + 2 + ... + n parts of the whole.
  const double parts = 0.5 * place_.ops * (place_.ops + 1);
  for (std::size_t op = 0; new_ns > 0 && op < ops_.size(); ++op) {
    const double part = static_cast<double>(ops_.size() - op) / parts;
    series_.addReplay(ops_[op], static_cast<std::int64_t>(new_ns * part));
  }
  raise(Counter::kRecomputeSeconds, recompute_seconds);
  raise(Counter::kRecomputedOps, now["recomputed_ops"]);
  raise(Counter::kReplaysAhead, now["replays_ahead"]);
  raise(Counter::kDecodedValues, now["decoded_values"]);
  raise(Counter::kOffloadedBytes, now["offloaded_bytes"]);
  raise(Counter::kSpilledBytes, now["spilled_bytes"]);
  raise(Counter::kBudgetViolations, now["budget_violations"]);
  raise(Counter::kOutOfMemory, now["ooms"]);
  raise(Counter::kReplans, now["replans"]);
  raise(Counter::kFollowedSteps, now["followed_steps"]);
  raise(Counter::kAudits, now["audited"]);
  raise(Counter::kAuditFailures, now["rejected"]);
  raise(Counter::kAllocations, static_cast<double>(done) * 2000);
  while (counted_steps_ < done) series_.addStep(stepSeconds(++counted_steps_));
  series_.noteStepEnd();
  series_.setBytes(Gauge::kSmallestBudgetBytes, kFloorBytes);
  const std::chrono::duration<double> now_at = std::chrono::system_clock::now().time_since_epoch();
  series_.set(Gauge::kLastStepTimestamp, now_at.count());
}

Response FabricatedRank::setBudget(const Request& request) {
  const Json body = bodyOf(request);
  std::optional<std::int64_t> bytes;
  if (!body.is_object() || !body.contains("budget") || !isForceWell(body) ||
      !parseBudget(body["budget"],
                   {.memory_bytes = 80 * kGiB,
                    .available_bytes = 76 * kGiB,
                    .plain_peak_bytes = plainBytes(),
                    .activation_bytes = plainBytes() / 2},
                   bytes)) {
    return errorResponse(refusals::kBody,
                         "the body is not {\"budget\": \"30GiB\"}, or another form of a budget");
  }
  if (bytes && *bytes < kFloorBytes) {
    const Refusal& refusal = refusals::kBudgetTooSmall;
    return reply({{"code", refusal.code},
                  {"error", "no plan keeps within that budget"},
                  {"smallest_feasible_budget_bytes", kFloorBytes}},
                 refusal.status);
  }
  if (is(4) && !bytes && body.value("force", Json(false)) != true)
    return errorResponse(refusals::kMoreThanThereIs,
                         "without a budget a step takes more than there is");
  const auto number = [](const std::optional<std::int64_t>& value) {
    return value ? Json(*value) : Json();
  };
  const Json before = number(budget_bytes_);
  budget_bytes_ = bytes;
  const bool limited = bytes.has_value();
  return reply(
      {{"budget_bytes", number(bytes)},
       {"before_bytes", before},
       {"from_step", steps() + 1},
       {"predicted_peak_bytes", limited ? Json(std::min(*bytes, plainBytes())) : Json()},
       {"overhead_ratio", limited ? Json(overheadAt(*bytes)) : Json()},
       {"step_seconds", limited ? Json(stepSeconds(0) * (1 + overheadAt(*bytes))) : Json()}});
}

Response FabricatedRank::setPaused(const Request& request) {
  const Json body = bodyOf(request);
  if (!body.is_object() || !body.contains("paused") || !body["paused"].is_boolean() ||
      !isForceWell(body)) {
    return errorResponse(refusals::kBody, "the body is not {\"paused\": true} or false");
  }
  paused_ = body["paused"];
  return reply({{"paused", paused_}, {"from_step", steps() + 1}});
}

Response FabricatedRank::trace(const Request& request) {
  const Json body = bodyOf(request);
  const Json steps_wanted = body.is_object() ? body.value("steps", Json()) : Json();
  if (!steps_wanted.is_number() || steps_wanted < 1 || steps_wanted > 100 ||
      steps_wanted != std::floor(steps_wanted.get<double>())) {
    return errorResponse(refusals::kBody, "the body is not {\"steps\": 1 to 100}");
  }
  return reply({{"path", "ebbtide-trace-" + std::to_string(place_.rank) + ".json"},
                {"from_step", steps() + 1},
                {"steps", static_cast<int>(steps_wanted.get<double>())}},
               202);
}

Routes FabricatedRank::routes() {
  Routes routes;
  addPages(routes);
  const auto get = [&](const char* path, Json (FabricatedRank::*make)()) {
    routes.get(path, [this, make](const Request&) {
      const std::lock_guard lock(mutex_);
      return reply((this->*make)());
    });
  };
  get("/v1/status", &FabricatedRank::status);
  get("/v1/plan", &FabricatedRank::plan);
  get("/v1/curve", &FabricatedRank::curve);
  get("/v1/config", &FabricatedRank::config);
  routes.get("/metrics", [this](const Request& request) {
    const std::lock_guard lock(mutex_);
    const Format format = formatFor(request.accept);
    return Response{.content_type = contentTypeOf(format), .body = metrics(format)};
  });
  const auto post = [&](const char* path, Response (FabricatedRank::*change)(const Request&)) {
    routes.post(path, [this, change](const Request& request, const Answer& answer) {
      const std::lock_guard lock(mutex_);
      answer((this->*change)(request));
    });
  };
  post("/v1/budget", &FabricatedRank::setBudget);
  post("/v1/pause", &FabricatedRank::setPaused);
  post("/v1/trace", &FabricatedRank::trace);
  const auto object = [](const Request& request) { return bodyOf(request).is_object(); };
  routes.post("/v1/replan", [this, object](const Request& request, const Answer& answer) {
    if (!object(request)) return answer(errorResponse(refusals::kBody, "the body is not {}"));
    const std::lock_guard lock(mutex_);
    ++replans_;
    answer(reply({{"from_step", steps() + 1}}, 202));
  });
  routes.post("/v1/snapshot", [this, object](const Request& request, const Answer& answer) {
    if (!object(request)) return answer(errorResponse(refusals::kBody, "the body is not {}"));
    answer(reply({{"path", "ebbtide-snapshot-" + std::to_string(place_.rank) + ".pickle"},
                  {"from_step", steps() + 1},
                  {"steps", 1}}));
  });
  return routes;
}

}  // namespace ebbtide::metrics::test
