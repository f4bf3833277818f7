#include "solver/solver_worker.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

extern char** environ;

namespace ebbtide::scheduler {
namespace {

using Kind = SolverMessage::Kind;

[[noreturn]] void throwSystem(const std::string& what, int error) {
  throw std::runtime_error("cannot start a solver: " + what + ": " + std::strerror(error));
}

// Without what would load this plugin into the solver, too.
std::vector<char*> solverEnvironment() {
  std::vector<char*> kept;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (text.starts_with("LD_PRELOAD=") || text.starts_with("EBBTIDE")) continue;
    kept.push_back(*variable);
  }
  kept.push_back(nullptr);
  return kept;
}

// How the child begins: the socket as its standard input, no other file of ours, no output, and
// signals as in a new program.
class SpawnSettings {
 public:
  explicit SpawnSettings(int socket) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_adddup2(&actions_, socket, STDIN_FILENO);
    posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
    posix_spawnattr_init(&attributes_);
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes_, &signals);
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes_, &signals);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

}  // namespace

void SolverAnswer::rejectRefusal() const {
  if (end == End::kRefused) throw std::invalid_argument(solverFault(message));
}

SolverWorker::SolverWorker(SolverWheel wheel) : wheel_(std::move(wheel)) {
  std::string program = findSolverProgram().string();
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    throwSystem("socketpair", errno);
  }
  channel_ = std::make_unique<SolverChannel>(sockets[0]);
  const SpawnSettings settings(sockets[1]);
  char* arguments[] = {program.data(), nullptr};
  std::vector<char*> environment = solverEnvironment();
  const int error = ::posix_spawn(&pid_, program.c_str(), settings.actions(), settings.attributes(),
                                  arguments, environment.data());
  ::close(sockets[1]);
  if (error != 0) throwSystem(program, error);
}

SolverWorker::~SolverWorker() {
  end();
}

void SolverWorker::end() {
  if (reaped_) return;
  ::kill(pid_, SIGKILL);  // not reaped, so the id is still its own
  while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
}

// Its socket closes a moment before its status can be read.
void SolverWorker::awaitDeath() {
  const Clock::time_point until = Clock::now() + kGrace;
  while (!reaped_ && Clock::now() < until) {
    reaped_ = ::waitpid(pid_, &status_, WNOHANG) != 0;
    if (!reaped_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::string SolverWorker::cause() const {
  if (WIFSIGNALED(status_)) {
    return "the solver's process was ended by signal " + std::to_string(WTERMSIG(status_));
  }
  return "the solver's process ended with status " + std::to_string(WEXITSTATUS(status_));
}

bool SolverWorker::ask(const SolverRequest& request, Clock::time_point deadline) {
  const bool cp_sat = request.solver == Solver::kCpSat;
  const std::string library = (cp_sat ? wheel_.cp_sat : wheel_.highs).string();
  return channel_->send({Kind::kSolver, cp_sat ? "cp-sat" : "highs"}, deadline) &&
         channel_->send({Kind::kLibrary, library}, deadline) &&
         channel_->send({Kind::kParameters, request.parameters}, deadline) &&
         channel_->send({Kind::kModel, request.model}, deadline);
}

// Nothing where the time is up, the worker dead, or the request cancelled.
std::optional<SolverMessage> SolverWorker::receive(const SolverRequest& request,
                                                   Clock::time_point until) {
  if (request.cancelled == nullptr) return channel_->receive(until);
  while (!*request.cancelled) {
    const Clock::time_point next = std::min(until, Clock::now() + kLook);
    if (auto message = channel_->receive(next)) return message;
    if (Clock::now() < next || Clock::now() >= until) break;
  }
  return std::nullopt;
}

SolverAnswer SolverWorker::solve(const SolverRequest& request, Clock::time_point deadline,
                                 const OnIncumbent& on_incumbent) {
  SolverAnswer answer;
  bool stopping = false;
  Clock::time_point until = deadline;
  ask(request, deadline);  // where it fails, so does what follows
  for (;;) {
    std::optional<SolverMessage> message = receive(request, until);
    const bool cancelled = request.cancelled != nullptr && *request.cancelled;
    if (!message && cancelled) {
      answer.end = SolverAnswer::End::kLate;
      break;
    }
    const bool late = Clock::now() >= until;
    if (!message && late && !stopping) {
      stopping = true;
      until = Clock::now() + kGrace;
      channel_->closeHalf();
      continue;
    }
    if (!message) {
      answer.end = late ? SolverAnswer::End::kLate : SolverAnswer::End::kDied;
      break;
    }
    if (message->kind == Kind::kError) {
      answer.end = SolverAnswer::End::kRefused;
      answer.message = std::move(message->bytes);
      break;
    }
    answer.bytes = std::move(message->bytes);
    if (message->kind == Kind::kResponse) {
      answer.end = SolverAnswer::End::kFinished;
      break;
    }
    if (on_incumbent) on_incumbent(answer.bytes);
  }
  if (answer.end == SolverAnswer::End::kDied) {
    awaitDeath();
    end();
    answer.message = cause();
  }
  end();
  return answer;
}

}  // namespace ebbtide::scheduler
