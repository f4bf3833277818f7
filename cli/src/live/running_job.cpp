#include "live/running_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "checked_json.hpp"
#include "given_seconds.hpp"
#include "given_text.hpp"
#include "terminal_text.hpp"
#include "text_file.hpp"

namespace ebbtide::cli {
namespace {

// A node tells its ranks at once, whatever they do: one that is silent does not hold up a change of
// the others for as long as the change itself may take.
constexpr std::chrono::milliseconds kForRanks{10'000};

Question statusQuestion() {
  return {.address = {}, .method = "GET", .target = "/v1/status", .body = {}, .token = {}};
}

// Of a rank that nobody named, with the nodes that did not tell their ranks.
std::string whyNotFound(const std::vector<RankAnswer>& silent) {
  if (silent.empty()) return "not found: this job has no such rank";
  const bool none_answered = std::all_of(silent.begin(), silent.end(),
                                         [](const RankAnswer& node) { return node.status == 0; });
  std::vector<std::string> nodes;
  for (const RankAnswer& node : silent) nodes.push_back(node.where);
  return fmt::format("not found: {} {}", fmt::join(nodes, ", "),
                     none_answered ? "did not answer" : "named no ranks");
}

std::string readToken(const std::string& path) {
  if (path.empty()) return "";
  std::string token = readText(path);
  token.erase(std::min(token.find_first_of("\r\n"), token.size()));
  const bool plain = std::all_of(token.begin(), token.end(),
                                 [](char letter) { return letter > ' ' && letter <= '~'; });
  if (token.empty() || !plain || token.size() > 4096) {
    throw std::invalid_argument("--token-file " + path +
                                ": its first line is not a token of up to 4096 letters");
  }
  return token;
}

// "0-3, 7"
std::string ranges(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(ranks[i]);
    if (last > i) text += "-" + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

std::vector<int> liveRanks(const FoundJob& job) {
  std::vector<int> ranks;
  for (const FoundRank& socket : job.ranks) ranks.push_back(socket.rank);
  return ranks;
}

std::string names(const std::vector<FoundJob>& jobs) {
  std::string text;
  for (const FoundJob& job : jobs) {
    if (job.ranks.empty()) continue;
    text += fmt::format("{}{} ({} rank{})", text.empty() ? "" : ", ", forTerminal(job.id),
                        job.ranks.size(), job.ranks.size() == 1 ? "" : "s");
  }
  return text;
}

std::string nothingRuns(const std::string& folder, const std::vector<FoundJob>& jobs) {
  std::string text = "no running job in " + forTerminal(folder);
  for (const FoundJob& job : jobs) {
    text += fmt::format("; the sockets of {} are left over from processes that ended",
                        forTerminal(job.id));
  }
  return text +
         ". Start one with EBBTIDE=1 or EBBTIDE_BUDGET. If one runs, set EBBTIDE_SOCKET_DIR as "
         "that "
         "job has it, or name its machine: --endpoint HOST:9464";
}

// Throws NoRun.
const FoundJob& chosen(const std::vector<FoundJob>& jobs, const std::string& id,
                       const std::string& folder) {
  std::vector<const FoundJob*> live;
  for (const FoundJob& job : jobs) {
    if (!job.ranks.empty() && (id.empty() || job.id == id)) live.push_back(&job);
  }
  if (live.size() == 1) return *live.front();
  const std::string running = names(jobs);
  if (running.empty()) throw NoRun(nothingRuns(folder, jobs));
  if (live.empty()) {
    throw NoRun(fmt::format("no job '{}' runs here; running: {}", forTerminal(id), running));
  }
  throw NoRun(fmt::format("several jobs run here: {}; choose one with --job ID", running));
}

// A target's query begins with '?', where there is one.
RankAnswer answerFrom(const Reply& reply, int rank, const std::string& where) {
  RankAnswer answer{.rank = rank,
                    .where = where,
                    .status = reply.status,
                    .document = {},
                    .problem = forTerminal(reply.why)};
  if (reply.status == 0) return answer;
  auto tree = parseChecked(reply.body);
  const bool good = reply.status >= 200 && reply.status < 300;
  if (tree && tree->is_object()) {
    answer.document = std::move(*tree);
    if (good) return answer;
  }
  const std::string said = textAt(answer.document, {"error"}).substr(0, 1000);
  if (reply.status == 501) {
    answer.problem = "not available" + (said.empty() ? "" : ": " + forTerminal(said));
  } else if (good) {
    answer.problem = "its answer cannot be read: it is not the JSON of a rank, or is incomplete";
  } else if (said.empty()) {
    answer.problem = fmt::format("refused with HTTP status {}", reply.status);
  } else {
    answer.problem = forTerminal(said);
  }
  return answer;
}

void sortByRank(std::vector<RankAnswer>& answers) {
  std::stable_sort(answers.begin(), answers.end(),
                   [](const RankAnswer& a, const RankAnswer& b) { return a.rank < b.rank; });
}

}  // namespace

void JobInput::addTo(CLI::App& verb) {
  constexpr const char* kGroup = "Which run";
  verb.add_option("--job", job, "the job's id, where several run here")
      ->check(givenText())
      ->type_name("ID")
      ->group(kGroup);
  verb.add_option("--rank", ranks, "only this rank; may be repeated (default: all)")
      ->check(CLI::Range(0, INT32_MAX).description(""))
      ->allow_extra_args(false)
      ->take_all()
      ->type_name("N")
      ->group(kGroup);
  verb.add_option("--endpoint", endpoints,
                  "a node's address, in place of the jobs of this machine; may be repeated")
      ->check(givenText())
      ->allow_extra_args(false)
      ->take_all()
      ->type_name("HOST:PORT")
      ->group(kGroup);
  verb.add_option("--token-file", token_file,
                  "holds the bearer token with which an endpoint takes changes")
      ->check(givenText())
      ->type_name("FILE")
      ->group(kGroup);
  verb.add_option("--timeout", timeout_seconds, "how long a rank may take to answer")
      ->check(givenSeconds(0.001, 3600))
      ->capture_default_str()
      ->type_name("SECONDS")
      ->group(kGroup);
}

std::chrono::milliseconds JobInput::timeout() const {
  return std::chrono::milliseconds(std::llround(timeout_seconds * 1000));
}

std::string RankAnswer::name() const {
  if (rank < 0) return where;
  return (where.empty() ? "" : where + ", ") + "rank " + std::to_string(rank);
}

RunningJob::RunningJob(const JobInput& input)
    : input_(input), token_(readToken(input.token_file)) {}

RunningJob RunningJob::find(const JobInput& input) {
  RunningJob job(input);
  std::vector<std::string>& endpoints = job.input_.endpoints;  // each once
  for (auto at = endpoints.begin(); at != endpoints.end();) {
    parseEndpoint(*at);
    at = std::find(endpoints.begin(), at, *at) == at ? at + 1 : endpoints.erase(at);
  }
  if (input.endpoints.empty()) job.findHere();
  return job;
}

void RunningJob::findHere() {
  const std::string folder = socketFolder();
  const std::vector<FoundJob> jobs = findJobs(folder);
  const FoundJob& job = chosen(jobs, input_.job, folder);
  take(job, folder);
  const std::vector<int> there = liveRanks(job);
  for (const int rank : input_.ranks) {
    if (std::find(there.begin(), there.end(), rank) != there.end()) continue;
    throw NoRun(fmt::format("the job {} has no rank {} that runs here; there: {}", forTerminal(id_),
                            rank, ranges(there)));
  }
}

void RunningJob::take(const FoundJob& job, const std::string& folder) {
  id_ = job.id;
  folder_ = folder + "/" + job.id;
  dead_ = job.dead;
  if (!job.dead.empty()) {
    notes_.push_back(
        fmt::format("skipped rank{} {} of {}: the socket is left over, nobody listens on it",
                    job.dead.size() == 1 ? "" : "s", ranges(job.dead), forTerminal(job.id)));
  }
}

std::vector<RunningJob> RunningJob::findAll(const JobInput& input) {
  const std::string folder = socketFolder();
  std::vector<RunningJob> jobs;
  for (const FoundJob& found : findJobs(folder)) {
    if (found.ranks.empty()) continue;
    RunningJob job(input);
    const std::vector<int> there = liveRanks(found);
    std::erase_if(job.input_.ranks, [&](int rank) {
      return std::find(there.begin(), there.end(), rank) == there.end();
    });
    if (job.input_.ranks.empty() && !input.ranks.empty()) continue;
    job.take(found, folder);
    jobs.push_back(std::move(job));
  }
  return jobs;
}

bool RunningJob::isWanted(int rank) const {
  return input_.ranks.empty() ||
         std::find(input_.ranks.begin(), input_.ranks.end(), rank) != input_.ranks.end();
}

std::vector<RankAnswer> RunningJob::statuses(std::chrono::milliseconds limit) {
  if (!input_.endpoints.empty()) return statusesOfNodes(limit);
  return askAll(statusQuestion(), limit);
}

std::vector<RankAnswer> RunningJob::statusesOfNodes(std::chrono::milliseconds limit) {
  std::vector<Question> questions;
  for (const std::string& endpoint : input_.endpoints) {
    questions.push_back({.address = parseEndpoint(endpoint),
                         .method = "GET",
                         .target = "/v1/node",
                         .body = {},
                         .token = token_});
  }
  const std::vector<Reply> replies = ask(questions, limit, stop_);
  std::vector<RankAnswer> answers;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    RankAnswer node = answerFrom(replies[i], -1, input_.endpoints[i]);
    const nlohmann::json& ranks = at(node.document, {"ranks"});
    if (node.problem.empty() && !ranks.is_array()) node.problem = "its answer names no ranks";
    if (!node.problem.empty()) {
      answers.push_back(std::move(node));
      continue;
    }
    const std::string job = textAt(node.document, {"job_id"});
    if (!input_.job.empty() && job != input_.job) {
      node.problem = fmt::format("runs the job '{}', not '{}'", forTerminal(job), input_.job);
      answers.push_back(std::move(node));
      continue;
    }
    for (const nlohmann::json& tree : ranks) {
      const auto rank = integerAt(tree, {"rank"});
      if (!rank || *rank < 0 || *rank > INT32_MAX || !isWanted(static_cast<int>(*rank))) continue;
      answers.push_back({.rank = static_cast<int>(*rank),
                         .where = node.where,
                         .status = 200,
                         .document = tree,
                         .problem = forTerminal(textAt(tree, {"error"}))});
    }
  }
  sortByRank(answers);
  return answers;
}

std::vector<RunningJob::Target> RunningJob::targets(std::vector<RankAnswer>& silent) {
  std::vector<Target> targets;
  if (input_.endpoints.empty()) {
    for (const FoundRank& socket : socketsOf(folder_)) {
      if (isWanted(socket.rank)) targets.push_back({socket.rank, "", UnixAddress{socket.path}});
    }
    return targets;
  }
  for (RankAnswer& answer : statusesOfNodes(std::min(input_.timeout(), kForRanks))) {
    if (answer.rank < 0) {
      silent.push_back(std::move(answer));
    } else {
      targets.push_back({answer.rank, answer.where, parseEndpoint(answer.where)});
    }
  }
  return targets;
}

RunningJob::Round RunningJob::roundOf(const Question& question) {
  Round round;
  round.targets = targets(round.silent);
  for (const Target& target : round.targets) {
    round.questions.push_back(question);
    round.questions.back().address = target.address;
    if (!target.where.empty()) {
      round.questions.back().token = token_;
      round.questions.back().target += fmt::format("?rank={}", target.rank);
    }
  }
  return round;
}

std::vector<RankAnswer> RunningJob::answersOf(Round round, std::span<const Reply> replies) const {
  std::vector<RankAnswer> answers = std::move(round.silent);
  const std::string none = whyNotFound(answers);
  for (std::size_t i = 0; i < round.targets.size(); ++i) {
    const Target& target = round.targets[i];
    const bool was_dead = std::find(dead_.begin(), dead_.end(), target.rank) != dead_.end();
    if (was_dead && replies[i].status == 0) continue;  // else a new process took the socket's place
    answers.push_back(answerFrom(replies[i], target.rank, target.where));
  }
  for (const int rank : input_.ranks) {
    const auto is_it = [&](const Target& target) { return target.rank == rank; };
    if (std::none_of(round.targets.begin(), round.targets.end(), is_it)) {
      answers.push_back({.rank = rank, .where = {}, .status = 0, .document = {}, .problem = none});
    }
  }
  sortByRank(answers);
  return answers;
}

std::vector<RankAnswer> RunningJob::askAll(const Question& question,
                                           std::chrono::milliseconds limit) {
  Round round = roundOf(question);
  const std::vector<Reply> replies = ask(round.questions, limit, stop_);
  return answersOf(std::move(round), replies);
}

std::vector<std::vector<RankAnswer>> RunningJob::statusesOf(std::vector<RunningJob>& jobs,
                                                            std::chrono::milliseconds limit,
                                                            const std::stop_token& stop) {
  std::vector<Round> rounds;
  std::vector<Question> questions;
  for (RunningJob& job : jobs) {
    rounds.push_back(job.roundOf(statusQuestion()));
    const std::vector<Question>& more = rounds.back().questions;
    questions.insert(questions.end(), more.begin(), more.end());
  }
  const std::vector<Reply> replies = ask(questions, limit, stop);
  std::vector<std::vector<RankAnswer>> answers;
  std::span<const Reply> rest(replies);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const std::size_t count = rounds[i].questions.size();
    answers.push_back(jobs[i].answersOf(std::move(rounds[i]), rest.first(count)));
    rest = rest.subspan(count);
  }
  return answers;
}

std::vector<RankAnswer> RunningJob::get(const std::string& path) {
  return askAll({.address = {}, .method = "GET", .target = path, .body = {}, .token = {}},
                input_.timeout());
}

std::vector<RankAnswer> RunningJob::post(const std::string& path, const nlohmann::json& body,
                                         std::chrono::milliseconds limit) {
  return askAll({.address = {}, .method = "POST", .target = path, .body = body.dump(), .token = {}},
                limit);
}

}  // namespace ebbtide::cli
