// metrics_serve: the server of a machine with made-up ranks, for tests of its clients.
//
//   metrics_serve --ranks 64 --port 0 --socket-dir DIR [--token-file F] [--job-id ID]
//                 [--step-seconds S] [--hung-rank N] [--ops N]
//
// Prints one line of JSON, {"port":…,"folder":…,"job_id":…}, and serves until SIGTERM or SIGINT.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ebbtide/metrics/http_server.hpp"
#include "fabricated_rank.hpp"

namespace {

using ebbtide::metrics::BearerToken;
using ebbtide::metrics::HttpServer;
using ebbtide::metrics::HttpServerOptions;
using ebbtide::metrics::test::FabricatedRank;

// Five descriptors a rank.
void allowManyFiles() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Listens, and never answers.
void listenSilently(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ::unlink(path.c_str());
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ::listen(descriptor, 100);
}

struct Arguments {
  std::map<std::string, std::string> values;

  std::string text(const std::string& name, const std::string& otherwise) const {
    const auto found = values.find(name);
    return found == values.end() ? otherwise : found->second;
  }
  int number(const std::string& name, int otherwise) const {
    return std::atoi(text(name, std::to_string(otherwise)).c_str());
  }
};

int serve(const Arguments& arguments) {
  const int ranks = arguments.number("--ranks", 2);
  const int hung_rank = arguments.number("--hung-rank", -1);
  const std::string job_id = arguments.text("--job-id", "fabricated");
  const std::string folder = arguments.text("--socket-dir", "/tmp/ebbtide-serve") + "/" + job_id;
  HttpServerOptions first;
  first.tcp.emplace();
  first.tcp->address = arguments.text("--bind", "127.0.0.1");
  first.tcp->port = static_cast<std::uint16_t>(arguments.number("--port", 0));
  first.node = {.folder = folder, .job_id = job_id, .rank = 0, .local_world_size = ranks};
  if (hung_rank < 0) first.node->gather_limit = std::chrono::minutes(1);  // all are to be there
  const std::string token_file = arguments.text("--token-file", "");
  if (!token_file.empty()) {
    auto [token, problem] = BearerToken::read(token_file);
    if (!token) {
      std::cerr << "metrics_serve: " << problem << "\n";
      return 1;
    }
    first.tcp->token = std::move(token);
  }
  std::vector<std::unique_ptr<FabricatedRank>> made_up;
  std::vector<std::unique_ptr<HttpServer>> servers;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string path = folder + "/rank-" + std::to_string(rank) + ".sock";
    if (rank == hung_rank && rank > 0) {
      listenSilently(path);
      continue;
    }
    HttpServerOptions options = rank == 0 ? first : HttpServerOptions{};
    options.unix_path = path;
    made_up.push_back(std::make_unique<FabricatedRank>(FabricatedRank::Place{
        .rank = rank,
        .world_size = ranks,
        .job_id = job_id,
        .socket = path,
        .step_seconds = std::atof(arguments.text("--step-seconds", "0.5").c_str()),
        .ops = arguments.number("--ops", 100)}));
    auto [server, problem] = HttpServer::start(options, made_up.back()->routes());
    if (!problem.empty()) {
      std::cerr << "metrics_serve: " << problem << "\n";
      return 1;
    }
    servers.push_back(std::move(server));
  }
  made_up.front()->setTcp(first.tcp->address + ":" + std::to_string(servers.front()->port()));
  std::cout << nlohmann::json{{"port", servers.front()->port()},
                              {"folder", folder},
                              {"job_id", job_id}}
                   .dump()
            << std::endl;
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  int received = 0;
  ::sigwait(&signals, &received);
  ::unlink((folder + "/rank-" + std::to_string(hung_rank) + ".sock").c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  sigset_t signals;  // for sigwait, and before the first thread
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  allowManyFiles();
  Arguments arguments;
  for (int i = 1; i + 1 < argc; i += 2) arguments.values[argv[i]] = argv[i + 1];
  return serve(arguments);
}
