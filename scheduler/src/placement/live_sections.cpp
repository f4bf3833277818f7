#include "placement/live_sections.hpp"

#include <algorithm>

namespace ebbtide::scheduler {
namespace {

// The last birth before each death that follows a birth: there the live set is maximal.
std::vector<std::int64_t> sectionStarts(std::vector<std::int64_t> births,
                                        std::vector<std::int64_t> deaths) {
  std::sort(births.begin(), births.end());
  std::sort(deaths.begin(), deaths.end());
  std::vector<std::int64_t> starts;
  auto death = deaths.begin();
  for (std::size_t i = 0; i < births.size(); ++i) {
    if (i + 1 < births.size() && births[i + 1] == births[i]) continue;
    death = std::upper_bound(death, deaths.end(), births[i]);
    if (i + 1 == births.size() || *death <= births[i + 1]) starts.push_back(births[i]);
  }
  return starts;
}

}  // namespace

LiveSections liveSections(const PlacementProblem& problem, const std::vector<std::int32_t>& which) {
  std::vector<std::int64_t> births, deaths;
  for (const std::int32_t i : which) {
    births.push_back(problem.buffers[i].lower);
    deaths.push_back(problem.buffers[i].upper);
  }
  const std::vector<std::int64_t> starts = sectionStarts(births, deaths);
  const auto sectionFrom = [&](std::int64_t time) {
    return static_cast<std::int32_t>(std::lower_bound(starts.begin(), starts.end(), time) -
                                     starts.begin());
  };
  LiveSections sections;
  std::vector<Bytes> change(starts.size() + 1, 0);
  for (const std::int32_t i : which) {
    const Buffer& buffer = problem.buffers[i];
    const Bytes unit = problem.alignment_bytes;
    const Bytes bytes = (buffer.bytes + unit - 1) / unit * unit;
    const LiveSpan span{sectionFrom(buffer.lower), sectionFrom(buffer.upper), bytes,
                        buffer.upper - buffer.lower};
    change[span.first] += bytes;
    change[span.end] -= bytes;
    sections.spans.push_back(span);
  }
  for (const std::int32_t i : problem.first) {
    const auto at = std::lower_bound(which.begin(), which.end(), i);
    if (at == which.end() || *at != i) continue;  // it takes nothing
    sections.first.push_back(static_cast<std::int32_t>(at - which.begin()));
  }
  Bytes live = 0;
  for (std::size_t s = 0; s < starts.size(); ++s) {
    sections.load.push_back(live += change[s]);
    sections.load_bytes = std::max(sections.load_bytes, live);
  }
  return sections;
}

}  // namespace ebbtide::scheduler
