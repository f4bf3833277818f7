#include "control/session_control.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/variables.hpp"
#include "control/trace_routes.hpp"
#include "ebbtide/metrics/machine_name.hpp"
#include "ebbtide/metrics/or_null.hpp"
#include "ebbtide/metrics/pages.hpp"
#include "ebbtide/scheduler/shown_text.hpp"
#include "runtime/session.hpp"

namespace ebbtide::plugin {
namespace {

using metrics::Answer;
using metrics::errorResponse;
using metrics::Request;
using metrics::Response;
namespace refusals = metrics::refusals;

constexpr int kPorts = 16;  // that are tried where none is named

// Of two addresses, each with a reason.
std::string shown(const std::string& problem) {
  return scheduler::shownText(problem, 2 * scheduler::kMostShown);
}

std::string whatIsNotServed(const std::string& tcp, bool on_socket, const std::string& why) {
  if (on_socket) {
    return fmt::format(
        "no web page and no /metrics for this job: {}. ebbtide status and top still work. To "
        "have both: another EBBTIDE_PORT",
        why);
  }
  if (!tcp.empty()) {
    return fmt::format(
        "ebbtide status and top do not find this run: {}. They do with --endpoint {}", why, tcp);
  }
  return fmt::format("no web page, no /metrics, and ebbtide status does not find this run: {}",
                     why);
}

std::string variablesJson() {
  nlohmann::json rows = nlohmann::json::array();
  for (const std::string& name : knownVariables()) {
    const std::string value = variable(name.c_str());
    rows.push_back({{"name", name}, {"value", metrics::orNull(value)}, {"given", !value.empty()}});
  }
  return rows.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

SessionControl::SessionControl(Session& session)
    : session_(session),
      needs_(session.budgets(), session.replayTrust()),
      routes_(session.routes()),
      host_(metrics::machineName()),
      variables_(variablesJson()) {
  addRoutes();
}

// All that a rank answers, in one place.
void SessionControl::addRoutes() {
  metrics::addPages(routes_);
  const auto view = [this](Response (SessionControl::*make)()) {
    return [this, make](const Request& request) {
      if (auto why = ofAnotherRank(request)) return *why;
      if (auto why = gone()) return *why;
      return (this->*make)();
    };
  };
  routes_.get("/metrics", [this](const Request& request) {
    if (auto why = ofAnotherRank(request)) return *why;
    const metrics::Format format = metrics::formatFor(request.accept);
    return Response{.content_type = metrics::contentTypeOf(format),
                    .body = session_.outputs().metrics.render(format)};
  });
  routes_.get("/v1/status", view(&SessionControl::status));
  routes_.get("/v1/plan", view(&SessionControl::plan));
  routes_.get("/v1/curve", view(&SessionControl::curve));
  routes_.get("/v1/config", [this](const Request& request) {
    if (auto why = ofAnotherRank(request)) return *why;
    return config();
  });
  routes_.post("/v1/budget", [this](const Request& request, const Answer& answer) {
    postBudget(request, answer);
  });
  routes_.post("/v1/replan", [this](const Request& request, const Answer& answer) {
    postReplan(request, answer);
  });
  routes_.post("/v1/pause", [this](const Request& request, const Answer& answer) {
    postPause(request, answer);
  });
  addTraceRoutes(routes_, session_.outputs().trace, session_.outputs().snapshots,
                 [this](const Request& request) { return ofAnotherRank(request); });
}

// The port of a machine hands questions on, and takes the rank from them; a rank's own socket does
// not.
std::optional<Response> SessionControl::ofAnotherRank(const Request& request) const {
  const auto named = request.query.find("rank");
  const int rank = session_.config().rank;
  if (named == request.query.end() || named->second == std::to_string(rank)) return std::nullopt;
  return errorResponse(refusals::kNoSuchRank,
                       fmt::format("this is rank {} alone: ask the other one's socket, or "
                                   "the port of its machine",
                                   rank));
}

RunControl::Served SessionControl::serve(bool on_any_port) {
  const Config& config = session_.config();
  const RankSocket socket(config.server.socket_dir, config.job_id, config.rank);
  metrics::HttpServerOptions options{.unix_path = socket.path()};
  if (config.local_rank == 0) {
    metrics::TcpOptions tcp{.address = config.server.bind,
                            .port = static_cast<std::uint16_t>(config.server.port),
                            .ports = on_any_port ? kPorts : 1};
    if (!config.server.token_file.empty()) {
      auto [token, unread] = metrics::BearerToken::read(config.server.token_file);
      tcp.token = std::move(token);
      if (!unread.empty())
        session_.lines().warn("EBBTIDE_TOKEN_FILE is not used: " + shown(unread));
    }
    options.tcp = std::move(tcp);
    options.node = metrics::NodeOptions{.folder = socket.jobFolder(),
                                        .job_id = socket.jobId(),
                                        .rank = config.rank,
                                        .local_world_size = config.local_world_size};
  }
  server_.reset();  // at the place that it was taken to have
  auto [server, problem] = metrics::HttpServer::start(options, routes_);
  server_ = std::move(server);
  std::string tcp;
  const int port = server_ != nullptr ? server_->port() : 0;
  if (port != 0) {
    const bool ipv6 = config.server.bind.find(':') != std::string::npos;
    tcp = (ipv6 ? "[" + config.server.bind + "]" : config.server.bind) + fmt::format(":{}", port);
  }
  const std::string path = server_ != nullptr ? server_->unixPath() : "";
  {
    const auto held = session_.guard().hold();
    unix_path_ = path;
    tcp_address_ = tcp;
  }
  if (!problem.empty()) problem = whatIsNotServed(tcp, !path.empty(), shown(problem));
  if (server_ == nullptr) return {"no endpoint", std::move(problem)};
  std::string text = tcp.empty() ? "" : "metrics http://" + tcp + "/metrics";
  if (port != 0 && port != config.server.port)
    text += fmt::format(" ({} is taken)", config.server.port);
  if (!path.empty()) text += (text.empty() ? "socket " : ", socket ") + path;
  return {std::move(text), std::move(problem)};
}

void SessionControl::close() {
  std::deque<std::function<void()>> commands;
  {
    const auto held = session_.guard().hold();
    commands.swap(commands_);
  }
  for (const auto& command : commands) try {
      command();  // each sees that the session has ended
    } catch (...) {
      // Out of memory: who asked is told by its answer's end.
    }
  commands.clear();
  server_.reset();
}

std::optional<Response> SessionControl::gone() const {
  if (RunLife::inChild())
    return errorResponse(refusals::kForked,
                         "this is a forked process, in which nothing trains by a plan");
  return std::nullopt;
}

std::optional<Response> SessionControl::refusal(const RunView& run) const {
  if (run.process.ended) return errorResponse(refusals::kRunEnds, "the run ends");
  if (run.process.passes_through)
    return errorResponse(refusals::kPassesThrough,
                         "the run was switched to pass-through, and nothing can be changed");
  if (run.process.keeps_everything)
    return errorResponse(refusals::kKeepsEverything,
                         "nothing is dropped in this process any more: its log says why");
  if (!session_.config().own_allocator)
    return errorResponse(refusals::kOtherAllocator, "EBBTIDE_ALLOCATOR=torch cannot hold a budget");
  return std::nullopt;
}

RunView SessionControl::viewNow() const {
  return session_.view(session_.guard().hold());
}

// -----------------------------------------------------------------------------------------------
// the planning thread

bool SessionControl::hasWork(const Held& held) const {
  return !commands_.empty() || draw_plain_ || curve_.isWanted(held);
}

void SessionControl::work() noexcept try {
  std::function<void()> command;
  bool draws = false;
  {
    const auto held = session_.guard().hold();
    if (!commands_.empty()) {
      command.swap(commands_.front());
      commands_.pop_front();
    } else {
      draws = draw_plain_;
    }
  }
  if (command) {
    command();
  } else if (draws) {
    drawPlain();
  } else {
    curve_.addPoint();
  }
} catch (const std::exception& error) {  // who asked is told by its answer's end
  try {
    session_.lines().warn(std::string("what was asked of this rank failed: ") + error.what());
  } catch (const std::exception&) {
    // Out of memory, and for this too.
  }
}

}  // namespace ebbtide::plugin
