// ebbtide-solver: the worker's process. It talks over its standard input (solver_channel.hpp).
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "solver/process/solver_engine.hpp"
#include "solver/solver_channel.hpp"

namespace {

using namespace ebbtide::scheduler;
using Kind = SolverMessage::Kind;

constexpr auto kTimeToStop = std::chrono::seconds(2);

// The planner decides when this ends, not the terminal. A crash leaves no core file, and if memory
// is short this goes before the program that trains.
void beModest() {
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  if (std::FILE* file = std::fopen("/proc/self/oom_score_adj", "w")) {
    std::fputs("1000", file);
    std::fclose(file);
  }
}

std::map<Kind, std::string> receiveRequest(SolverChannel& channel) {
  std::map<Kind, std::string> request;
  while (request.count(Kind::kModel) == 0) {
    std::optional<SolverMessage> message = channel.receive();
    if (!message) std::_Exit(0);  // the planner has changed its mind, or died
    request[message->kind] = std::move(message->bytes);
  }
  return request;
}

std::unique_ptr<SolverEngine> makeEngine(const std::string& solver, const std::string& library) {
  if (solver == "cp-sat") return makeCpSatEngine(library);
  if (solver == "highs") return makeHighsEngine(library);
  throw std::runtime_error("this ebbtide-solver has no '" + solver + "'");
}

// The planner sends nothing after its request, so the next thing to come is the end of its half: it
// asks for an end, or it has died. Never returns.
[[noreturn]] void stopWhenAsked(SolverChannel& channel, SolverEngine& engine) {
  channel.receive();
  engine.stop();
  std::this_thread::sleep_for(kTimeToStop);
  std::_Exit(1);
}

SolverMessage solve(SolverChannel& channel) {
  try {
    std::map<Kind, std::string> request = receiveRequest(channel);
    SolverEngine& engine = *makeEngine(request[Kind::kSolver], request[Kind::kLibrary]).release();
    std::thread([&] { stopWhenAsked(channel, engine); }).detach();
    const auto on_incumbent = [&](const std::string& bytes) {
      channel.send({Kind::kIncumbent, bytes});
    };
    return {Kind::kResponse,
            engine.solve(request[Kind::kModel], request[Kind::kParameters], on_incumbent)};
  } catch (const std::exception& error) {
    return {Kind::kError, error.what()};
  }
}

}  // namespace

int main() {
  beModest();
  // Never destroyed, like the engine: the thread that waits for the end uses them.
  SolverChannel& channel = *new SolverChannel(STDIN_FILENO);
  channel.send(solve(channel));
  std::_Exit(0);
}
