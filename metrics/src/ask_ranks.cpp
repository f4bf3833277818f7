#include "ebbtide/metrics/ask_ranks.hpp"

#include <boost/asio/io_context.hpp>
#include <utility>

#include "rank_client.hpp"
#include "rank_sockets.hpp"

namespace ebbtide::metrics {
namespace {

std::map<int, std::string> ask(const std::map<int, std::string>& sockets, const std::string& path,
                               std::chrono::milliseconds limit) {
  std::map<int, std::string> answers;
  boost::asio::io_context context(/*concurrency_hint=*/1);
  RankClient client(context);
  for (const auto& [rank, socket] : sockets) {
    client.ask(socket, {.method = "GET", .path = path}, limit,
               [&answers, rank = rank](const Response& response) {
                 if (response.status == 200) answers[rank] = response.body;
               });
  }
  context.run_for(limit);
  return answers;
}

}  // namespace

std::map<int, std::string> askRanks(const std::string& job_folder, const std::string& path,
                                    std::chrono::milliseconds limit) {
  return ask(rankSockets(job_folder), path, limit);
}

std::string askRank(int rank, const std::string& job_folder, const std::string& path,
                    std::chrono::milliseconds limit) {
  const auto sockets = rankSockets(job_folder);
  const auto found = sockets.find(rank);
  if (found == sockets.end()) return "";
  return ask({*found}, path, limit)[rank];
}

}  // namespace ebbtide::metrics
