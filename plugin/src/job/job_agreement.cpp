#include "job/job_agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <random>
#include <stdexcept>
#include <utility>

#include "job/agreement_leader.hpp"
#include "job/agreement_member.hpp"

namespace ebbtide::plugin {
namespace {

std::string whatOf(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    std::string what = error.what();
    return what.substr(0, what.find('\n'));  // torch adds a stack trace
  } catch (...) {
    return "an unknown exception";
  }
}

// So that what the store throws is told from what a callback throws.
JobCallbacks guarded(JobCallbacks callbacks) {
  const auto debug = callbacks.debug;
  const auto guard = [debug](auto call, const char* name) {
    return [call, name, debug](const auto& argument) {
      try {
        call(argument);
      } catch (...) {
        try {
          debug(fmt::format("{} failed: {}", name, whatOf(std::current_exception())));
        } catch (...) {
        }
      }
    };
  };
  callbacks.plan = [plan = callbacks.plan](const auto& reports) -> JobPlanning {
    try {
      JobPlanning planning = plan(reports);
      if (!planning.plan && planning.why_not.empty()) planning.why_not = "there is none";
      return planning;
    } catch (...) {
      return {.why_not = "planning failed: " + whatOf(std::current_exception())};
    }
  };
  callbacks.prepare = [prepare =
                           callbacks.prepare](const auto& plan) -> std::optional<std::string> {
    try {
      return prepare(plan);
    } catch (...) {
      return whatOf(std::current_exception());
    }
  };
  callbacks.find = guard(callbacks.find, "reading what rank 0 found");
  callbacks.commit = guard(callbacks.commit, "the switch to the job's plan");
  callbacks.keep = guard(callbacks.keep, "the return to the rank's own plan");
  callbacks.again = guard(callbacks.again, "the return to the rank's own plan");
  callbacks.say = guard(callbacks.say, "say");
  callbacks.debug = guard(debug, "debug");
  return callbacks;
}

JobAgreement::Options withJob(JobAgreement::Options options) {
  if (options.job == 0) {
    std::random_device chance;
    options.job = (std::uint64_t{chance()} << 32) | chance();
  }
  return options;
}

}  // namespace

JobAgreement::JobAgreement(std::unique_ptr<JobStore> store, std::int32_t rank, std::int32_t size,
                           JobCallbacks callbacks, Options options)
    : store_(std::move(store)),
      rank_(rank),
      size_(size),
      callbacks_(guarded(std::move(callbacks))),
      times_(options.times),
      leader_(rank == 0 ? std::make_unique<AgreementLeader>(size, callbacks_, withJob(options))
                        : nullptr),
      member_(std::make_unique<AgreementMember>(rank, size, callbacks_, options, leader_.get())) {}

JobAgreement::JobAgreement(std::unique_ptr<JobStore> store, std::int32_t rank, std::int32_t size,
                           JobCallbacks callbacks)
    : JobAgreement(std::move(store), rank, size, std::move(callbacks), Options{}) {}

JobAgreement::~JobAgreement() = default;

void JobAgreement::report(const RankReport& report) noexcept try {
  RankReport mine = report;
  mine.rank = rank_;
  mine.size = size_;
  std::string text = toText(mine);
  if (text.size() > kMostReportBytes) {
    mine.unable = fmt::format("its report takes {} bytes, over {}", text.size(), kMostReportBytes);
    text = toText(mine);
  }
  member_->report(std::move(text));
} catch (...) {
  giveUp(whatOf(std::current_exception()));
}

void JobAgreement::withdraw() noexcept {
  member_->withdraw();
}

void JobAgreement::poll(Time now, JobProgress progress) noexcept try {
  if (!store_ || !member_->hasReport() || !connected(now)) return;
  if (leader_) leader_->look(*store_, now, progress);
  member_->look(*store_, now, progress);
} catch (const JobStoreGone& gone) {
  giveUp(gone.what(), false);
} catch (...) {
  giveUp(whatOf(std::current_exception()));
}

bool JobAgreement::connected(Time now) {
  if (connected_) return true;
  if (!first_poll_) first_poll_ = now;
  connected_ = store_->connected();
  next_try_ = now + times_.active;
  if (!connected_ && now - *first_poll_ > times_.word)
    throw std::runtime_error("it could not be reached");
  return connected_;
}

JobAgreement::Time JobAgreement::nextPoll() const noexcept {
  if (!store_ || !member_->hasReport()) return Time::max();
  if (!connected_) return next_try_;
  return leader_ ? std::min(leader_->nextLook(), member_->nextLook()) : member_->nextLook();
}

void JobAgreement::giveUp(const std::string& why, bool said) noexcept try {
  if (!store_) return;
  store_.reset();
  const std::string text = "the job's store cannot be used any more: " + why;
  if (!member_->waits()) {  // at the job's end, mostly
    callbacks_.debug(text);
    return;
  }
  (said ? callbacks_.say : callbacks_.debug)(text + "; this rank trains on with its own plan");
  callbacks_.keep(text);
} catch (...) {
  return;
}

}  // namespace ebbtide::plugin
