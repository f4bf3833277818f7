#include "doctor/machine_findings.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string_view>

#include "checked_json.hpp"
#include "ebbtide/scheduler/planner.hpp"
#include "live/found_jobs.hpp"
#include "live/http_client.hpp"
#include "shown_values.hpp"
#include "terminal_text.hpp"

namespace ebbtide::cli {
namespace {

namespace fs = std::filesystem;
using Verdict = Finding::Verdict;

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

// Empty: it can be bound.
std::string whyNotBound(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failed != 0) return ::gai_strerror(failed);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  const int descriptor = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return std::strerror(errno);
  const int yes = 1;
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const bool bound =
      ::bind(descriptor, found->ai_addr, found->ai_addrlen) == 0 && ::listen(descriptor, 1) == 0;
  std::string why = bound ? "" : std::strerror(errno);
  ::close(descriptor);
  return why;
}

// Empty: not one of ours.
std::string jobServedAt(const std::string& address, std::uint16_t port) {
  const std::string host = address == "0.0.0.0" ? "127.0.0.1" : address == "::" ? "::1" : address;
  const Question question{.address = TcpAddress{host, std::to_string(port)},
                          .method = "GET",
                          .target = "/v1/node",
                          .body = {},
                          .token = {}};
  const Reply reply = ask({question}, std::chrono::seconds(2)).front();
  const auto tree = parseChecked(reply.body);
  return tree ? forTerminal(textAt(*tree, {"job_id"})) : "";
}

// By making a file: permissions alone say nothing to root.
std::string whyNotWritable(const std::string& folder) {
  std::string path = folder + "/ebbtide-doctor-XXXXXX";
  const int file = ::mkostemp(path.data(), O_CLOEXEC);
  if (file < 0) return std::strerror(errno);
  ::close(file);
  ::unlink(path.c_str());
  return "";
}

std::optional<std::int64_t> limitIn(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return std::nullopt;
  std::int64_t bytes = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), bytes);
  // "max", and version 1's "no limit", which is a number near 2^63.
  if (error != std::errc() || bytes <= 0 || bytes > INT64_MAX / 2) return std::nullopt;
  return bytes;
}

scheduler::Graph smallStep() {
  using namespace scheduler;
  Graph graph;
  constexpr int kForward = 4;
  graph.values.push_back({.bytes = 10});
  for (int i = 0; i < kForward; ++i) {
    graph.ops.push_back({.name = "forward",
                         .duration_ns = 10,
                         .rerunnable = true,
                         .inputs = {i},
                         .outputs = {i + 1}});
    graph.values.push_back({.bytes = 10, .producer = i, .last_reference = i + 1});
  }
  for (int i = kForward; i > 0; --i) {
    graph.ops.push_back({.name = "backward", .duration_ns = 10, .backward = true, .inputs = {i}});
  }
  return graph;
}

}  // namespace

const char* nameOf(Finding::Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kAdvice:
      return "advice";
    case Verdict::kAbsent:
      return "absent";
    case Verdict::kProblem:
      return "problem";
  }
  return "";
}

Finding portFinding(const std::string& address, std::uint16_t port, bool is_given) {
  const std::string place = forTerminal(address) + ":" + std::to_string(port);
  const std::string why = whyNotBound(address, port);
  if (why.empty()) return {"port", Verdict::kOk, place + " is free", ""};
  const std::string job = jobServedAt(address, port);
  const std::string by = job.empty() ? "another program" : "the running job " + job;
  if (!is_given && why == std::strerror(EADDRINUSE)) {
    return {"port", Verdict::kOk,
            place + " is taken by " + by + ": the next job takes the next free one", ""};
  }
  if (!job.empty()) {
    return {"port", Verdict::kOk, place + " is taken by " + by,
            "for a second job on this machine: another EBBTIDE_PORT, or none"};
  }
  return {"port", Verdict::kProblem, place + " cannot be listened on: " + why,
          "EBBTIDE_PORT names another port, EBBTIDE_BIND another address; training goes on "
          "without metrics else"};
}

Finding socketFolderFinding(const std::string& folder) {
  constexpr std::size_t kLongest = 107, kJobAndRank = 24 + sizeof("//rank-9999.sock");
  Finding finding{"socket folder", Verdict::kProblem, "", ""};
  const std::string shown = forTerminal(folder);
  const std::string other = "EBBTIDE_SOCKET_DIR names another folder";
  struct stat facts {};
  if (folder.size() + kJobAndRank > kLongest) {
    finding.what = shown + ": its path is too long for the socket of a job whose id has 24 letters";
    finding.fix = other + " with a shorter path";
  } else if (::lstat(folder.c_str(), &facts) != 0) {
    const std::string parent = fs::path(folder).parent_path().string();
    const std::string why = whyNotWritable(parent.empty() ? "." : parent);
    finding.verdict = why.empty() ? Verdict::kOk : Verdict::kProblem;
    finding.what = shown + (why.empty() ? " is made by the first job" : " cannot be made: " + why);
    finding.fix = why.empty() ? "" : other;
  } else if (!S_ISDIR(facts.st_mode)) {
    finding.what = shown + " is no folder";
    finding.fix = "remove it, or " + other;
  } else if (facts.st_uid != ::geteuid()) {
    finding.what = shown + " is another user's";
    finding.fix = other;
  } else if ((facts.st_mode & 077U) != 0) {
    finding.what = shown + " is open to other users";
    finding.fix = "chmod 700 " + shown;
  } else {
    std::size_t running = 0;
    for (const FoundJob& job : findJobs(folder)) running += job.ranks.empty() ? 0 : 1;
    finding.verdict = Verdict::kOk;
    finding.what =
        shown + ", " + std::to_string(running) + " running job" + (running == 1 ? "" : "s");
  }
  return finding;
}

Finding spillFolderFinding(const std::string& folder) {
  constexpr std::int64_t kLeastBytes = std::int64_t{1} << 30;
  Finding finding{"spill folder", Verdict::kProblem, "", "EBBTIDE_SPILL_DIR names another folder"};
  const std::string shown = forTerminal(folder);
  if (const std::string why = whyNotWritable(folder); !why.empty()) {
    finding.what = "no file can be made in " + shown + ": " + why;
    return finding;
  }
  struct statvfs space {};
  struct statfs kind {};
  if (::statvfs(folder.c_str(), &space) != 0 || ::statfs(folder.c_str(), &kind) != 0) {
    finding.what = shown + ": " + std::strerror(errno);
    return finding;
  }
  const auto free = static_cast<std::int64_t>(std::min<unsigned long long>(
      static_cast<unsigned long long>(space.f_bavail) * space.f_frsize, INT64_MAX));
  finding.what = shown + " has " + shownBytes(free) + " free";
  finding.verdict = Verdict::kAdvice;
  if (kind.f_type == TMPFS_MAGIC) {
    finding.what += ", and is memory: what is spilled there stays in it";
  } else if (free >= kLeastBytes) {
    finding.verdict = Verdict::kOk;
    finding.fix.clear();
  }
  return finding;
}

Finding toolkitFinding() {
  std::string folders = variable("PATH");
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const std::string root = variable(name); !root.empty()) folders += ":" + root + "/bin";
  }
  std::istringstream list(folders + ":/usr/local/cuda/bin");
  for (std::string folder; std::getline(list, folder, ':');) {
    const std::string program = folder + "/nvcc";
    if (::access(program.c_str(), X_OK) == 0) {
      return {"CUDA toolkit", Verdict::kOk, forTerminal(program), ""};
    }
  }
  return {"CUDA toolkit", Verdict::kAbsent, "none here: only tests on a GPU need it", ""};
}

// A plan that the solver has to make: the wheel is found, loads and answers.
Finding solverFinding(const std::string& site_packages) {
  using namespace scheduler;
  PlannerOptions options;
  if (!site_packages.empty()) options.named["ortools"] = site_packages;
  constexpr std::string_view kNoSolver = "no solver: ";
  options.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  try {
    planner("moccasin").plan(smallStep(), 40, options);
    const std::string where = site_packages.empty() ? "" : " in " + forTerminal(site_packages);
    return {"solver", Verdict::kOk, "CP-SAT of the ortools wheel answers" + where, ""};
  } catch (const std::exception& error) {
    // "no solver: …; pip install …"
    std::string what = forTerminal(error.what());
    const std::size_t fix = std::min(what.find("; pip install"), what.size());
    const std::size_t begin = what.starts_with(kNoSolver) ? kNoSolver.size() : 0;
    return {"solver", Verdict::kAbsent,
            what.substr(begin, fix - begin) + ": the planners moccasin and checkmate-* need it",
            fix < what.size() ? what.substr(fix + 2) : ""};
  }
}

std::optional<std::int64_t> groupLimitBytes(const std::string& membership,
                                            const std::string& root) {
  std::optional<std::int64_t> least;
  const auto take = [&](const std::optional<std::int64_t>& bytes) {
    if (bytes) least = std::min(least.value_or(*bytes), *bytes);
  };
  std::istringstream lines(membership);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool second_version = controllers.empty();
    const bool memory = ("," + controllers + ",").find(",memory,") != std::string::npos;
    if (!second_version && !memory) continue;
    const fs::path base = second_version ? fs::path(root) : fs::path(root) / "memory";
    const char* name = second_version ? "memory.max" : "memory.limit_in_bytes";
    // Each group above limits too. In a container the path may not be there: its root is.
    for (fs::path group = fs::path(line.substr(second + 1)).relative_path();;
         group = group.parent_path()) {
      take(limitIn(base / group / name));
      if (second_version) take(limitIn(base / group / "memory.high"));  // over it: throttled
      if (group.empty()) break;
    }
  }
  return least;
}

Finding memoryFinding(std::int64_t machine_bytes, std::optional<std::int64_t> group_limit_bytes) {
  const std::string machine = shownBytes(machine_bytes) + " in the machine";
  if (!group_limit_bytes || *group_limit_bytes >= machine_bytes) {
    return {"memory", Verdict::kOk, machine + ", no lower limit", ""};
  }
  return {"memory", Verdict::kOk,
          machine + "; this control group may use " + shownBytes(group_limit_bytes) +
              ": a budget in percent is of that",
          ""};
}

Findings machineFindings(const std::string& site_packages) {
  Findings findings;
  findings.push_back(toolkitFinding());
  findings.push_back(solverFinding(site_packages));
  const std::string bind = variable("EBBTIDE_BIND"), port = variable("EBBTIDE_PORT");
  const int number = std::atoi(port.c_str());
  const auto chosen = static_cast<std::uint16_t>(number > 0 && number < 65536 ? number : 9464);
  findings.push_back(portFinding(bind.empty() ? "127.0.0.1" : bind, chosen, !port.empty()));
  findings.push_back(socketFolderFinding(socketFolder()));
  std::string spill = variable("EBBTIDE_SPILL_DIR");
  std::error_code ignored;
  if (spill.empty()) spill = fs::temp_directory_path(ignored).string();
  findings.push_back(spillFolderFinding(spill.empty() ? "." : spill));
  std::ifstream file("/proc/self/cgroup");
  std::stringstream membership;
  membership << file.rdbuf();
  const std::int64_t machine = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGE_SIZE);
  findings.push_back(memoryFinding(machine, groupLimitBytes(membership.str(), "/sys/fs/cgroup")));
  rlimit space{};
  if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
    findings.push_back(
        {"address space", Verdict::kProblem,
         "limited to " +
             shownBytes(static_cast<std::int64_t>(std::min<rlim_t>(space.rlim_cur, INT64_MAX))) +
             "; the allocator reserves addresses beyond what it uses",
         "ulimit -v unlimited"});
  }
  return findings;
}

}  // namespace ebbtide::cli
