#include "live/http_client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

namespace ebbtide::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using asio::local::stream_protocol;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

// A node's view of 1,024 ranks with their histories is some 6 MB.
constexpr std::uint64_t kMostBytes = 64 << 20;
constexpr std::size_t kMostAtOnce =
    64;  // a process may have 1,024 files open, and a node as many ranks
// Of one server: it lets as many wait for their answers, and refuses the next one (429).
constexpr std::size_t kMostChanges = 8, kMostReads = 32;
constexpr std::chrono::seconds kAgain{1};        // after a 429 that does not say when
constexpr std::chrono::seconds kLatestAgain{5};  // whatever it says

std::string inWords(const error_code& error) {
  namespace wrong = boost::asio::error;
  if (error == wrong::connection_refused || error == asio::error::not_found ||
      error == boost::system::errc::no_such_file_or_directory) {
    return "nobody listens there";
  }
  if (error == http::error::end_of_stream || error == http::error::partial_message ||
      error == wrong::connection_reset || error == wrong::eof || error == wrong::broken_pipe) {
    return "the connection was closed before an answer had come";
  }
  if (error == http::error::body_limit) return "the answer is larger than 64 MiB";
  if (error.category() == http::make_error_code(http::error::bad_version).category()) {
    return "what answers there does not speak HTTP";
  }
  return error.message();
}

// What a 429 says of when to ask again.
std::chrono::milliseconds retryAfter(const http::response<http::string_body>& answer) {
  const auto text = answer[http::field::retry_after];
  int seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || seconds < 1) return kAgain;
  return std::min(std::chrono::seconds(seconds), kLatestAgain);
}

// How long a question may take, and until when, which is earlier where it is asked again.
struct TimeLimit {
  std::chrono::milliseconds whole;
  Clock::time_point end;
};

// One question on a connection of its own. Lives as long as an operation of it is under way.
template <class Protocol>
class Exchange : public std::enable_shared_from_this<Exchange<Protocol>> {
 public:
  // `done` has the time after which to ask again; zero: this is the answer.
  using Done = std::function<void(std::chrono::milliseconds)>;

  Exchange(asio::io_context& context, const Question& question, Reply& reply, Done done)
      : stream_(context),
        resolver_(context),
        timer_(context),
        reply_(reply),
        done_(std::move(done)) {
    request_.version(11);
    request_.method_string(question.method);
    request_.target(question.target);
    request_.set(http::field::host, "localhost");
    request_.set(http::field::connection, "close");
    request_.set(http::field::accept, "application/json");
    if (!question.body.empty() || question.method == "POST") {
      request_.set(http::field::content_type, "application/json");
      request_.body() = question.body;
      request_.prepare_payload();
    }
    parser_.body_limit(kMostBytes);
  }

  void start(const UnixAddress& address, TimeLimit limit) {
    limitTo(limit);
    if (address.path.size() >= sizeof(sockaddr_un::sun_path)) {
      return finish("its path is too long for a socket's");
    }
    stream_.async_connect(typename Protocol::endpoint(address.path), connected());
  }

  void start(const TcpAddress& address, const std::string& token, TimeLimit limit) {
    limitTo(limit);
    const bool v6 = address.host.find(':') != std::string::npos;
    request_.set(http::field::host, fmt::format("{0}{1}{2}:{3}", v6 ? "[" : "", address.host,
                                                v6 ? "]" : "", address.port));
    if (!token.empty()) request_.set(http::field::authorization, "Bearer " + token);
    resolver_.async_resolve(
        address.host, address.port,
        [self = this->shared_from_this()](const error_code& error, auto results) {
          if (self->over_) return;
          if (error) return self->finish("its name is not known: " + error.message());
          if constexpr (std::is_same_v<Protocol, tcp>) {
            self->stream_.async_connect(
                results, [self](const error_code& failed, const auto&) { self->send(failed); });
          }
        });
  }

 private:
  auto connected() {
    return [self = this->shared_from_this()](const error_code& error) { self->send(error); };
  }

  void limitTo(TimeLimit limit) {
    timer_.expires_at(limit.end);
    timer_.async_wait([self = this->shared_from_this(), limit](const error_code& error) {
      if (error || self->over_) return;
      self->finish(
          fmt::format("no answer within {:g} s", static_cast<double>(limit.whole.count()) / 1e3));
    });
  }

  void send(const error_code& error) {
    if (over_) return;
    if (error) return finish(inWords(error));
    http::async_write(stream_, request_,
                      [self = this->shared_from_this()](const error_code& failed, std::size_t) {
                        self->receive(failed);
                      });
  }

  // A server that refuses early may close while the rest is being written; its answer is read.
  void receive(const error_code& error) {
    if (over_) return;
    if (error && error != asio::error::broken_pipe && error != asio::error::connection_reset) {
      return finish(inWords(error));
    }
    http::async_read(stream_, buffer_, parser_,
                     [self = this->shared_from_this()](const error_code& failed, std::size_t) {
                       if (self->over_) return;
                       if (failed) return self->finish(inWords(failed));
                       auto& answer = self->parser_.get();
                       self->reply_.status = answer.result_int();
                       self->reply_.body = std::move(answer.body());
                       const bool busy = answer.result() == http::status::too_many_requests;
                       self->finish("", busy ? retryAfter(answer) : std::chrono::milliseconds(0));
                     });
  }

  void finish(std::string why, std::chrono::milliseconds again = {}) {
    over_ = true;
    reply_.why = std::move(why);
    timer_.cancel();
    resolver_.cancel();
    stream_.cancel();
    error_code ignored;
    stream_.socket().close(ignored);
    std::exchange(done_, nullptr)(again);
  }

  beast::basic_stream<Protocol> stream_;
  tcp::resolver resolver_;
  asio::steady_timer timer_;
  beast::flat_buffer buffer_;
  http::request<http::string_body> request_;
  http::response_parser<http::string_body> parser_;
  Reply& reply_;
  Done done_;
  bool over_ = false;
};

class Questionnaire {
 public:
  Questionnaire(const std::vector<Question>& questions, std::chrono::milliseconds limit)
      : questions_(questions),
        limit_(limit),
        replies_(questions.size(), Reply{.status = 0, .body = {}, .why = kStopped}) {
    for (std::size_t number = 0; number < questions.size(); ++number) {
      queueOf(questions[number]).waiting.push_back(number);
    }
    for (auto& [server, queue] : queues_) ready_.push_back(&queue);
  }

  std::vector<Reply> run(const std::stop_token& stop) {
    startMore();
    const std::stop_callback stopping(stop, [this] { context_.stop(); });
    context_.run();
    return std::move(replies_);
  }

 private:
  // The reads of one server, or its changes.
  struct Queue {
    std::size_t most = 0;  // at once
    std::size_t asked = 0;
    std::deque<std::size_t> waiting;
    bool hasNext() const { return !waiting.empty() && asked < most; }
  };

  Queue& queueOf(const Question& question) {
    const bool changes = question.method == "POST";
    std::string server = changes ? "changes " : "reads ";
    if (const auto* local = std::get_if<UnixAddress>(&question.address)) {
      server += local->path;
    } else {
      const auto& address = std::get<TcpAddress>(question.address);
      server += address.host + " " + address.port;
    }
    Queue& queue = queues_[server];
    queue.most = changes ? kMostChanges : kMostReads;
    return queue;
  }

  // One of each server in turn. A queue is among the ready ones just where it has a next question.
  void startMore() {
    while (asked_ < kMostAtOnce && !ready_.empty()) {
      Queue& queue = *ready_.front();
      ready_.pop_front();
      const std::size_t number = queue.waiting.front();
      queue.waiting.pop_front();
      ++queue.asked;
      ++asked_;
      if (queue.hasNext()) ready_.push_back(&queue);
      start(number, queue, {.whole = limit_, .end = Clock::now() + limit_});
    }
  }

  void start(std::size_t number, Queue& queue, TimeLimit limit) {
    const Question& question = questions_[number];
    Reply& reply = replies_[number];
    // Not from within the one that ends: a thousand of them would be nested.
    const auto done = [this, number, &queue, limit](std::chrono::milliseconds again) {
      if (again.count() > 0 && Clock::now() + again < limit.end) {
        return startAgain(number, queue, limit, again);
      }
      asio::post(context_, [this, &queue] {
        if (!queue.hasNext() && !queue.waiting.empty()) ready_.push_back(&queue);
        --queue.asked;
        --asked_;
        startMore();
      });
    };
    if (const auto* local = std::get_if<UnixAddress>(&question.address)) {
      std::make_shared<Exchange<stream_protocol>>(context_, question, reply, done)
          ->start(*local, limit);
    } else {
      std::make_shared<Exchange<tcp>>(context_, question, reply, done)
          ->start(std::get<TcpAddress>(question.address), question.token, limit);
    }
  }

  // It keeps its place meanwhile: a server with too many questions gets no more of them.
  void startAgain(std::size_t number, Queue& queue, TimeLimit limit,
                  std::chrono::milliseconds again) {
    auto timer = std::make_shared<asio::steady_timer>(context_, again);
    timer->async_wait([this, number, &queue, limit, timer](const error_code&) {
      replies_[number] = {.status = 0, .body = {}, .why = kStopped};  // what was said is old
      start(number, queue, limit);
    });
  }

  static constexpr const char* kStopped = "not waited for";  // until something comes

  const std::vector<Question>& questions_;
  std::chrono::milliseconds limit_;
  std::vector<Reply> replies_;
  std::map<std::string, Queue> queues_;  // by server; they stay where they are
  std::deque<Queue*> ready_;
  std::size_t asked_ = 0;
  asio::io_context context_{1};
};

}  // namespace

TcpAddress parseEndpoint(const std::string& text) {
  const auto refuse = [&] {
    return std::invalid_argument("--endpoint " + text +
                                 ": write HOST:PORT, for example node7:9464 or [::1]:9464");
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) throw refuse();
  TcpAddress address{text.substr(0, colon), text.substr(colon + 1)};
  if (address.host.front() == '[') {
    if (address.host.back() != ']' || address.host.size() < 4) throw refuse();
    address.host = address.host.substr(1, address.host.size() - 2);
  } else if (address.host.find(':') != std::string::npos) {
    throw refuse();
  }
  unsigned port = 0;
  const char* end = address.port.data() + address.port.size();
  const auto [at, error] = std::from_chars(address.port.data(), end, port);
  if (error != std::errc() || at != end || port == 0 || port > 65535) throw refuse();
  for (const char letter : address.host) {
    if (letter <= ' ' || letter > '~') throw refuse();
  }
  return address;
}

std::vector<Reply> ask(const std::vector<Question>& questions, std::chrono::milliseconds limit,
                       std::stop_token stop) {
  return Questionnaire(questions, limit).run(stop);
}

}  // namespace ebbtide::cli
