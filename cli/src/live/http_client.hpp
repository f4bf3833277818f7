// Questions to the servers of running ranks, many at once: HTTP/1.1 over Unix sockets and TCP.
#pragma once

#include <chrono>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

namespace ebbtide::cli {

struct UnixAddress {
  std::string path;
};

struct TcpAddress {
  std::string host;  // a name or an address; an IPv6 one without brackets
  std::string port;
};

using Address = std::variant<UnixAddress, TcpAddress>;

// "node7:9464", "[::1]:9464". Throws std::invalid_argument.
TcpAddress parseEndpoint(const std::string& text);

struct Question {
  Address address;
  std::string method = "GET";
  std::string target;  // "/v1/status?rank=1"
  std::string body;
  std::string token;  // sent as a bearer token, over TCP alone
};

struct Reply {
  int status = 0;  // 0: none came, and `why` says why in a few words
  std::string body;
  std::string why;
};

// One reply for each question, in their order; each has `limit` to come from when it is sent, or
// until a stop is asked for. A server gets as many at once as it takes (docs/control.md); one that
// it refuses as one too many (429) is sent again within the limit. Never throws for what a server
// does.
std::vector<Reply> ask(const std::vector<Question>& questions, std::chrono::milliseconds limit,
                       std::stop_token stop = {});

}  // namespace ebbtide::cli
