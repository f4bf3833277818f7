#include "ebbtide/scheduler/pipeline_job.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>
#include <string_view>

#include "ebbtide/scheduler/most_amount.hpp"

namespace ebbtide::scheduler {
namespace {

using Kind = PipelineAction::Kind;
constexpr std::string_view kLetters = "FBIW";  // in the order of Kind

[[noreturn]] void refuse(const std::string& what) {
  throw std::invalid_argument(what);
}

class JobCheck {
 public:
  explicit JobCheck(const PipelineJob& job) : job_(job) {}

  void run() {
    for (const StageProfile& profile : job_.profiles) checkProfile(profile);
    checkCounts();
    for (std::size_t i = 0; i < job_.stages.size(); ++i) checkStage(static_cast<std::int32_t>(i));
    checkChains();
    checkActions();
    checkMicrobatches();
    checkBesides();
    checkSums();
  }

 private:
  // What a microbatch of a stage has been through, as bits of the kinds of its actions.
  using Done = std::uint8_t;
  static constexpr Done bit(Kind kind) { return static_cast<Done>(1U << static_cast<int>(kind)); }

  static void checkRange(const std::string& what, std::int64_t number) {
    if (number < 0) refuse(what + " is negative");
    if (number > kMostAmount) refuse(what + " is over 2^60");
  }

  void checkProfile(const StageProfile& profile) {
    const std::string name = "profile '" + profile.name + "': ";
    checkRange(name + "its forward time", profile.forward_ns);
    checkRange(name + "its input backward time", profile.input_backward_ns);
    checkRange(name + "its weight backward time", profile.weight_backward_ns);
    checkRange(name + "its tail", profile.tail_ns);
    checkRange(name + "its fixed bytes", profile.fixed_bytes);
    checkRange(name + "its output", profile.output_bytes);
    checkRange(name + "what it holds for its weights", profile.weight_held_bytes);
    if (profile.points.empty()) refuse(name + "no point");
    for (std::size_t i = 0; i < profile.points.size(); ++i) {
      const StagePoint& point = profile.points[i];
      const std::string at = name + "point " + std::to_string(i) + ": ";
      checkRange(at + "held bytes", point.held_bytes);
      checkRange(at + "forward bytes", point.forward_bytes);
      checkRange(at + "backward bytes", point.backward_bytes);
      checkRange(at + "bytes with all replays ahead", point.ahead_bytes);
      checkRange(at + "recomputation", point.recompute_ns);
      if (point.forward_bytes < point.held_bytes || point.backward_bytes < point.held_bytes) {
        refuse(at + "less while it runs than what it holds");
      }
      if (i > 0 && (point.recompute_ns <= profile.points[i - 1].recompute_ns ||
                    point.held_bytes >= profile.points[i - 1].held_bytes)) {
        refuse(at + "recomputes no more or holds no less than the one before");
      }
    }
  }

  void checkCounts() {
    if (job_.stages.empty()) refuse("the job has no stage");
    if (job_.order.empty()) refuse("the job has no rank");
    if (job_.microbatches < 1) refuse("the job has no microbatch");
    if (job_.microbatches > 1 << 20) refuse("the job has more than 2^20 microbatches");
    if (job_.budgets.size() != job_.ranks()) {
      refuse(std::to_string(job_.budgets.size()) + " budgets for " + std::to_string(job_.ranks()) +
             " ranks");
    }
    checkRange("the latency", job_.latency_ns);
    if (!(job_.bytes_per_second >= 0)) refuse("the bandwidth is negative");
    if (job_.processors < 0) refuse("the processors are negative");
  }

  void checkStage(std::int32_t number) {
    const Stage& stage = job_.stages[number];
    const std::string name = "stage " + std::to_string(number) + ": ";
    const auto stages = static_cast<std::int32_t>(job_.stages.size());
    if (stage.profile < 0 || static_cast<std::size_t>(stage.profile) >= job_.profiles.size()) {
      refuse(name + "no profile " + std::to_string(stage.profile));
    }
    if (stage.rank < 0 || static_cast<std::size_t>(stage.rank) >= job_.ranks()) {
      refuse(name + "no rank " + std::to_string(stage.rank));
    }
    for (const std::int32_t other : {stage.previous, stage.next}) {
      if (other != kNone && (other < 0 || other >= stages)) {
        refuse(name + "no stage " + std::to_string(other));
      }
    }
    if ((stage.next != kNone && job_.stages[stage.next].previous != number) ||
        (stage.previous != kNone && job_.stages[stage.previous].next != number)) {
      refuse(name + "its neighbour names another stage");
    }
  }

  // Links are mutual: a stage that no first stage leads to is on a circle.
  void checkChains() {
    std::size_t reached = 0;
    for (const Stage& first : job_.stages) {
      if (first.previous != kNone) continue;
      for (const Stage* at = &first;; at = &job_.stages[at->next]) {
        ++reached;
        if (at->next == kNone) break;
      }
    }
    if (reached != job_.stages.size()) refuse("stages follow each other in a circle");
  }

  void checkActions() {
    done_.assign(job_.stages.size(), std::vector<Done>(job_.microbatches, 0));
    for (std::size_t rank = 0; rank < job_.ranks(); ++rank) {
      for (const PipelineAction& action : job_.order[rank]) {
        checkAction(static_cast<std::int32_t>(rank), action);
      }
    }
  }

  void checkAction(std::int32_t rank, const PipelineAction& action) {
    const std::string name = "rank " + std::to_string(rank) + ": " + toText(action) + ": ";
    if (action.stage < 0 || static_cast<std::size_t>(action.stage) >= job_.stages.size()) {
      refuse(name + "no such stage");
    }
    if (job_.stages[action.stage].rank != rank) refuse(name + "the stage is on another rank");
    if (action.microbatch < 0 || action.microbatch >= job_.microbatches) {
      refuse(name + "no such microbatch");
    }
    Done& done = done_[action.stage][action.microbatch];
    constexpr std::array<Done, 4> kBefore = {0, bit(Kind::kForward), bit(Kind::kForward),
                                             bit(Kind::kForward) | bit(Kind::kInputBackward)};
    if (done & bit(action.kind)) refuse(name + "for the second time");
    if (done != kBefore[static_cast<std::size_t>(action.kind)]) refuse(name + "out of order");
    done |= bit(action.kind);
  }

  void checkMicrobatches() {
    constexpr Done kWhole = bit(Kind::kForward) | bit(Kind::kBackward);
    constexpr Done kParts =
        bit(Kind::kForward) | bit(Kind::kInputBackward) | bit(Kind::kWeightBackward);
    for (std::size_t stage = 0; stage < job_.stages.size(); ++stage) {
      const std::int32_t previous = job_.stages[stage].previous;
      for (std::int32_t microbatch = 0; microbatch < job_.microbatches; ++microbatch) {
        const Done done = done_[stage][microbatch];
        const std::string name =
            "stage " + std::to_string(stage) + ", microbatch " + std::to_string(microbatch) + ": ";
        if (done != 0 && done != kWhole && done != kParts) refuse(name + "an action is missing");
        if (previous != kNone && (done == 0) != (done_[previous][microbatch] == 0)) {
          refuse(name + "only one of the stages " + std::to_string(previous) + " and " +
                 std::to_string(stage) + " runs it");
        }
      }
    }
  }

  void checkBesides() {
    if (job_.besides_bytes.empty()) return;
    if (job_.besides_bytes.size() != job_.ranks()) refuse("not each rank has bytes besides");
    for (std::size_t rank = 0; rank < job_.ranks(); ++rank) {
      const std::string name = "rank " + std::to_string(rank) + ": its bytes besides";
      if (job_.besides_bytes[rank].size() != job_.order[rank].size()) {
        refuse(name + " are not one for each action");
      }
      for (const Bytes bytes : job_.besides_bytes[rank]) {
        checkRange(name, bytes);
        most_besides_ = std::max(most_besides_, static_cast<double>(bytes));
      }
    }
  }

  // A rank's bytes and the whole step's time, at their very most.
  void checkSums() {
    double bytes = most_besides_, ns = 0;
    for (const Stage& stage : job_.stages) {
      const StageProfile& profile = job_.profiles[stage.profile];
      double most_bytes = static_cast<double>(profile.weight_held_bytes), most_ns = 0;
      for (const StagePoint& point : profile.points) {
        most_bytes +=
            static_cast<double>(point.forward_bytes) + static_cast<double>(point.aheadBytes());
        most_ns = static_cast<double>(point.recompute_ns);
      }
      double message_ns = static_cast<double>(job_.latency_ns);
      if (job_.bytes_per_second > 0) {
        message_ns += static_cast<double>(profile.output_bytes) / job_.bytes_per_second * 1e9;
      }
      most_ns += static_cast<double>(profile.forward_ns) +
                 static_cast<double>(profile.input_backward_ns) +
                 static_cast<double>(profile.weight_backward_ns) + 2 * message_ns;
      bytes += static_cast<double>(profile.fixed_bytes) + job_.microbatches * most_bytes;
      ns += static_cast<double>(profile.tail_ns) + job_.microbatches * most_ns;
    }
    if (bytes > static_cast<double>(kMostAmount)) refuse("the job's bytes may come to over 2^60");
    if (ns > static_cast<double>(kMostAmount)) refuse("the job's time may come to over 2^60 ns");
  }

  const PipelineJob& job_;
  std::vector<std::vector<Done>> done_;  // by stage, by microbatch
  double most_besides_ = 0;
};

}  // namespace

void checkJob(const PipelineJob& job) {
  JobCheck(job).run();
}

std::string toText(const PipelineAction& action) {
  return std::to_string(action.stage) + kLetters[static_cast<std::size_t>(action.kind)] +
         std::to_string(action.microbatch);
}

std::vector<PipelineAction> actionsFromText(const std::string& text) {
  constexpr std::string_view kBetween = " \t\n\r,";
  std::vector<PipelineAction> actions;
  for (std::size_t begin = 0; (begin = text.find_first_not_of(kBetween, begin)) != text.npos;) {
    const std::size_t end = std::min(text.find_first_of(kBetween, begin), text.size());
    const std::string_view word = std::string_view(text).substr(begin, end - begin);
    begin = end;
    const char* const last = word.data() + word.size();
    PipelineAction action;
    const auto stage = std::from_chars(word.data(), last, action.stage);
    const std::size_t kind = stage.ptr == last ? kLetters.npos : kLetters.find(*stage.ptr);
    if (stage.ec == std::errc() && kind != kLetters.npos) {
      action.kind = static_cast<Kind>(kind);
      const auto microbatch = std::from_chars(stage.ptr + 1, last, action.microbatch);
      if (microbatch.ec == std::errc() && microbatch.ptr == last) {
        actions.push_back(action);
        continue;
      }
    }
    throw std::invalid_argument("'" + std::string(word) +
                                "' is no action; one is written like 3F12: stage, one of F, B, I "
                                "and W, microbatch");
  }
  return actions;
}

}  // namespace ebbtide::scheduler
