// Routes: which paths are answered, and by whom. Knows neither sockets nor HTTP's syntax: a server
// asks it for its clients, a node view for its own rank, and a caller in this process directly.
//
// Thread rule: get() and post() before the first answer(); answer() from any thread, then the
// handlers run on that thread, so several at once where several threads ask.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ebbtide/metrics/refusals.hpp"

namespace ebbtide::metrics {

struct Request {
  std::string method = {};                        // "GET", "POST"; "HEAD" is answered as GET
  std::string path = {};                          // "/v1/status": without query, decoded
  std::map<std::string, std::string> query = {};  // decoded
  std::string body = {};                          // at most 64 KiB
  // Over a Unix socket of the same user, over TCP with the token, or in this process.
  bool may_change = false;
  std::string accept = {};  // the Accept header, for OpenMetrics
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  std::map<std::string, std::string> headers = {};  // further ones, "Allow" say
};

// {"code": "EB104", "error": sentence}
Response errorResponse(const Refusal& refusal, const std::string& sentence);

// From any thread, once: what comes later is ignored. Dropped without an answer it is a 503.
using Answer = std::function<void(Response)>;

class Routes {
 public:
  using Handler = std::function<Response(const Request&)>;  // on the asking thread; must not block
  // Returns soon; may answer later, from another thread. Must not throw after it has answered.
  using SlowHandler = std::function<void(Request, Answer)>;

  struct Route {
    std::string method;  // "GET" or "POST"
    std::string path;
    bool operator==(const Route&) const = default;
  };

  void get(std::string path, Handler handler);
  void get(std::string path, SlowHandler handler);
  void post(std::string path, SlowHandler handler);

  // 404 for a path that is not there, 405 with Allow for a method that it has not, 403 for a POST
  // without may_change, 400 for a POST whose body has a NUL byte or a name twice, 500 for what a
  // handler throws, 503 where that is std::bad_alloc and for an answer that nobody gave.
  void answer(Request request, Answer answer) const;

  // True when the request's handler is a SlowHandler.
  bool mayBeLate(const Request& request) const;

  std::vector<Route> list() const;  // by path

 private:
  struct Methods {
    SlowHandler get;
    SlowHandler post;
    bool get_may_be_late = false;
  };
  std::map<std::string, Methods, std::less<>> paths_;
};

}  // namespace ebbtide::metrics
