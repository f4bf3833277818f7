#include "job/agreement_leader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace ebbtide::plugin {
namespace {

constexpr auto kLongestRow = std::chrono::seconds(2);  // of calls of a store that answers late
constexpr auto kMostGap = std::chrono::hours(1);
constexpr std::int32_t kMostSilent = 2;   // that are asked in one look: while all wait for a few
constexpr std::int64_t kLeastMargin = 2;  // steps
constexpr std::int64_t kMostStep = std::int64_t{1} << 53;
constexpr std::size_t kMostReasonBytes = 400;

std::int64_t seconds(JobTimes::Duration duration) {
  return std::chrono::duration_cast<std::chrono::seconds>(duration).count();
}

}  // namespace

AgreementLeader::AgreementLeader(std::int32_t size, const JobCallbacks& callbacks,
                                 JobAgreement::Options options)
    : size_(size), callbacks_(callbacks), options_(options), gap_(options.times.gap) {
  round_.job = options.job;
}

void AgreementLeader::look(JobStore& store, Time now, JobProgress progress) {
  if (now < next_look_) return;
  if (!begin_) begin_ = now;
  switch (phase_) {
    case Phase::kResting:
      next_look_ = now + (again_ ? options_.times.active : options_.times.idle);
      if (round_.number > 0) {
        if (looked_at_step_ == progress.step) return;
        if (!to_remove_.empty()) {
          looked_at_step_ = progress.step;
          removeSome(store);
          return;
        }
        if (now < next_round_) return;
        looked_at_step_ = progress.step;
        if (!wanted(store)) return;
      }
      open(store);
      return;
    case Phase::kCollecting:
      next_look_ = now + options_.times.active;
      collect(store, now);
      return;
    case Phase::kAnswering:
      next_look_ = now + options_.times.active;
      gather(store, now, progress);
      return;
  }
}

void AgreementLeader::enter(Phase phase) {
  phase_ = phase;
  begin_.reset();
  next_look_ = {};
  asked_late_ = 0;
  heard_.assign(static_cast<std::size_t>(size_), std::nullopt);
}

bool AgreementLeader::wanted(JobStore& store) const {
  const auto text = store.get(JobRound::askKey());
  const auto asked = text ? JobRound::fromText(*text) : std::nullopt;
  return asked && asked->job == round_.job && asked->number > round_.number;
}

// A rank that is slow may still have to read what the last round came to; none that of the one
// before, for it went on to this one.
void AgreementLeader::open(JobStore& store) {
  if (round_.number > 0) removeReports(store);  // of ranks that came too late
  if (round_.number > 1) removeWords(store, {round_.job, round_.number - 1});
  again_ = false;
  ++round_.number;
  store.set(JobRound::currentKey(), round_.text());
  enter(Phase::kCollecting);
}

template <typename KeyOf>
bool AgreementLeader::hear(JobStore& store, KeyOf key_of, bool late) {
  const auto begin = std::chrono::steady_clock::now();
  const std::int32_t most_silent = late ? size_ : kMostSilent;
  for (std::int32_t left = size_, mute = 0; left > 0 && mute < most_silent; --left) {
    auto& heard = heard_[static_cast<std::size_t>(next_asked_)];
    if (!heard) {
      if (std::chrono::steady_clock::now() - begin > kLongestRow) return false;  // the next time
      heard = store.get(key_of(next_asked_));
      if (!heard) ++mute;
    }
    next_asked_ = (next_asked_ + 1) % size_;
    if (late) ++asked_late_;
  }
  return silent().empty();
}

std::vector<std::int32_t> AgreementLeader::silent() const {
  std::vector<std::int32_t> ranks;
  for (std::int32_t rank = 0; rank < size_; ++rank) {
    if (!heard_[static_cast<std::size_t>(rank)]) ranks.push_back(rank);
  }
  return ranks;
}

void AgreementLeader::collect(JobStore& store, Time now) {
  const bool late = now - *begin_ > options_.times.collect;
  const auto key_of = [this](std::int32_t rank) { return round_.reportKey(rank); };
  if (hear(store, key_of, late)) {
    judge(store, now);
    return;
  }
  if (!hasAskedAllLate()) return;
  const std::vector<std::int32_t> missing = silent();
  std::string verdict = "missing";
  for (const std::int32_t rank : missing) verdict += fmt::format(" {}", rank);
  store.set(round_.verdictKey(), verdict);
  callbacks_.say(fmt::format(
      "no plan for the whole job: {} did not report within {} s; each rank trains on with its own",
      ranksText(missing), seconds(options_.times.collect)));
  endRound(store, now, false);
}

void AgreementLeader::judge(JobStore& store, Time now) {
  const JobPlanning planning = planned();
  if (planning.stopped) return;
  if (planning.findings && planning.findings->size() <= kMostStoredBytes)
    store.set(round_.findingsKey(), *planning.findings);
  if (planning.plan) {
    propose(store, now, *planning.plan);
    return;
  }
  fail(store, now, round_.verdictKey(), planning.why_not, planning.needed,
       planning.again ? "again" : "keep");
  if (!planning.again) return;
  again_ = true;
  gap_ = options_.times.gap;
  next_round_ = now;
}

JobPlanning AgreementLeader::planned() const try {
  return callbacks_.plan(readReports());
} catch (const std::exception& error) {
  return {.why_not = error.what()};
}

// Versions before all else: what other versions write may mean something else.
std::vector<RankReport> AgreementLeader::readReports() const {
  std::vector<JobVersions> versions;
  std::vector<RankReport> reports;
  std::int32_t rank = 0;
  try {
    for (rank = 0; rank < size_; ++rank) {
      std::string_view text = *heard_[static_cast<std::size_t>(rank)];
      versions.push_back(takeVersions(text));
    }
    if (const std::string apart = versionsApart(versions); !apart.empty())
      throw std::runtime_error("the versions differ: " + apart);
    for (rank = 0; rank < size_; ++rank) {
      reports.push_back(reportFromText(*heard_[static_cast<std::size_t>(rank)]));
      if (reports.back().rank != rank || reports.back().size != size_)
        throw std::invalid_argument(
            fmt::format("it is of rank {} of {}", reports.back().rank, reports.back().size));
    }
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(
        fmt::format("the report of rank {} is not understood: {}", rank, error.what()));
  }
  for (const RankReport& report : reports) {
    if (!report.unable.empty())
      throw std::runtime_error(fmt::format("rank {}: {}", report.rank, report.unable));
  }
  return reports;
}

void AgreementLeader::propose(JobStore& store, Time now, const std::string& plan) {
  JobProposal proposal{round_, {}, plan};
  for (const auto& report : heard_) proposal.reports.push_back(jobHash(*report));
  plan_text_ = toText(proposal);
  if (const std::size_t most = std::max(plan.size(), plan_text_.size()); most > kMostStoredBytes) {
    fail(store, now, round_.verdictKey(), fmt::format("the plan takes {} bytes", most));
    return;
  }
  const std::string hash = jobHash(plan_text_);
  plan_key_ = round_.planKey(hash);
  store.set(plan_key_, plan_text_);
  store.set(round_.verdictKey(), "plan " + hash);
  enter(Phase::kAnswering);
}

void AgreementLeader::gather(JobStore& store, Time now, JobProgress progress) {
  const bool late = now - *begin_ > options_.times.answer;
  const auto key_of = [this](std::int32_t rank) { return round_.readyKey(rank); };
  const bool all = hear(store, key_of, late);
  for (std::int32_t rank = 0; rank < size_; ++rank) {
    const auto& heard = heard_[static_cast<std::size_t>(rank)];
    if (!heard) continue;
    const JobWord answer = JobWord::of(*heard);
    const auto step = answer.numbers();
    if (answer.word == "ready" && step && step->size() == 1 && step->front() < kMostStep) continue;
    const std::string_view why =
        answer.word == "cannot" ? answer.rest : "its answer is not understood";
    fail(store, now, round_.outcomeKey(), fmt::format("rank {}: {}", rank, why));
    return;
  }
  if (all) {
    begin(store, now, progress);
  } else if (hasAskedAllLate()) {
    fail(store, now, round_.outcomeKey(),
         fmt::format("{} had no schedule for it within {} s", ranksText(silent()),
                     seconds(options_.times.answer)));
  }
}

// All have looked again by then, and so switch in the same step.
void AgreementLeader::begin(JobStore& store, Time now, JobProgress progress) {
  std::int64_t step = progress.step;
  for (const auto& heard : heard_) step = std::max(step, JobWord::of(*heard).numbers()->front());
  std::int64_t margin = kLeastMargin;
  if (progress.step_ns > 0) {
    const auto ns =
        std::chrono::duration_cast<std::chrono::nanoseconds>(options_.times.margin).count();
    margin = std::max(margin, (ns + progress.step_ns - 1) / progress.step_ns);
  }
  store.set(round_.outcomeKey(), fmt::format("begin {} {}", step + margin, margin));
  endRound(store, now, true);
}

void AgreementLeader::fail(JobStore& store, Time now, const std::string& key,
                           const std::string& why, bool said, const char* word) {
  const std::string reason = why.substr(0, kMostReasonBytes);
  store.set(key, fmt::format("{} {}", word, reason));
  (said ? callbacks_.say : callbacks_.debug)(
      fmt::format("no plan for the whole job: {}; each rank trains on with its own", reason));
  endRound(store, now, false);
}

// Verdict and outcome stay for ranks that have not read them.
void AgreementLeader::endRound(JobStore& store, Time now, bool agreed) {
  removeReports(store);
  enter(Phase::kResting);
  gap_ = agreed ? options_.times.gap : std::min<JobTimes::Duration>(2 * gap_, kMostGap);
  next_round_ = now + gap_;
}

void AgreementLeader::removeReports(JobStore& store) {
  for (std::int32_t rank = 0; rank < size_; ++rank) {
    to_remove_.push_back(round_.reportKey(rank));
    to_remove_.push_back(round_.readyKey(rank));
  }
  if (!plan_key_.empty()) to_remove_.push_back(std::exchange(plan_key_, {}));
  removeSome(store);
}

void AgreementLeader::removeWords(JobStore& store, const JobRound& round) {
  for (const auto& key : {round.verdictKey(), round.outcomeKey(), round.findingsKey()})
    to_remove_.push_back(key);
  removeSome(store);
}

// What is left is for the next looks: no round needs it to be gone, and the process may end.
void AgreementLeader::removeSome(JobStore& store) {
  const auto begin = std::chrono::steady_clock::now();
  while (!to_remove_.empty() && std::chrono::steady_clock::now() - begin <= kLongestRow) {
    store.remove(to_remove_.back());
    to_remove_.pop_back();
  }
}

}  // namespace ebbtide::plugin
