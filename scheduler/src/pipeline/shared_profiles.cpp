#include "pipeline/shared_profiles.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace ebbtide::scheduler {
namespace {

std::vector<Nanoseconds> timesOf(const StageProfile& profile) {
  std::vector<Nanoseconds> times = {profile.forward_ns, profile.input_backward_ns,
                                    profile.weight_backward_ns, profile.tail_ns};
  for (const StagePoint& point : profile.points) times.push_back(point.recompute_ns);
  return times;
}

std::vector<Bytes> bytesOf(const StageProfile& profile) {
  std::vector<Bytes> bytes = {profile.fixed_bytes, profile.output_bytes, profile.weight_held_bytes};
  for (const StagePoint& point : profile.points) {
    bytes.insert(bytes.end(),
                 {point.held_bytes, point.forward_bytes, point.backward_bytes, point.ahead_bytes});
  }
  return bytes;
}

bool isNear(Nanoseconds a, Nanoseconds b) {
  return std::abs(a - b) <= std::max(a, b) / 20;
}

bool areAlike(const StageProfile& a, const StageProfile& b) {
  const std::vector<Nanoseconds> times = timesOf(a), others = timesOf(b);
  return bytesOf(a) == bytesOf(b) &&
         std::equal(times.begin(), times.end(), others.begin(), others.end(), isNear);
}

// Rising times stay so: a sum that is larger by the number of its terms is larger when divided.
StageProfile meanOf(const std::vector<const StageProfile*>& alike) {
  StageProfile mean = *alike[0];
  std::vector<Nanoseconds> sums(timesOf(mean).size(), 0);
  for (const StageProfile* profile : alike) {
    const std::vector<Nanoseconds> times = timesOf(*profile);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += times[i];
  }
  for (Nanoseconds& sum : sums) sum /= static_cast<Nanoseconds>(alike.size());
  mean.forward_ns = sums[0];
  mean.input_backward_ns = sums[1];
  mean.weight_backward_ns = sums[2];
  mean.tail_ns = sums[3];
  for (std::size_t i = 0; i < mean.points.size(); ++i) mean.points[i].recompute_ns = sums[4 + i];
  return mean;
}

}  // namespace

void shareProfiles(PipelineJob& job) {
  std::vector<std::vector<const StageProfile*>> groups;
  std::vector<std::int32_t> group_of;
  for (const Stage& stage : job.stages) {
    const StageProfile& profile = job.profiles[stage.profile];
    std::size_t at = 0;
    while (at < groups.size() && !areAlike(*groups[at][0], profile)) ++at;
    if (at == groups.size()) groups.emplace_back();
    groups[at].push_back(&profile);
    group_of.push_back(static_cast<std::int32_t>(at));
  }
  std::vector<StageProfile> shared;
  for (const auto& group : groups) shared.push_back(meanOf(group));
  job.profiles = std::move(shared);
  for (std::size_t i = 0; i < job.stages.size(); ++i) job.stages[i].profile = group_of[i];
}

}  // namespace ebbtide::scheduler
