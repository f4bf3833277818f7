#include "prove/proof_log.hpp"

#include <algorithm>
#include <filesystem>

#include "checked_json.hpp"
#include "text_file.hpp"

namespace ebbtide::cli {
namespace {

using nlohmann::json;

constexpr std::size_t kMostTypes = 100;

// Each with its end: what has none was cut off.
std::vector<std::string> wholeLines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    lines.push_back(text.substr(begin, end - begin));
  }
  return lines;
}

bool isNextUpdate(const ProofLog& log, const json& line) {
  const json& checksum = at(line, {"checksum"});
  return integerAt(line, {"update"}) == static_cast<std::int64_t>(log.updates.size()) + 1 &&
         (checksum.is_string() || checksum.is_null());
}

void addSkipped(ProofLog& log, const json& skipped) {
  if (!skipped.is_object()) return;
  for (const auto& [type, count] : skipped.items()) {
    if (!count.is_number_integer() || log.skipped.size() >= kMostTypes) continue;
    log.skipped[type] = std::max(log.skipped[type], count.get<std::int64_t>());
  }
}

// False: the rest is not to be read.
bool addLine(ProofLog& log, const json& line) {
  if (const auto began = numberAt(line, {"began"})) {
    log.began = *began;
    log.rank = integerAt(line, {"rank"});
    return true;
  }
  if (integerAt(line, {"end"})) {
    log.ended = true;
    return false;
  }
  if (!isNextUpdate(log, line)) return false;
  log.updates.push_back({numberAt(line, {"seconds"}), textAt(line, {"checksum"})});
  addSkipped(log, at(line, {"skipped"}));
  return true;
}

bool isEarlier(const ProofLog& a, const ProofLog& b) {
  const std::int64_t rank_a = a.rank.value_or(INT64_MAX), rank_b = b.rank.value_or(INT64_MAX);
  return rank_a != rank_b ? rank_a < rank_b : a.began < b.began;
}

}  // namespace

ProofLog parseProofLog(const std::string& text) {
  ProofLog log;
  for (const std::string& line : wholeLines(text)) {
    const auto tree = parseChecked(line);
    if (!tree || !addLine(log, *tree)) break;
  }
  return log;
}

std::vector<ProofLog> readProofLogs(const std::string& folder) {
  std::vector<ProofLog> logs;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".jsonl") continue;
    ProofLog log = parseProofLog(readText(entry.path()));
    if (!log.updates.empty()) logs.push_back(std::move(log));
  }
  std::sort(logs.begin(), logs.end(), isEarlier);
  return logs;
}

std::string nameOf(const ProofLog& log, std::size_t place, std::size_t processes) {
  if (log.rank) return "rank " + std::to_string(*log.rank);
  return processes == 1 ? "rank 0" : "process " + std::to_string(place + 1);
}

}  // namespace ebbtide::cli
