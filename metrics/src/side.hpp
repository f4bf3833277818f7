// Side: what the connections of one listening socket share, TCP's or the Unix socket's. Used by the
// server's thread only.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>

#include "ebbtide/metrics/bearer_token.hpp"
#include "ebbtide/metrics/routes.hpp"
#include "mailbox.hpp"
#include "request_guard.hpp"

namespace ebbtide::metrics {

class Connection;

struct Limits {
  std::size_t connections = 64;
  std::size_t late_reads = 32;                       // GETs whose answer is waited for
  std::size_t late_changes = 8;                      // POSTs likewise
  std::size_t unsent_bytes = std::size_t{64} << 20;  // of all answers that clients have not taken
  std::chrono::milliseconds request{10'000};
  std::chrono::milliseconds response{10'000};
  std::chrono::milliseconds late_answer{60'000};
};

struct Side {
  Routes routes;
  std::shared_ptr<Mailbox> mailbox;
  std::optional<RequestGuard> guard;  // TCP: which hosts a request may be for
  std::optional<BearerToken> token;   // TCP: who may change things
  bool of_this_user = false;          // Unix socket: everybody who gets in may change things
  Limits limits = {};

  // Connections that wait for their client, the one that has waited longest first: it makes room.
  std::list<Connection*> waiting;
  // Those that wait for an answer, by the number of their question.
  struct Question {
    std::shared_ptr<Connection> connection;
    bool changes = false;
  };
  std::map<std::uint64_t, Question> questions;
  std::uint64_t last_question = 0;
  std::size_t late_changes = 0;  // of `questions`
  std::size_t unsent_bytes = 0;

  std::size_t connections() const { return waiting.size() + questions.size(); }
};

}  // namespace ebbtide::metrics
