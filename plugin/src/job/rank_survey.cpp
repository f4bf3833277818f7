#include "job/rank_survey.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "ebbtide/metrics/machine_name.hpp"

namespace ebbtide::plugin {
namespace {

constexpr auto kFirstPause = std::chrono::milliseconds(10);
constexpr auto kLongestPause = std::chrono::milliseconds(1000);
const std::string kAnswerKey = "ebbtide/machines";

std::string keyOf(int rank) {
  return "ebbtide/machine/" + std::to_string(rank);
}

}  // namespace

RankSurvey::RankSurvey(std::unique_ptr<JobStore> store, int rank, int size, Here here)
    : store_(std::move(store)),
      rank_(rank),
      size_(size),
      here_(std::move(here)),
      hosts_(rank == 0 ? static_cast<std::size_t>(size) : 0),
      pause_(kFirstPause) {
  if (rank < 0 || rank >= size) throw std::invalid_argument("the rank is not of its group");
}

std::optional<RankSurvey::Found> RankSurvey::poll(Time now, std::chrono::milliseconds least_pause) {
  if (now < next_) return std::nullopt;
  next_ = now + std::max(pause_, least_pause);
  pause_ = std::min<std::chrono::milliseconds>(pause_ * 5 / 4, kLongestPause);
  if (!store_->connected()) return std::nullopt;
  if (!std::exchange(told_, true)) tell();
  if (rank_ != 0) {
    const auto answer = store_->get(kAnswerKey);
    return answer ? std::optional(read(*answer)) : std::nullopt;
  }
  const auto answer = collect();
  if (!answer) return std::nullopt;
  store_->set(kAnswerKey, *answer);
  return read(*answer);
}

void RankSurvey::tell() {
  if (rank_ == 0) {
    hosts_[0] = here_.host;
  } else {
    store_->set(keyOf(rank_), here_.host);
  }
}

// Machines are numbered in the order of their first ranks: "<job>\n0 0 1 1".
std::optional<std::string> RankSurvey::collect() {
  for (std::size_t rank = 1; rank < hosts_.size(); ++rank) {
    if (!hosts_[rank].empty()) continue;
    const auto host = store_->get(keyOf(static_cast<int>(rank)));
    if (!host) return std::nullopt;
    hosts_[rank] = *host;
  }
  std::map<std::string, std::size_t> numbers;
  std::string text = here_.job_id + "\n";
  for (const std::string& host : hosts_) {
    const std::size_t number = numbers.emplace(host, numbers.size()).first->second;
    text += std::to_string(number) + " ";
  }
  return text;
}

RankSurvey::Found RankSurvey::read(const std::string& answer) const {
  std::istringstream lines(answer);
  Found found;
  std::getline(lines, found.job_id);
  std::vector<int> machines;
  for (int machine = 0; lines >> machine;) machines.push_back(machine);
  if (machines.size() != static_cast<std::size_t>(size_))
    throw std::invalid_argument("rank 0 has told of " + std::to_string(machines.size()) +
                                " ranks, the group has " + std::to_string(size_));
  const int mine = machines[static_cast<std::size_t>(rank_)];
  found.local_world_size = static_cast<int>(std::count(machines.begin(), machines.end(), mine));
  found.local_rank = static_cast<int>(std::count(machines.begin(), machines.begin() + rank_, mine));
  return found;
}

std::string machineIdentity() {
  std::string started;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> started;
  return metrics::machineName() + " " + started;
}

}  // namespace ebbtide::plugin
