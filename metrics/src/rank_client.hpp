// RankClient: asks the servers of other ranks over their Unix sockets, without waiting.
//
// On the thread of its context only. Connections are kept for the next question: connecting costs
// more than asking. One whose other end has closed meanwhile is replaced by a new one, once. At
// most 64 are asked at once, since the trainer needs descriptors too; the others wait for their
// turn.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ebbtide/metrics/routes.hpp"

namespace ebbtide::metrics {

class RankClient {
 public:
  using Stream = boost::beast::basic_stream<boost::asio::local::stream_protocol>;

  explicit RankClient(boost::asio::io_context& context) : context_(context) {}
  RankClient(const RankClient&) = delete;
  RankClient& operator=(const RankClient&) = delete;

  // `answer` is called once, later: with what the rank said, or with a 503 (nobody listens, it hung
  // up, no descriptor is left) or a 504 (no answer within `limit`, from its turn on) of our own.
  // Not after this is gone.
  void ask(const std::string& socket_path, const Request& request, std::chrono::milliseconds limit,
           Answer answer);

 private:
  class Question;
  std::unique_ptr<Stream> take(const std::string& socket_path);  // nullptr: there is none
  void keep(const std::string& socket_path, std::unique_ptr<Stream> stream);
  void startWaiting() noexcept;  // as many as there is room for

  boost::asio::io_context& context_;
  std::map<std::string, std::vector<std::unique_ptr<Stream>>> idle_;  // by the socket's path
  std::size_t idle_count_ = 0;
  std::deque<std::shared_ptr<Question>> waiting_;
  std::size_t asked_ = 0;  // questions under way
  bool starts_ = false;    // in startWaiting()
  const std::shared_ptr<const bool> lives_ = std::make_shared<bool>(true);
};

}  // namespace ebbtide::metrics
