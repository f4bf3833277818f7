#include "control/trace_routes.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "control/request_fields.hpp"

namespace ebbtide::plugin {
namespace {

using metrics::Response;
namespace refusals = metrics::refusals;

const metrics::Refusal& refusalFor(AskedSteps::Started::Why why) {
  using Why = AskedSteps::Started::Why;
  return why == Why::kEnded    ? refusals::kRunEnds
         : why == Why::kFailed ? refusals::kCannotRecord
                               : refusals::kNotNow;
}

// A path's bytes need not be text.
Response answerOf(int status, const AskedSteps::Started& started, std::int64_t steps) {
  if (!started.error.empty()) return metrics::errorResponse(refusalFor(started.why), started.error);
  const nlohmann::json body = {
      {"path", started.path}, {"from_step", started.from_step}, {"steps", steps}};
  return {.status = status,
          .body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"};
}

Response startTrace(RunTrace& trace, const std::string& text) {
  const RequestFields body = readFields(text, "steps");
  const std::string accepted = fmt::format(
      "the body is {{\"steps\": n}}, n a whole number from 1 to {}", RunTrace::kMostSteps);
  if (!body.problem.empty()) return metrics::errorResponse(refusals::kBody, accepted);
  const nlohmann::json& steps = body.fields["steps"];
  const bool whole = steps.is_number_unsigned();  // as the parser has it: no sign, no point
  if (!whole || steps < 1U || steps > static_cast<unsigned>(RunTrace::kMostSteps))
    return metrics::errorResponse(refusals::kBody, accepted);
  const auto count = steps.get<std::int64_t>();
  return answerOf(202, trace.start(count), count);
}

Response postSnapshot(MemorySnapshots& snapshots, const std::string& text) {
  const RequestFields body = readFields(text, nullptr, {"path"});
  if (body.has("path"))
    return metrics::errorResponse(refusals::kBody,
                                  "only the process itself names the file: ebbtide.snapshot()");
  if (!body.problem.empty())
    return metrics::errorResponse(refusals::kBody, "the body is {}, or nothing");
  return startSnapshot(snapshots, "");
}

}  // namespace

metrics::Response startSnapshot(MemorySnapshots& snapshots, const std::string& path) {
  return answerOf(200, snapshots.start(path), 1);
}

void addTraceRoutes(metrics::Routes& routes, RunTrace& trace, MemorySnapshots& snapshots,
                    const RankCheck& of_another_rank) {
  routes.post("/v1/trace", [&trace, of_another_rank](const metrics::Request& request,
                                                     const metrics::Answer& answer) {
    const auto why = of_another_rank(request);
    answer(why ? *why : startTrace(trace, request.body));
  });
  routes.post("/v1/snapshot", [&snapshots, of_another_rank](const metrics::Request& request,
                                                            const metrics::Answer& answer) {
    const auto why = of_another_rank(request);
    answer(why ? *why : postSnapshot(snapshots, request.body));
  });
}

}  // namespace ebbtide::plugin
