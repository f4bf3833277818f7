#include "job/job_plan.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "ebbtide/scheduler/most_amount.hpp"
#include "job/job_document.hpp"
#include "job/job_store.hpp"

namespace ebbtide::plugin {
namespace {

using Numbers = std::vector<std::int64_t>;
using Range = JobDocument::Range;

constexpr std::size_t kMostChoices = std::size_t{1} << 23;
constexpr std::int64_t kMostUnitNs = std::int64_t{1} << 40;  // a quarter of an hour
constexpr std::int64_t kMostFree = 1 << 20;
constexpr Range kAmount{0, scheduler::kMostAmount};  // as scheduler::checkJob()

}  // namespace

std::string toText(const JobPlan& plan) {
  Numbers peak, own, chunks, free, point, repeated;  // points as runs: neighbours are mostly alike
  for (const JobPlan::Rank& rank : plan.ranks) {
    peak.push_back(rank.peak_bytes);
    own.push_back(rank.own ? 1 : 0);
    free.insert(free.end(), rank.free.begin(), rank.free.end());
    chunks.push_back(static_cast<std::int64_t>(rank.points.size()));
    for (const std::int32_t of : rank.points) {
      if (point.empty() || point.back() != of) {
        point.push_back(of);
        repeated.push_back(0);
      }
      ++repeated.back();
    }
  }
  const nlohmann::json object{{"makespan_ns", plan.makespan_ns},
                              {"own_makespan_ns", plan.own_makespan_ns},
                              {"bound_ns", plan.bound_ns},
                              {"method", plan.method},
                              {"peak", peak},
                              {"own", own},
                              {"chunks", chunks},
                              {"free_unit_ns", plan.free_unit_ns},
                              {"free", free},
                              {"point", point},
                              {"repeated", repeated}};
  return object.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
}

JobPlan planFromText(std::string_view text) {
  if (text.size() > kMostStoredBytes) throw std::invalid_argument("it is too long");
  const JobDocument document(text);
  JobPlan plan;
  plan.makespan_ns = document.number("makespan_ns", kAmount);
  plan.own_makespan_ns = document.number("own_makespan_ns", kAmount);
  plan.bound_ns = document.number("bound_ns", kAmount);
  plan.method = document.text("method", 1024);
  const Numbers peak = document.numbers("peak", kMostRanks, kAmount);
  const Numbers own = document.column("own", peak.size(), {0, 1});
  const Numbers chunks = document.column("chunks", peak.size(), {0, kMostChoices});
  plan.free_unit_ns = document.number("free_unit_ns", {1, kMostUnitNs});
  const Numbers free = document.numbers("free", kMostChoices, {0, kMostFree});
  const Numbers point = document.numbers("point", kMostChoices, {0, 1 << 20});
  const Numbers repeated = document.column("repeated", point.size(), {1, kMostChoices});
  std::size_t run = 0, total = 0;
  std::int64_t left = run < repeated.size() ? repeated[run] : 0;
  for (std::size_t rank = 0; rank < peak.size(); ++rank) {
    JobPlan::Rank& of = plan.ranks.emplace_back();
    of.peak_bytes = peak[rank];
    of.own = own[rank] == 1;
    const std::size_t first = total;
    total += static_cast<std::size_t>(chunks[rank]);
    if (total > kMostChoices) throw std::invalid_argument("\"chunks\" are too many");
    if (total > free.size()) throw std::invalid_argument("\"free\" has fewer than \"chunks\" says");
    for (std::size_t i = first; i < total; ++i)
      of.free.push_back(static_cast<std::int32_t>(free[i]));
    for (std::int64_t i = 0; i < chunks[rank]; ++i) {
      if (left == 0) throw std::invalid_argument("there are fewer points than \"chunks\" says");
      of.points.push_back(static_cast<std::int32_t>(point[run]));
      if (--left == 0 && ++run < repeated.size()) left = repeated[run];
    }
  }
  if (total < free.size()) throw std::invalid_argument("\"free\" has more than \"chunks\" says");
  if (left != 0) throw std::invalid_argument("there are more points than \"chunks\" says");
  return plan;
}

std::optional<std::string> planProblem(const JobPlan& plan, const RankReport& own) {
  if (plan.ranks.size() != static_cast<std::size_t>(own.size))
    return fmt::format("it is for {} ranks, not for {}", plan.ranks.size(), own.size);
  const JobPlan::Rank& mine = plan.ranks[static_cast<std::size_t>(own.rank)];
  if (mine.points.size() != own.chunks.size() || mine.free.size() != own.chunks.size()) {
    return fmt::format("it has {} choices for rank {}, which runs {} microbatches of stages",
                       mine.points.size(), own.rank, own.chunks.size());
  }
  for (std::size_t i = 0; i < mine.points.size(); ++i) {
    const auto& of = own.classes[static_cast<std::size_t>(own.chunks[i].chunk_class)];
    if (static_cast<std::size_t>(mine.points[i]) >= of.points.size())
      return fmt::format("it takes point {} of a curve with {}", mine.points[i], of.points.size());
  }
  return std::nullopt;
}

}  // namespace ebbtide::plugin
