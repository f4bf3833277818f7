#include "job/agreement_member.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "job/agreement_leader.hpp"

namespace ebbtide::plugin {
namespace {

using Time = JobAgreement::Time;

std::string reasonIn(std::string_view text) {
  const JobWord word = JobWord::of(text);
  const bool known = word.word == "keep" || word.word == "again";
  return known ? std::string(word.rest.substr(0, 400)) : "what rank 0 says is not understood";
}

std::string rankZeroSilent(JobTimes::Duration word) {
  return fmt::format("rank 0 said nothing for {} s",
                     std::chrono::duration_cast<std::chrono::seconds>(word).count());
}

}  // namespace

AgreementMember::AgreementMember(std::int32_t rank, std::int32_t size,
                                 const JobCallbacks& callbacks, JobAgreement::Options options,
                                 const AgreementLeader* leader)
    : rank_(rank), size_(size), callbacks_(callbacks), options_(options), leader_(leader) {}

void AgreementMember::report(std::string document) {
  if (document == document_) return;
  document_ = std::move(document);
  ask_ = round_.number > 0;  // before the first it is sent when that begins
  asked_ = false;
  next_look_ = {};
}

void AgreementMember::look(JobStore& store, Time now, JobProgress progress) {
  if (now < next_look_) return;
  if (!begin_) begin_ = now;
  if (resting(now)) {
    next_look_ = now + options_.times.idle;
    // A job that has run its last step is no more asked: its store may be closing.
    if ((!ask_ || asked_) && looked_at_step_ == progress.step) return;
  } else {
    next_look_ = now + options_.times.active;
  }
  looked_at_step_ = progress.step;
  switch (phase_) {
    case Phase::kAway:
      findRound(store);
      break;
    case Phase::kReported:
      readVerdict(store, progress);
      break;
    case Phase::kAnswered:
      readOutcome(store, progress);
      break;
  }
  if (phase_ != Phase::kAway && begin_) waitOn(store, now);
}

// Nothing is due soon.
bool AgreementMember::resting(Time now) const noexcept {
  return phase_ == Phase::kAway &&
         (round_.number > 0 || now - begin_.value_or(now) > options_.times.word);
}

void AgreementMember::enter(Phase phase) {
  phase_ = phase;
  begin_.reset();
  next_look_ = {};
}

void AgreementMember::findRound(JobStore& store) {
  const auto text = store.get(JobRound::currentKey());
  const auto current = text ? JobRound::fromText(*text) : std::nullopt;
  if (!current) return;
  if (*current == round_) {
    if (ask_) askForRound(store);
    return;
  }
  // Without us, since we came too late; or that of a job that ran before and used the same store.
  if (store.get(current->verdictKey())) {
    round_ = *current;
    ask_ = true;
    asked_ = false;
    callbacks_.debug(fmt::format("too late for round {} of the job's plan", round_.number));
    return;
  }
  store.set(current->reportKey(rank_), document_);
  round_ = *current;
  reported_ = document_;
  found_ = ask_ = false;
  enter(Phase::kReported);
}

// Again in each step until there is one: another rank may have written over it.
void AgreementMember::askForRound(JobStore& store) {
  JobRound next = round_;
  ++next.number;
  const auto text = store.get(JobRound::askKey());
  if (text != next.text()) store.set(JobRound::askKey(), next.text());
  asked_ = true;
}

void AgreementMember::readVerdict(JobStore& store, JobProgress progress) {
  const auto text = store.get(round_.verdictKey());
  if (!text) return;
  readFindings(store);
  const JobWord verdict = JobWord::of(*text);
  if (verdict.word == "plan") {
    takeProposal(store, std::string(verdict.rest), progress);
    return;
  }
  if (verdict.word == "missing") {
    const auto ranks = verdict.numbers();
    const bool missed = ranks && std::find(ranks->begin(), ranks->end(), rank_) != ranks->end();
    if (missed) ask_ = true, asked_ = false;  // there now
    keep("some ranks did not report in time");
    return;
  }
  if (verdict.word == "again") {
    keepForNow(reasonIn(*text));
    return;
  }
  keep(reasonIn(*text));
}

void AgreementMember::readFindings(JobStore& store) {
  if (std::exchange(found_, true)) return;
  if (const auto findings = store.get(round_.findingsKey())) callbacks_.find(*findings);
}

std::optional<std::string> AgreementMember::proposal(JobStore& store,
                                                     const std::string& hash) const {
  const std::string key = round_.planKey(hash);
  const std::string* const own = leader_ != nullptr ? leader_->planUnder(key) : nullptr;
  return own != nullptr ? std::optional(*own) : store.get(key);
}

void AgreementMember::takeProposal(JobStore& store, const std::string& hash, JobProgress progress) {
  const auto proposal = this->proposal(store, hash);
  if (!proposal) {  // not seen yet; or removed, when another rank could not
    const auto outcome = store.get(round_.outcomeKey());
    if (outcome) keep(reasonIn(*outcome));
    return;
  }
  const std::string why =
      jobHash(*proposal) == hash ? whyNot(store, *proposal) : "its plan has another hash";
  store.set(round_.readyKey(rank_),
            why.empty() ? fmt::format("ready {}", progress.step) : "cannot " + why);
  enter(Phase::kAnswered);
}

// Prepares the rank's own part. "": it is ready.
std::string AgreementMember::whyNot(JobStore& store, const std::string& text) const try {
  const JobProposal proposal = proposalFromText(text);
  if (proposal.round != round_ || proposal.reports.size() != static_cast<std::size_t>(size_))
    return "the plan is for another round";
  if (proposal.reports[static_cast<std::size_t>(rank_)] != jobHash(reported_))
    return "the plan is for another report";
  if (document_ != reported_) return "its program or budget changed meanwhile";
  if (options_.recheck && rank_ != 0) {
    if (std::string other = otherPlan(store, proposal.plan); !other.empty()) return other;
  }
  std::optional<std::string> problem = callbacks_.prepare(proposal.plan);
  if (!problem) return "";
  return problem->empty() ? "its schedule could not be made" : *problem;
} catch (const std::invalid_argument& error) {
  return std::string("the plan is not understood: ") + error.what();
}

std::string AgreementMember::otherPlan(JobStore& store, const std::string& plan) const {
  std::vector<RankReport> reports;
  for (std::int32_t rank = 0; rank < size_; ++rank) {
    const auto text = store.get(round_.reportKey(rank));
    if (!text) return "";  // the round is over
    reports.push_back(reportFromText(*text));
  }
  const JobPlanning planning = callbacks_.plan(reports);
  if (planning.plan == plan) return "";
  return fmt::format("it plans otherwise from the same reports: {}, rank 0 {}",
                     planning.plan ? jobHash(*planning.plan) : planning.why_not, jobHash(plan));
}

void AgreementMember::readOutcome(JobStore& store, JobProgress progress) {
  const auto text = store.get(round_.outcomeKey());
  if (!text) return;
  const JobWord outcome = JobWord::of(*text);
  const auto numbers = outcome.numbers();
  if (outcome.word == "begin" && numbers && numbers->size() == 2) {
    commit(numbers->at(0), numbers->at(1), progress);
    return;
  }
  keep(reasonIn(*text));
}

// Ranks of a pipeline are in the same step, or one apart. Where steps are counted from elsewhere
// the plan begins as long from now as it does for the others.
void AgreementMember::commit(std::int64_t step, std::int64_t margin, JobProgress progress) {
  if (step - progress.step > margin) step = progress.step + margin + 1;
  enter(Phase::kAway);
  callbacks_.debug(
      fmt::format("the job's plan of round {} is used from step {} on", round_.number, step));
  callbacks_.commit(step);
}

// No word yet. Rank 0 may have begun anew, or be gone.
void AgreementMember::waitOn(JobStore& store, Time now) {
  if (now - *begin_ > options_.times.word) {
    keep(rankZeroSilent(options_.times.word));
    callbacks_.say("no plan for the whole job: " + rankZeroSilent(options_.times.word) +
                   "; this rank trains on with its own plan");
    return;
  }
  const auto text = store.get(JobRound::currentKey());
  const auto current = text ? JobRound::fromText(*text) : std::nullopt;
  if (current && *current != round_) keepForNow("another round began");
}

void AgreementMember::keep(const std::string& why) {
  enter(Phase::kAway);
  callbacks_.debug(fmt::format("round {} came to no plan: {}", round_.number, why));
  callbacks_.keep(why);
}

void AgreementMember::keepForNow(const std::string& why) {
  enter(Phase::kAway);
  callbacks_.debug(fmt::format("round {} came to no plan yet: {}", round_.number, why));
  callbacks_.again(why);
}

}  // namespace ebbtide::plugin
