#include "pipeline_trace.hpp"

#include <fmt/format.h>

#include <array>
#include <iterator>

namespace ebbtide::cli {
namespace {

using namespace scheduler;

constexpr std::array<const char*, 4> kNames = {"forward", "backward", "input backward",
                                               "weight backward"};

double microseconds(Nanoseconds ns) {
  return static_cast<double>(ns) / 1e3;
}

}  // namespace

std::string toTrace(const PipelineJob& job, const PipelineSimulation& simulation) {
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  const auto out = std::back_inserter(text);
  const auto slice = [&](std::size_t rank, const std::string& name, const char* category,
                         Nanoseconds begin, Nanoseconds end, const PipelineAction& action) {
    fmt::format_to(out,
                   "{{\"ph\":\"X\",\"pid\":{},\"tid\":0,\"name\":\"{}\",\"cat\":\"{}\","
                   "\"ts\":{:.3f},\"dur\":{:.3f},\"args\":{{\"stage\":{},\"microbatch\":{}}}}},\n",
                   rank, name, category, microseconds(begin), microseconds(end - begin),
                   action.stage, action.microbatch);
  };
  for (std::size_t rank = 0; rank < job.ranks(); ++rank) {
    fmt::format_to(out,
                   "{{\"ph\":\"M\",\"pid\":{0},\"name\":\"process_name\",\"args\":{{\"name\":"
                   "\"rank {0}\"}}}},\n",
                   rank);
    for (std::size_t i = 0; i < job.order[rank].size(); ++i) {
      const PipelineAction& action = job.order[rank][i];
      const SimulatedAction& times = simulation.ranks[rank].actions[i];
      for (const auto& [begin_ns, end_ns] : replayTimes(times)) {
        slice(rank, "recompute " + toText(action), "recompute", begin_ns, end_ns, action);
      }
      slice(rank, toText(action), kNames[static_cast<std::size_t>(action.kind)], times.begin_ns,
            times.end_ns, action);
      fmt::format_to(out,
                     "{{\"ph\":\"C\",\"pid\":{},\"name\":\"bytes\",\"ts\":{:.3f},\"args\":{{"
                     "\"most\":{},\"budget\":{}}}}},\n",
                     rank, microseconds(times.replays_begin_ns), times.most_bytes,
                     job.budgets[rank]);
    }
  }
  fmt::format_to(out,
                 "{{\"ph\":\"M\",\"pid\":0,\"name\":\"process_labels\",\"args\":{{\"labels\":"
                 "\"simulated\"}}}}\n]}}\n");
  return text;
}

}  // namespace ebbtide::cli
