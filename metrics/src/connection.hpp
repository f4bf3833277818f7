// Connection: one client. Lives as long as an operation on it is pending or an answer is waited
// for.
//
//   read header ─► refuse ──────────────────────────────┐
//        ▲   └───► read body ─► ask the routes ─► answer ┴► write ─┬─ keep-alive ─► read header
//        └─────────────────────────────────────────────────────────┴─ drain ─► close
//
// Boundary to Boost.Beast; slow to compile, as listener.hpp and rank_client.hpp are.
#pragma once

#include <array>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>

#include "side.hpp"

namespace ebbtide::metrics {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Stream = boost::beast::basic_stream<boost::asio::generic::stream_protocol>;
  using Socket = boost::asio::generic::stream_protocol::socket;

  Connection(Socket socket, Side& side);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void read();

  // Makes room: whatever it waits for, its client has been given long enough.
  void end();

  // The last answer of everybody who waits for one.
  static void answerAll(Side& side, const Response& response);

  // Of a user that may not ask anything: the first request gets a 403, whatever it is.
  void refuseAll() { refuses_all_ = true; }
  int descriptor() { return stream_.socket().native_handle(); }

 private:
  using ErrorCode = boost::system::error_code;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  // Whose question it was; nullptr: it is none any more.
  static std::shared_ptr<Connection> withdraw(Side& side, std::uint64_t question);
  static void deliver(Side& side, std::uint64_t question, Response response);

  void waitForClient(std::chrono::milliseconds limit);
  void stopWaiting();
  void onHeader(ErrorCode error);
  void onBroken(ErrorCode error);  // of a header or a body
  void readBody();
  void ask();
  void awaitAnswer(std::uint64_t question);
  void respond(Response response);
  void write();
  void onWritten(ErrorCode error);
  void drain();
  std::optional<Response> refusal() const;

  Stream stream_;
  Side& side_;
  boost::asio::steady_timer late_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  boost::beast::http::response<boost::beast::http::string_body> message_;
  boost::beast::http::response<boost::beast::http::empty_body> go_on_;
  std::list<Connection*>::iterator place_;  // in side_.waiting
  bool waits_ = false;
  bool refuses_all_ = false;
  bool closes_ = false;           // after the answer: what follows is not a request
  std::size_t unsent_bytes_ = 0;  // its share of side_.unsent_bytes
  std::array<char, 4096> drained_{};
  std::size_t drained_bytes_ = 0;
};

}  // namespace ebbtide::metrics
