// JobRound: one try of a job's ranks to agree on a plan, where its keys lie in the store, and what
// the short ones say. Torch-free.
//
//   ebbtide/round                what is going on: "<job> <number>"; rank 0
//   ebbtide/ask                  a round that some rank wants, in the same form; any
//   ebbtide/<job>-<n>/report/<r> versions and RankReport; rank r
//   …/findings                   JobFindings, where there are any, before the verdict; rank 0
//   …/verdict                    "plan <hash>", "missing <ranks>", "keep <reason>", or "again
//                                <reason>": another round decides; rank 0
//   …/plan/<hash>                JobProposal; rank 0
//   …/ready/<r>                  "ready <step>" or "cannot <reason>"; rank r
//   …/outcome                    "begin <step> <margin>" or "keep <reason>"; rank 0
//
// Keys, a report's first line and these words stay as they are in all versions: so ranks of any
// versions find each other, and learn that they differ. A word that is not known means keep.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ebbtide::plugin {

struct JobRound {
  // Of rank 0's process: what a job that ran before left in the store has another number.
  std::uint64_t job = 0;
  std::int32_t number = 0;

  friend bool operator==(const JobRound&, const JobRound&) = default;

  std::string text() const;
  static std::optional<JobRound> fromText(std::string_view text);

  static const std::string& currentKey();
  static const std::string& askKey();
  std::string reportKey(std::int32_t rank) const { return key("report/") + std::to_string(rank); }
  std::string findingsKey() const { return key("findings"); }
  std::string verdictKey() const { return key("verdict"); }
  std::string planKey(const std::string& hash) const { return key("plan/") + hash; }
  std::string readyKey(std::int32_t rank) const { return key("ready/") + std::to_string(rank); }
  std::string outcomeKey() const { return key("outcome"); }

 private:
  std::string key(const char* name) const;
};

// 16 digits.
std::string jobHash(std::string_view text);

// A plan and what it was made for; as text the plan is packed. A rank uses none that was not made
// for its own report.
struct JobProposal {
  JobRound round;
  std::vector<std::string> reports;  // of each rank, the hash of its report
  std::string plan;

  friend bool operator==(const JobProposal&, const JobProposal&) = default;
};
std::string toText(const JobProposal& proposal);
// Throws std::invalid_argument; also for a plan of more than kMostStoredBytes.
JobProposal proposalFromText(std::string_view text);

// A short value of the store: a word, and what follows a space.
struct JobWord {
  std::string_view word;
  std::string_view rest;

  static JobWord of(std::string_view text);
  // The rest as whole numbers, none negative; nothing if it is something else.
  std::optional<std::vector<std::int64_t>> numbers() const;
};

}  // namespace ebbtide::plugin
