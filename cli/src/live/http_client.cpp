#include "live/http_client.hpp"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <cstdint>
#include <functional>
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

// A node's view of 1,024 ranks with their histories is some 6 MB.
constexpr std::uint64_t kMostBytes = 64 << 20;
constexpr std::size_t kMostAtOnce =
    64;  // a process may have 1,024 files open, and a node as many ranks

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

// One question on a connection of its own. Lives as long as an operation of it is under way.
template <class Protocol>
class Exchange : public std::enable_shared_from_this<Exchange<Protocol>> {
 public:
  Exchange(asio::io_context& context, const Question& question, Reply& reply,
           std::function<void()> done)
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

  void start(const UnixAddress& address, std::chrono::milliseconds limit) {
    limitTo(limit);
    if (address.path.size() >= sizeof(sockaddr_un::sun_path)) {
      return finish("its path is too long for a socket's");
    }
    stream_.async_connect(typename Protocol::endpoint(address.path), connected());
  }

  void start(const TcpAddress& address, const std::string& token, std::chrono::milliseconds limit) {
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

  void limitTo(std::chrono::milliseconds limit) {
    timer_.expires_after(limit);
    timer_.async_wait([self = this->shared_from_this(), limit](const error_code& error) {
      if (error || self->over_) return;
      self->finish(
          fmt::format("no answer within {:g} s", static_cast<double>(limit.count()) / 1e3));
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
                       self->reply_.status = self->parser_.get().result_int();
                       self->reply_.body = std::move(self->parser_.get().body());
                       self->finish("");
                     });
  }

  void finish(std::string why) {
    over_ = true;
    reply_.why = std::move(why);
    timer_.cancel();
    resolver_.cancel();
    stream_.cancel();
    error_code ignored;
    stream_.socket().close(ignored);
    std::exchange(done_, nullptr)();
  }

  beast::basic_stream<Protocol> stream_;
  tcp::resolver resolver_;
  asio::steady_timer timer_;
  beast::flat_buffer buffer_;
  http::request<http::string_body> request_;
  http::response_parser<http::string_body> parser_;
  Reply& reply_;
  std::function<void()> done_;
  bool over_ = false;
};

class Questionnaire {
 public:
  Questionnaire(const std::vector<Question>& questions, std::chrono::milliseconds limit)
      : questions_(questions), limit_(limit), replies_(questions.size()) {}

  std::vector<Reply> run(const std::stop_token& stop) {
    for (Reply& reply : replies_) reply.why = "not waited for";
    while (next_ < std::min(questions_.size(), kMostAtOnce)) startNext();
    const std::stop_callback stopping(stop, [this] { context_.stop(); });
    context_.run();
    return std::move(replies_);
  }

 private:
  void startNext() {
    const Question& question = questions_[next_];
    Reply& reply = replies_[next_];
    ++next_;
    const auto done = [this] {
      // Not from within the one that ends: a thousand of them would be nested.
      if (next_ < questions_.size()) {
        asio::post(context_, [this] {
          if (next_ < questions_.size()) startNext();
        });
      }
    };
    if (const auto* local = std::get_if<UnixAddress>(&question.address)) {
      std::make_shared<Exchange<stream_protocol>>(context_, question, reply, done)
          ->start(*local, limit_);
    } else {
      std::make_shared<Exchange<tcp>>(context_, question, reply, done)
          ->start(std::get<TcpAddress>(question.address), question.token, limit_);
    }
  }

  const std::vector<Question>& questions_;
  std::chrono::milliseconds limit_;
  std::vector<Reply> replies_;
  std::size_t next_ = 0;
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
