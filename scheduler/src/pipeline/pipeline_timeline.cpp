#include "pipeline/pipeline_timeline.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>
#include <utility>

namespace ebbtide::scheduler {
namespace {

using Kind = PipelineAction::Kind;

Nanoseconds timeOf(const PipelineJob& job, const PipelineAction& action) {
  const StageProfile& profile = job.profileOf(action.stage);
  const bool input = action.kind == Kind::kBackward || action.kind == Kind::kInputBackward;
  const bool weight = action.kind == Kind::kBackward || action.kind == Kind::kWeightBackward;
  return (action.kind == Kind::kForward ? profile.forward_ns : 0) +
         (input ? profile.input_backward_ns : 0) + (weight ? profile.weight_backward_ns : 0);
}

// The stage that an action's message goes to, kNone for none; likewise where one comes from.
std::int32_t receiverOf(const PipelineJob& job, const PipelineAction& action) {
  if (action.kind == Kind::kWeightBackward) return kNone;
  const Stage& stage = job.stages[action.stage];
  return action.kind == Kind::kForward ? stage.next : stage.previous;
}
std::int32_t senderOf(const PipelineJob& job, const PipelineAction& action) {
  if (action.kind == Kind::kWeightBackward) return kNone;
  const Stage& stage = job.stages[action.stage];
  return action.kind == Kind::kForward ? stage.previous : stage.next;
}

}  // namespace

PipelineTimeline::PipelineTimeline(const PipelineJob& job) {
  number(job);
  addMessages(job);
  for (auto* times : {&begin_, &end_, &sent_, &ready_, &latest_end_, &latest_sent_, &slack_}) {
    times->resize(nodes_.size());
  }
}

// A rank goes on until its next action waits for one that has no number yet; the rank that numbers
// that one takes it up again.
void PipelineTimeline::number(const PipelineJob& job) {
  // Actions that send a message, by the stage and microbatch that wait for it: forward, backward.
  std::vector<std::vector<std::int32_t>> sent[2];
  for (auto& by_stage : sent) {
    by_stage.assign(job.stages.size(), std::vector<std::int32_t>(job.microbatches, kNone));
  }
  number_.resize(job.ranks());
  std::vector<std::int32_t> ready(job.ranks());
  for (std::size_t rank = 0; rank < job.ranks(); ++rank) {
    ready[rank] = static_cast<std::int32_t>(job.ranks() - 1 - rank);
  }
  while (!ready.empty()) {
    const std::int32_t rank = ready.back();
    ready.pop_back();
    const std::vector<PipelineAction>& order = job.order[rank];
    std::vector<std::int32_t>& numbers = number_[rank];
    while (numbers.size() < order.size()) {
      const PipelineAction& action = order[numbers.size()];
      Node node;
      node.duration_ns = timeOf(job, action);
      if (const std::int32_t sender = senderOf(job, action); sender != kNone) {
        node.sender = sent[action.kind == Kind::kForward ? 0 : 1][action.stage][action.microbatch];
        if (node.sender == kNone) break;
        if (job.stages[sender].rank != rank) node.latency_ns = job.latency_ns;
      }
      if (!numbers.empty()) node.before = numbers.back();
      const auto number = static_cast<std::int32_t>(nodes_.size());
      numbers.push_back(number);
      nodes_.push_back(node);
      if (const std::int32_t receiver = receiverOf(job, action); receiver != kNone) {
        sent[action.kind == Kind::kForward ? 0 : 1][receiver][action.microbatch] = number;
        if (job.stages[receiver].rank != rank) ready.push_back(job.stages[receiver].rank);
      }
    }
  }
  for (std::size_t rank = 0; rank < job.ranks(); ++rank) {
    if (number_[rank].size() < job.order[rank].size()) {
      throw std::invalid_argument("the ranks wait for each other in a circle: rank " +
                                  std::to_string(rank) + " at " +
                                  toText(job.order[rank][number_[rank].size()]));
    }
    if (number_[rank].empty()) continue;
    for (const Stage& stage : job.stages) {
      if (stage.rank == static_cast<std::int32_t>(rank)) {
        nodes_[number_[rank].back()].tail_ns += job.profiles[stage.profile].tail_ns;
      }
    }
  }
}

void PipelineTimeline::addMessages(const PipelineJob& job) {
  for (std::size_t rank = 0; rank < job.ranks(); ++rank) {
    std::map<std::int32_t, std::int32_t> last;  // sent to a rank
    for (std::size_t i = 0; i < job.order[rank].size(); ++i) {
      const PipelineAction& action = job.order[rank][i];
      const std::int32_t receiver = receiverOf(job, action);
      if (receiver == kNone || job.stages[receiver].rank == static_cast<std::int32_t>(rank)) {
        continue;
      }
      Node& node = nodes_[number_[rank][i]];
      const StageProfile& output =
          job.profileOf(action.kind == Kind::kForward ? action.stage : receiver);
      if (job.bytes_per_second > 0) {
        node.transfer_ns =
            std::llround(static_cast<double>(output.output_bytes) / job.bytes_per_second * 1e9);
      }
      const auto [at, first] = last.try_emplace(job.stages[receiver].rank, kNone);
      node.message_before = std::exchange(at->second, number_[rank][i]);
    }
  }
}

Nanoseconds PipelineTimeline::run(const std::vector<Nanoseconds>& recompute_ns,
                                  const std::vector<Nanoseconds>& ahead_ns) {
  makespan_ = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    const Nanoseconds ready = node.before == kNone ? 0 : end_[node.before];
    const Nanoseconds arrival = node.sender == kNone ? 0 : sent_[node.sender] + node.latency_ns;
    ready_[i] = ready;
    begin_[i] = std::max(ready + recompute_ns[i], arrival + recompute_ns[i] - ahead_ns[i]);
    end_[i] = begin_[i] + node.duration_ns;
    const Nanoseconds link = node.message_before == kNone ? 0 : sent_[node.message_before];
    sent_[i] = std::max(end_[i], link) + node.transfer_ns;
    makespan_ = std::max(makespan_, end_[i] + node.tail_ns);
  }
  return makespan_;
}

Nanoseconds PipelineTimeline::waitOf(std::int32_t action) const {
  const Node& node = nodes_[action];
  if (node.sender == kNone) return 0;
  return std::max<Nanoseconds>(0, sent_[node.sender] + node.latency_ns - ready_[action]);
}

const std::vector<Nanoseconds>& PipelineTimeline::slacks(
    const std::vector<Nanoseconds>& recompute_ns, const std::vector<Nanoseconds>& ahead_ns) {
  constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();
  std::fill(latest_sent_.begin(), latest_sent_.end(), kNever);
  for (std::size_t i = 0; i < nodes_.size(); ++i) latest_end_[i] = makespan_ - nodes_[i].tail_ns;
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    const Node& node = nodes_[i];
    if (latest_sent_[i] != kNever) {
      const Nanoseconds latest_send = latest_sent_[i] - node.transfer_ns;
      latest_end_[i] = std::min(latest_end_[i], latest_send);
      if (node.message_before != kNone) {
        Nanoseconds& before = latest_sent_[node.message_before];
        before = std::min(before, latest_send);
      }
    }
    const Nanoseconds latest_begin = latest_end_[i] - node.duration_ns;
    const Nanoseconds latest_replay = latest_begin - recompute_ns[i];
    const Nanoseconds late = recompute_ns[i] - ahead_ns[i];  // once the message is there
    slack_[i] = late > 0 ? latest_begin - begin_[i] : latest_replay - ready_[i];
    if (node.before != kNone) {
      latest_end_[node.before] = std::min(latest_end_[node.before], latest_replay);
    }
    if (node.sender != kNone) {
      latest_sent_[node.sender] =
          std::min(latest_sent_[node.sender], latest_begin - late - node.latency_ns);
    }
  }
  return slack_;
}

}  // namespace ebbtide::scheduler
