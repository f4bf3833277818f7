// What Python asks its own process: the routes that the sockets serve, without a socket.
// plugin/python/ebbtide/_requests.py calls it by these names. Torch-free.
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "control/request_fields.hpp"
#include "control/trace_routes.hpp"
#include "ebbtide/metrics/routes.hpp"
#include "runtime/session.hpp"

namespace {

using ebbtide::metrics::Request;
using ebbtide::metrics::Response;
using ebbtide::plugin::RunLife;
using ebbtide::plugin::Session;
namespace refusals = ebbtide::metrics::refusals;

constexpr auto kLongestWait = std::chrono::seconds(60);

// An answer that may come later, from another thread, or after nobody waits for it any more.
struct Awaited {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Response> response;
};

Response answerFrom(const ebbtide::metrics::Routes& routes, Request request) {
  const auto awaited = std::make_shared<Awaited>();
  routes.answer(std::move(request), [awaited](Response response) {
    {
      const std::lock_guard lock(awaited->mutex);
      if (!awaited->response) awaited->response = std::move(response);
    }
    awaited->changed.notify_all();
  });
  std::unique_lock lock(awaited->mutex);
  if (awaited->changed.wait_for(lock, kLongestWait, [&] { return awaited->response.has_value(); }))
    return std::move(*awaited->response);
  return ebbtide::metrics::errorResponse(refusals::kLate, "no answer came within 60 s");
}

// A path for the file, which callers of this process alone may name; nothing: none is named.
std::optional<std::string> namedPath(const Request& request) {
  if (request.method != "POST" || request.path != "/v1/snapshot") return std::nullopt;
  const auto body = ebbtide::plugin::readFields(request.body, nullptr, {"path"});
  if (!body.has("path") || !body.fields["path"].is_string()) return std::nullopt;
  return body.fields["path"].get<std::string>();
}

Response respond(Request request) try {
  Session* const session = Session::current();
  if (session == nullptr || RunLife::inChild())
    return ebbtide::metrics::errorResponse(refusals::kForked,
                                           "Ebbtide is not active in a forked child");
  if (const auto path = namedPath(request))
    return ebbtide::plugin::startSnapshot(session->outputs().snapshots, *path);
  return answerFrom(session->routes(), std::move(request));
} catch (const std::exception& error) {
  return ebbtide::metrics::errorResponse(refusals::kFailed, error.what());
}

}  // namespace

// The answer's body, to be given back to ebbtide_free(); nullptr: no memory is left for it. Waits
// for it, at most a minute. Any thread that holds no lock which a step may need.
extern "C" __attribute__((visibility("default"))) char* ebbtide_request(const char* method,
                                                                        const char* path,
                                                                        const char* body,
                                                                        int* status) noexcept try {
  const Response response =
      respond({.method = method, .path = path, .body = body, .may_change = true});
  *status = response.status;
  auto* const text = static_cast<char*>(std::malloc(response.body.size() + 1));
  if (text != nullptr) std::memcpy(text, response.body.c_str(), response.body.size() + 1);
  return text;
} catch (...) {
  return nullptr;
}

extern "C" __attribute__((visibility("default"))) void ebbtide_free(char* text) noexcept {
  std::free(text);
}

// Of a child that has just been forked: nothing of it is managed, whatever it does.
extern "C" __attribute__((visibility("default"))) bool ebbtide_inert() {
  return Session::current() == nullptr || RunLife::inChild();
}
