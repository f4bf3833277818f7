#include "job/job_round.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "base/stable_hash.hpp"
#include "job/job_store.hpp"
#include "job/packed_text.hpp"

namespace ebbtide::plugin {
namespace {

// What most plans have in them.
constexpr std::string_view kKnown =
    R"({"bound_ns":,"chunks":[256,256,256,256],"free":[0,0,0,0],"free_unit_ns":1,"makespan_ns":,)"
    R"("method":"","own":[0,0,0,0],"own_makespan_ns":,"peak":[],"point":[0,1],"repeated":[1]})";

template <typename Number>
bool read(std::string_view text, Number& number, int base = 10) {
  const auto [stopped, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc() && stopped == text.data() + text.size() && !text.empty();
}

std::string_view takeLine(std::string_view& text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) throw std::invalid_argument("it is cut off");
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return line;
}

}  // namespace

std::string JobRound::text() const {
  return fmt::format("{:016x} {}", job, number);
}

std::optional<JobRound> JobRound::fromText(std::string_view text) {
  JobRound round;
  const auto [job, number] = JobWord::of(text);
  if (job.size() != 16 || !read(job, round.job, 16) || !read(number, round.number))
    return std::nullopt;
  if (round.number < 1) return std::nullopt;
  return round;
}

const std::string& JobRound::currentKey() {
  static const std::string key = "ebbtide/round";
  return key;
}

const std::string& JobRound::askKey() {
  static const std::string key = "ebbtide/ask";
  return key;
}

std::string JobRound::key(const char* name) const {
  return fmt::format("ebbtide/{:016x}-{}/{}", job, number, name);
}

std::string jobHash(std::string_view text) {
  return fmt::format("{:016x}", StableHash().add(text).value());
}

std::string toText(const JobProposal& proposal) {
  std::string text = proposal.round.text() + '\n';
  for (const std::string& report : proposal.reports) text += report + ' ';
  return text + '\n' + packText(proposal.plan, kKnown);
}

JobProposal proposalFromText(std::string_view text) {
  JobProposal proposal;
  const std::optional<JobRound> round = JobRound::fromText(takeLine(text));
  if (!round) throw std::invalid_argument("its round is no number");
  proposal.round = *round;
  std::string_view line = takeLine(text);
  while (!line.empty()) {
    const JobWord next = JobWord::of(line);
    proposal.reports.emplace_back(next.word);
    line = next.rest;
  }
  proposal.plan = unpackText(text, kKnown, kMostStoredBytes);
  return proposal;
}

JobWord JobWord::of(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) return {text, {}};
  return {text.substr(0, space), text.substr(space + 1)};
}

std::optional<std::vector<std::int64_t>> JobWord::numbers() const {
  std::vector<std::int64_t> numbers;
  for (std::string_view left = rest; !left.empty();) {
    const JobWord next = of(left);
    std::int64_t number = 0;
    if (!read(next.word, number) || number < 0) return std::nullopt;
    numbers.push_back(number);
    left = next.rest;
  }
  return numbers;
}

}  // namespace ebbtide::plugin
