#include "rank_client.hpp"

#include <fcntl.h>

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <exception>
#include <optional>
#include <utility>

#include "request_target.hpp"
#include "unix_socket.hpp"

namespace ebbtide::metrics {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::local::stream_protocol;
using boost::system::error_code;

// Connections. Each takes a descriptor; the trainer may have 1,024.
constexpr std::size_t kMostIdle = 64;
constexpr std::size_t kMostAsked = 64;
constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;  // of one answer

std::string targetOf(const Request& request) {
  std::string target = request.path;
  char separator = '?';
  for (const auto& [name, value] : request.query) {
    target += separator + percentEncoded(name) + "=" + percentEncoded(value);
    separator = '&';
  }
  return target;
}

}  // namespace

// One question, and up to two connections for it.
class RankClient::Question : public std::enable_shared_from_this<Question> {
 public:
  Question(RankClient& client, std::string path, const Request& request,
           std::chrono::milliseconds limit, Answer told)
      : client_(client),
        client_lives_(client.lives_),
        path_(std::move(path)),
        told_(std::move(told)),
        limit_(limit) {
    message_.version(11);
    message_.method_string(request.method);
    message_.target(targetOf(request));
    message_.set(http::field::host, "localhost");
    if (!request.accept.empty()) message_.set(http::field::accept, request.accept);
    message_.body() = request.body;
    message_.prepare_payload();
  }
  // Untold when a handler threw, or when its context goes: then nobody is there to be told.
  ~Question() {
    if (client_lives_.expired()) return;
    try {
      giveUp("out of descriptors or memory");
    } catch (const std::exception&) {  // nothing is left to be said
    }
    if (!started_) return;
    --client_.asked_;
    client_.startWaiting();
  }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  // Its turn has come.
  void start() {
    started_ = true;
    ++client_.asked_;
    deadline_ = std::chrono::steady_clock::now() + limit_;
    // Whether a request on a connection that was closed meanwhile has been read, nobody knows: what
    // changes something is not sent twice.
    if (message_.method() != http::verb::post) stream_ = client_.take(path_);
    kept_ = stream_ != nullptr;
    if (kept_) {
      write();
    } else {
      connect();
    }
  }

  void giveUp(const std::string& why) {
    if (told_) tell(errorResponse(refusals::kRankSilent, "the rank cannot be asked: " + why));
  }

 private:
  void tell(Response response) {
    if (const Answer told = std::exchange(told_, nullptr)) told(std::move(response));
  }

  void connect() {
    stream_ = std::make_unique<Stream>(client_.context_);
    stream_->socket().open();
    // A program started by the trainer must not keep the connection open.
    ::fcntl(stream_->socket().native_handle(), F_SETFD, FD_CLOEXEC);
    stream_->expires_at(deadline_);
    stream_->async_connect(stream_protocol::endpoint(path_),
                           [self = shared_from_this()](error_code error) {
                             if (error) {
                               self->fail(error);
                             } else if (!peerIsThisUser(self->stream_->socket().native_handle())) {
                               self->giveUp("its socket is another user's");
                             } else {
                               self->write();
                             }
                           });
  }

  void write() {
    stream_->expires_at(deadline_);
    http::async_write(*stream_, message_,
                      [self = shared_from_this()](error_code error, std::size_t) {
                        if (error) {
                          self->fail(error);
                        } else {
                          self->read();
                        }
                      });
  }

  void read() {
    parser_.emplace();
    parser_->body_limit(kMostBytes);
    if (message_.method() == http::verb::head) parser_->skip(true);
    http::async_read(*stream_, buffer_, *parser_,
                     [self = shared_from_this()](error_code error, std::size_t) {
                       if (error) {
                         self->fail(error);
                       } else {
                         self->finish();
                       }
                     });
  }

  void fail(error_code error) {
    const bool hung_up = error != boost::beast::error::timeout;
    if (kept_ && hung_up) {
      kept_ = false;
      buffer_.clear();
      connect();
      return;
    }
    stream_.reset();
    if (hung_up) {
      tell(errorResponse(refusals::kRankSilent, "the rank does not answer: " + error.message()));
    } else {
      tell(errorResponse(refusals::kLate, "the rank did not answer within " +
                                              std::to_string(limit_.count()) + " ms"));
    }
  }

  void finish() {
    auto& message = parser_->get();
    Response response;
    response.status = static_cast<int>(message.result_int());
    response.content_type = std::string(message[http::field::content_type]);
    for (const http::field field : {http::field::allow, http::field::retry_after}) {
      const auto value = message[field];
      if (!value.empty()) response.headers[http::to_string(field)] = std::string(value);
    }
    response.body = std::move(message.body());
    if (message.keep_alive()) client_.keep(path_, std::move(stream_));
    tell(std::move(response));
  }

  RankClient& client_;
  const std::weak_ptr<const bool> client_lives_;
  const std::string path_;
  Answer told_;  // empty: has been told
  bool started_ = false;
  const std::chrono::milliseconds limit_;
  std::chrono::steady_clock::time_point deadline_;
  http::request<http::string_body> message_;
  std::unique_ptr<Stream> stream_;
  bool kept_ = false;  // the connection had been used before
  boost::beast::flat_buffer buffer_;
  std::optional<http::response_parser<http::string_body>> parser_;
};

void RankClient::ask(const std::string& socket_path, const Request& request,
                     std::chrono::milliseconds limit, Answer answer) {
  waiting_.push_back(
      std::make_shared<Question>(*this, socket_path, request, limit, std::move(answer)));
  startWaiting();
}

// A question that fails at once ends in here too, and leaves its place to the next one.
void RankClient::startWaiting() noexcept {
  if (std::exchange(starts_, true)) return;
  while (asked_ < kMostAsked && !waiting_.empty()) {
    const std::shared_ptr<Question> next = std::move(waiting_.front());
    waiting_.pop_front();
    try {
      next->start();
    } catch (const std::exception& problem) {  // a path too long for a socket, say
      try {
        next->giveUp(problem.what());
      } catch (const std::exception&) {  // no memory for that; its end tries once more
      }
    }
  }
  starts_ = false;
}

std::unique_ptr<RankClient::Stream> RankClient::take(const std::string& socket_path) {
  const auto found = idle_.find(socket_path);
  if (found == idle_.end() || found->second.empty()) return nullptr;
  std::unique_ptr<Stream> stream = std::move(found->second.back());
  found->second.pop_back();
  --idle_count_;
  return stream;
}

// Connections to ranks that are gone are never taken again: they go with all others some time.
void RankClient::keep(const std::string& socket_path, std::unique_ptr<Stream> stream) {
  if (idle_count_ >= kMostIdle) {
    idle_.clear();
    idle_count_ = 0;
  }
  stream->expires_never();
  idle_[socket_path].push_back(std::move(stream));
  ++idle_count_;
}

}  // namespace ebbtide::metrics
