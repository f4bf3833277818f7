#include "config/rank_socket.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/variables.hpp"
#include "ebbtide/metrics/socket_folder.hpp"

namespace ebbtide::plugin {
namespace {

bool isPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

}  // namespace

RankSocket::RankSocket(const std::string& given_folder, std::string job_id, int rank)
    : job_id_(std::move(job_id)),
      folder_(metrics::socketFolder(given_folder)),
      job_folder_(folder_ + "/" + job_id_),
      path_(job_folder_ + "/" + metrics::socketOfRank(rank)) {}

std::string RankSocket::jobIdOf(const std::string& text) {
  std::string id = text.substr(0, kMostJobIdBytes);
  std::replace_if(
      id.begin(), id.end(), [](char c) { return !isPlain(c); }, '_');
  if (id == "." || id == "..") std::replace(id.begin(), id.end(), '.', '_');
  return id;
}

std::string RankSocket::jobIdFromEnvironment() {
  for (const char* name : {"EBBTIDE_JOB_ID", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"}) {
    const std::string id = variable(name);
    const bool unnamed = id == "none" && std::strcmp(name, "TORCHELASTIC_RUN_ID") == 0;
    if (!id.empty() && !unnamed) return jobIdOf(id);
  }
  const std::string port = variable("MASTER_PORT");
  return jobIdOf(port.empty() ? fmt::format("pid-{}", ::getpid()) : "port-" + port);
}

}  // namespace ebbtide::plugin
