#include "ebbtide/metrics/routes.hpp"

#include <atomic>
#include <exception>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "request_body.hpp"

namespace ebbtide::metrics {
namespace {

// Passes the first answer on; the last copy of the handler's Answer takes it along unanswered.
class Once {
 public:
  explicit Once(Answer answer) : answer_(std::move(answer)) {}
  ~Once() {
    if (answered_) return;
    try {
      answer_(errorResponse(refusals::kUnanswered, "nobody answered: what was asked for is gone"));
    } catch (const std::exception&) {  // out of memory: nothing is left to be said
    }
  }
  Once(const Once&) = delete;
  Once& operator=(const Once&) = delete;

  void operator()(Response response) {
    if (!answered_.exchange(true)) answer_(std::move(response));
  }

 private:
  Answer answer_;
  std::atomic<bool> answered_{false};
};

}  // namespace

Response errorResponse(const Refusal& refusal, const std::string& sentence) {
  const nlohmann::json body = {{"code", refusal.code}, {"error", sentence}};
  // A sentence may quote what a client sent, which need not be UTF-8.
  return {.status = refusal.status,
          .body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"};
}

void Routes::get(std::string path, Handler handler) {
  Methods& methods = paths_[std::move(path)];
  methods.get = [handler = std::move(handler)](const Request& request, const Answer& answer) {
    answer(handler(request));
  };
  methods.get_may_be_late = false;
}

void Routes::get(std::string path, SlowHandler handler) {
  Methods& methods = paths_[std::move(path)];
  methods.get = std::move(handler);
  methods.get_may_be_late = true;
}

void Routes::post(std::string path, SlowHandler handler) {
  paths_[std::move(path)].post = std::move(handler);
}

void Routes::answer(Request request, Answer answer) const {
  const auto found = paths_.find(request.path);
  if (found == paths_.end()) {
    answer(errorResponse(refusals::kNoSuchPath, "there is nothing at " +
                                                    request.path.substr(0, 200) +
                                                    "; /openapi.json lists what there is"));
    return;
  }
  const Methods& methods = found->second;
  const bool reads = request.method == "GET" || request.method == "HEAD";
  const SlowHandler& handler = reads ? methods.get : methods.post;
  if (!handler || (!reads && request.method != "POST")) {
    const std::string allowed = !methods.post  ? "GET, HEAD"
                                : !methods.get ? "POST"
                                               : "GET, HEAD, POST";
    Response response = errorResponse(refusals::kMethod, request.path + " takes " + allowed);
    response.headers["Allow"] = allowed;
    answer(std::move(response));
    return;
  }
  if (!reads && !request.may_change) {
    answer(errorResponse(refusals::kReadOnly,
                         "this way in is read-only: use the Unix socket of the rank, or set "
                         "EBBTIDE_TOKEN_FILE and send its token"));
    return;
  }
  if (!reads) {
    const std::string problem = problemOfBody(request.body);
    if (!problem.empty()) {
      answer(errorResponse(refusals::kBody, problem));
      return;
    }
  }
  const auto once = std::make_shared<Once>(std::move(answer));
  try {
    handler(std::move(request), [once](Response response) { (*once)(std::move(response)); });
  } catch (const std::bad_alloc&) {
    (*once)(errorResponse(refusals::kNoMemory, "out of memory: ask again in a while"));
  } catch (const std::exception& problem) {
    (*once)(errorResponse(refusals::kFailed, problem.what()));
  }
}

bool Routes::mayBeLate(const Request& request) const {
  const auto found = paths_.find(request.path);
  if (found == paths_.end()) return false;
  return request.method == "POST" ? found->second.post != nullptr : found->second.get_may_be_late;
}

std::vector<Routes::Route> Routes::list() const {
  std::vector<Route> routes;
  for (const auto& [path, methods] : paths_) {
    if (methods.get) routes.push_back({"GET", path});
    if (methods.post) routes.push_back({"POST", path});
  }
  return routes;
}

}  // namespace ebbtide::metrics
