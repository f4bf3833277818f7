#include "node_view.hpp"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "ebbtide/metrics/exposition_format.hpp"
#include "ebbtide/metrics/machine_name.hpp"
#include "ebbtide/metrics/refusals.hpp"
#include "ebbtide/metrics/socket_folder.hpp"
#include "exposition_merge.hpp"
#include "rank_sockets.hpp"
#include "unix_socket.hpp"

namespace ebbtide::metrics {
namespace {

constexpr std::chrono::milliseconds kReadLimit{10'000};
constexpr std::chrono::milliseconds kChangeLimit{59'000};  // just below the server's own

std::string textOf(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Of a rank whose answer is not the one hoped for: what went wrong, and the code of that where the
// rank has told one.
std::string missingRank(int rank, const Response& response) {
  const auto told = nlohmann::json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  const auto has = [&told](const char* name) {
    return told.is_object() && told.contains(name) && told[name].is_string();
  };
  nlohmann::json missing = {{"rank", rank}};
  missing["error"] = has("error")
                         ? told["error"].get<std::string>()
                         : "the rank answered with status " + std::to_string(response.status);
  if (has("code") && isCode(told["code"].get_ref<const std::string&>()))
    missing["code"] = told["code"];
  return textOf(missing);
}

bool isObject(const std::string& text) {
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  return start != std::string::npos && text[start] == '{' && nlohmann::json::accept(text);
}

std::string gauge(const std::string& name, const std::string& help, const std::string& job_id,
                  std::size_t value) {
  return "# HELP " + name + " " + help + "\n# TYPE " + name + " gauge\n" + name +
         "{job_id=" + nlohmann::json(job_id).dump() + "} " + std::to_string(value) + "\n";
}

}  // namespace

struct NodeView::Gathering {
  Gathering() = default;
  // An answer was lost, since there was no memory for it: the next who asks must not wait for it.
  ~Gathering() {
    if (missing > 0 && lost) lost();
  }
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;

  std::vector<Part> parts;
  std::size_t missing = 0;
  std::function<void(std::vector<Part>&)> done;  // empty: nobody waits any more
  std::function<void()> lost;                    // likewise; does not throw

  void take(std::size_t index, Response response) {
    parts[index].response = std::move(response);
    if (--missing == 0 && done) done(parts);
  }
};

NodeView::NodeView(boost::asio::io_context& context, std::shared_ptr<Mailbox> mailbox,
                   NodeOptions options, Routes own)
    : options_(std::move(options)),
      own_(std::move(own)),
      mailbox_(std::move(mailbox)),
      client_(context) {}

Routes NodeView::routes() {
  Routes routes = own_;
  for (const auto& [method, path] : own_.list()) {
    if (path == "/metrics" || !path.starts_with("/v1/")) continue;
    const auto handler = [this](Request request, const Answer& answer) {
      pass(std::move(request), answer);
    };
    if (method == "GET") {
      routes.get(path, Routes::SlowHandler(handler));
    } else {
      routes.post(path, handler);
    }
  }
  routes.get("/metrics", [this](Request request, const Answer& answer) {
    if (request.query.contains("rank")) {
      pass(std::move(request), answer);
      return;
    }
    const auto join = [this](const std::vector<Part>& parts) { return joinedMetrics(parts); };
    gather(request, join, answer);
  });
  routes.get("/v1/node", [this](Request request, const Answer& answer) {
    request.path = "/v1/status";
    const auto join = [this](const std::vector<Part>& parts) { return joinedStatus(parts); };
    gather(request, join, answer);
  });
  return routes;
}

std::map<int, std::string> NodeView::siblings() const {
  std::map<int, std::string> sockets = rankSockets(options_.folder);
  sockets.erase(options_.rank);
  return sockets;
}

void NodeView::gather(const Request& request, Join join, Answer answer) {
  const bool series = request.path == "/metrics";
  const std::string accept = series ? contentTypeOf(formatFor(request.accept)) : "";
  const std::string question = request.path + "\n" + accept;
  const auto gathering = std::make_shared<Gathering>();  // before anybody waits for it
  std::vector<Answer>& waiting = asked_[question];
  waiting.push_back(std::move(answer));
  if (waiting.size() > 1) return;
  try {
    askAll({.method = "GET", .path = request.path, .accept = accept}, question, std::move(join),
           gathering);
  } catch (...) {  // out of memory: the next one asks anew instead of waiting for this
    gathering->done = nullptr;
    gathering->lost = nullptr;
    asked_.erase(question);
    throw;
  }
}

void NodeView::askAll(const Request& asked, const std::string& question, Join join,
                      const std::shared_ptr<Gathering>& gathering) {
  std::map<int, std::string> sockets = siblings();
  sockets.emplace(options_.rank, "");
  gathering->missing = sockets.size();
  gathering->done = [this, question, join = std::move(join)](const std::vector<Part>& parts) {
    const std::vector<Answer> answers = std::move(asked_.extract(question).mapped());
    const Response response = join(parts);
    for (const Answer& one : answers) one(response);
  };
  gathering->lost = [this, lives = std::weak_ptr(lives_), question] {
    if (!lives.expired()) asked_.erase(question);
  };
  for (const auto& [rank, path] : sockets)
    gathering->parts.push_back({.rank = rank, .response = {}});
  std::size_t index = 0;
  for (const auto& [rank, path] : sockets) {
    const std::size_t here = index++;
    if (rank != options_.rank) {
      client_.ask(path, asked, options_.gather_limit, [gathering, here](Response response) {
        gathering->take(here, std::move(response));
      });
      continue;
    }
    own_.answer(asked, [mailbox = mailbox_, gathering, here](Response response) {
      mailbox->run([gathering, here, response = std::move(response)]() mutable {
        gathering->take(here, std::move(response));
      });
    });
  }
}

void NodeView::pass(Request request, const Answer& answer) {
  const auto named = request.query.find("rank");
  if (named == request.query.end()) {
    own_.answer(std::move(request), answer);
    return;
  }
  const auto rank = rankNumber(named->second);
  if (!rank) {
    answer(errorResponse(refusals::kRankNumber, "rank is not a number"));
    return;
  }
  request.query.erase(named);
  if (request.method == "HEAD") request.method = "GET";  // whoever serves it leaves the body out
  if (*rank == options_.rank) {
    own_.answer(std::move(request), answer);
    return;
  }
  const auto sockets = siblings();
  const auto socket = sockets.find(*rank);
  if (socket == sockets.end()) {
    answer(errorResponse(refusals::kNoSuchRank,
                         "rank " + std::to_string(*rank) + " is not on this machine"));
    return;
  }
  const auto limit = request.method == "POST" ? kChangeLimit : kReadLimit;
  client_.ask(socket->second, request, limit, answer);
}

Response NodeView::joinedMetrics(const std::vector<Part>& parts) const {
  const Part& own = *std::find_if(parts.begin(), parts.end(),
                                  [this](const Part& part) { return part.rank == options_.rank; });
  if (own.response.status != 200) return own.response;
  std::vector<std::string_view> texts;
  for (const Part& part : parts) {
    if (part.response.status != 200) continue;
    if (part.response.content_type != own.response.content_type) continue;
    texts.emplace_back(part.response.body);
  }
  const std::size_t expected =
      std::max(parts.size(), static_cast<std::size_t>(std::max(options_.local_world_size, 0)));
  const std::string counts =
      gauge("ebbtide_node_ranks", "Ranks of this job expected on this machine.", options_.job_id,
            expected) +
      gauge("ebbtide_node_ranks_answered", "Ranks of this machine whose series are here.",
            options_.job_id, texts.size());
  texts.emplace_back(counts);
  const bool open_metrics = own.response.content_type.starts_with("application/openmetrics-text");
  return {.content_type = own.response.content_type, .body = mergeExpositions(texts, open_metrics)};
}

Response NodeView::joinedStatus(const std::vector<Part>& parts) const {
  std::string body = R"({"host":)" + textOf(machineName()) + R"(,"job_id":)" +
                     textOf(options_.job_id) + R"(,"local_world_size":)" +
                     std::to_string(options_.local_world_size) + R"(,"ranks":[)";
  for (const Part& part : parts) {
    if (&part != &parts.front()) body += ",\n";
    const bool own = part.rank == options_.rank;  // what others say may be anything
    if (part.response.status == 200 && (own || isObject(part.response.body))) {
      body += part.response.body;
    } else {
      body += missingRank(part.rank, part.response);
    }
  }
  return {.body = body + "]}\n"};
}

}  // namespace ebbtide::metrics
