#include "connection.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "request_target.hpp"

namespace ebbtide::metrics {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr std::uint32_t kHeaderBytes = 8 * 1024;
constexpr std::size_t kBodyBytes = std::size_t{64} * 1024;
constexpr std::chrono::seconds kDrainTimeout{1};
constexpr std::size_t kDrainBytes = 2 * kBodyBytes;

http::response<http::string_body> messageOf(Response answer) {
  http::response<http::string_body> message(static_cast<http::status>(answer.status), 11);
  for (const auto& [name, value] : answer.headers) message.set(name, value);
  message.set(http::field::content_type, answer.content_type);
  message.set(http::field::cache_control, "no-store");
  message.set("X-Content-Type-Options", "nosniff");
  message.body() = std::move(answer.body);
  return message;
}

Response unauthorized(bool given) {
  Response response = errorResponse(
      refusals::kToken, given ? "that is not the token of this run"
                              : "changes over TCP need the header Authorization: Bearer TOKEN");
  response.headers["WWW-Authenticate"] =
      given ? R"(Bearer realm="ebbtide", error="invalid_token")" : R"(Bearer realm="ebbtide")";
  return response;
}

// What a client that does not speak HTTP, or too much of it, is told.
std::optional<Response> complaint(boost::system::error_code error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return errorResponse(refusals::kLargeHeader,
                         "the header is too large: at most 8 KiB are taken");
  }
  if (error == http::error::body_limit) {
    return errorResponse(refusals::kLargeBody, "the body is too large: at most 64 KiB are taken");
  }
  if (error == http::error::end_of_stream || error == http::error::partial_message) return {};
  if (error.category() != http::make_error_code(http::error::bad_method).category()) return {};
  return errorResponse(refusals::kNotHttp, "this is not HTTP: " + error.message());
}

}  // namespace

Connection::Connection(Socket socket, Side& side)
    : stream_(std::move(socket)),
      side_(side),
      late_(stream_.get_executor()),
      buffer_(std::size_t{2} * kHeaderBytes) {}

// shutdown() reaches the peer even while a forked child holds a copy of the descriptor.
Connection::~Connection() {
  stopWaiting();
  side_.unsent_bytes -= unsent_bytes_;
  ErrorCode ignored;
  stream_.socket().shutdown(Socket::shutdown_both, ignored);
}

void Connection::end() {
  stopWaiting();
  ErrorCode ignored;
  stream_.socket().shutdown(Socket::shutdown_both, ignored);
  stream_.close();
}

void Connection::waitForClient(std::chrono::milliseconds limit) {
  stream_.expires_after(limit);
  stopWaiting();
  place_ = side_.waiting.insert(side_.waiting.end(), this);
  waits_ = true;
}

void Connection::stopWaiting() {
  if (!waits_) return;
  side_.waiting.erase(place_);
  waits_ = false;
}

void Connection::read() {
  parser_.emplace();
  parser_->header_limit(kHeaderBytes);
  parser_->body_limit(kBodyBytes);
  waitForClient(side_.limits.request);
  http::async_read_header(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](ErrorCode error, std::size_t) { self->onHeader(error); });
}

void Connection::onBroken(ErrorCode error) {
  auto response = complaint(error);
  if (!response) return;  // closed, reset or timed out
  closes_ = true;
  respond(std::move(*response));
}

void Connection::onHeader(ErrorCode error) {
  if (error) {
    onBroken(error);
    return;
  }
  if (auto refused = refusal()) {
    closes_ = !parser_->is_done();  // a body that nobody wants is not read
    respond(std::move(*refused));
  } else if (parser_->is_done()) {
    ask();
  } else if (parser_->get()[http::field::expect].empty()) {
    readBody();
  } else {
    go_on_ = {};
    go_on_.result(http::status::continue_);
    http::async_write(stream_, go_on_, [self = shared_from_this()](ErrorCode problem, std::size_t) {
      if (!problem) self->readBody();
    });
  }
}

void Connection::readBody() {
  http::async_read(stream_, buffer_, *parser_,
                   [self = shared_from_this()](ErrorCode error, std::size_t) {
                     if (error) {
                       self->onBroken(error);
                     } else {
                       self->ask();
                     }
                   });
}

// By the header alone. What anybody may ask comes last, so that a stranger learns nothing before.
std::optional<Response> Connection::refusal() const {
  const auto& request = parser_->get();
  if (refuses_all_) return errorResponse(refusals::kOtherUser, "this socket is another user's");
  if (request.count(http::field::host) > 1)
    return errorResponse(refusals::kHostHeader, "there are two Host headers");
  const auto host = request.find(http::field::host);
  if (host == request.end() && request.version() >= 11) {
    return errorResponse(refusals::kHostHeader, "the Host header is missing");
  }
  const std::string_view host_value = host == request.end() ? "" : host->value();
  if (side_.guard && host != request.end() && !side_.guard->acceptsHost(host_value)) {
    return errorResponse(refusals::kOtherHost, "this server is not that host");
  }
  const auto origin = request.find(http::field::origin);
  if (origin != request.end() && !RequestGuard::acceptsOrigin(origin->value(), host_value)) {
    return errorResponse(refusals::kOtherSite, "requests from other sites are refused");
  }
  if (request.method() == http::verb::post && side_.token && !side_.of_this_user) {
    const auto given = request.find(http::field::authorization);
    if (given == request.end()) return unauthorized(false);
    if (!side_.token->accepts(given->value())) return unauthorized(true);
  }
  const std::string_view expected = request[http::field::expect];
  if (!expected.empty() && !beast::iequals(expected, "100-continue")) {
    return errorResponse(refusals::kExpectation, "of Expect only 100-continue is known");
  }
  return std::nullopt;
}

void Connection::ask() {
  auto& message = parser_->get();
  auto [target, problem] = parseTarget(message.target());
  if (!problem.empty()) {
    respond(errorResponse(refusals::kTarget, problem));
    return;
  }
  Request request;
  request.method = std::string(message.method_string());
  request.path = std::move(target.path);
  request.query = std::move(target.query);
  request.body = std::move(message.body());
  request.may_change = side_.of_this_user || side_.token.has_value();  // checked: see refusal()
  request.accept = std::string(message[http::field::accept]);
  const bool changes = request.method == "POST";
  const std::size_t reads = side_.questions.size() - side_.late_changes;
  if (side_.routes.mayBeLate(request) && (changes ? side_.late_changes >= side_.limits.late_changes
                                                  : reads >= side_.limits.late_reads)) {
    Response busy = errorResponse(refusals::kTooMuchAtOnce,
                                  "too many requests wait for an answer; try again in a while");
    busy.headers["Retry-After"] = "1";
    respond(std::move(busy));
    return;
  }
  const std::uint64_t question = ++side_.last_question;
  stream_.expires_never();
  side_.questions.emplace(question, Side::Question{shared_from_this(), changes});
  if (changes) ++side_.late_changes;
  stopWaiting();
  try {
    side_.routes.answer(std::move(request),
                        [mailbox = side_.mailbox, side = &side_, question](Response response) {
                          mailbox->run([side, question, response = std::move(response)]() mutable {
                            deliver(*side, question, std::move(response));
                          });
                        });
    if (side_.questions.contains(question)) awaitAnswer(question);
  } catch (...) {  // out of memory: this connection goes, and its place is free
    withdraw(side_, question);
    throw;
  }
}

void Connection::awaitAnswer(std::uint64_t question) {
  late_.expires_after(side_.limits.late_answer);
  late_.async_wait([side = &side_, question](ErrorCode cancelled) {
    if (cancelled) return;
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(side->limits.late_answer).count();
    deliver(*side, question,
            errorResponse(refusals::kLate,
                          "there was no answer within " + std::to_string(seconds) + " s"));
  });
}

std::shared_ptr<Connection> Connection::withdraw(Side& side, std::uint64_t question) {
  const auto found = side.questions.find(question);
  if (found == side.questions.end()) return nullptr;
  std::shared_ptr<Connection> connection = std::move(found->second.connection);
  if (found->second.changes) --side.late_changes;
  side.questions.erase(found);
  return connection;
}

// Of answers that come after the first there is no question any more.
void Connection::deliver(Side& side, std::uint64_t question, Response response) {
  const std::shared_ptr<Connection> connection = withdraw(side, question);
  if (!connection) return;
  connection->late_.cancel();
  connection->respond(std::move(response));
}

void Connection::answerAll(Side& side, const Response& response) {
  while (!side.questions.empty()) {
    const auto& [question, asked] = *side.questions.begin();
    asked.connection->closes_ = true;
    deliver(side, question, response);
  }
}

void Connection::respond(Response response) {
  if (side_.unsent_bytes + response.body.size() > side_.limits.unsent_bytes) {
    response =
        errorResponse(refusals::kAnswersNotTaken, "too many clients do not take their answers");
  }
  unsent_bytes_ = response.body.size();
  side_.unsent_bytes += unsent_bytes_;
  const auto& request = parser_->get();
  message_ = messageOf(std::move(response));
  message_.version(request.version() == 10 ? 10 : 11);
  message_.keep_alive(!closes_ && !refuses_all_ && request.keep_alive());
  message_.prepare_payload();
  if (request.method() == http::verb::head) message_.body().clear();  // Content-Length stays
  write();
}

void Connection::write() {
  waitForClient(side_.limits.response);
  http::async_write(stream_, message_, [self = shared_from_this()](ErrorCode error, std::size_t) {
    self->onWritten(error);
  });
}

void Connection::onWritten(ErrorCode error) {
  side_.unsent_bytes -= std::exchange(unsent_bytes_, 0);
  message_.body() = {};
  if (error) return;
  if (message_.keep_alive()) {
    read();
    return;
  }
  stream_.socket().shutdown(Socket::shutdown_send, error);
  stream_.expires_after(kDrainTimeout);
  drain();
}

// Closing with unread bytes would reset the connection, and the client might lose the response.
void Connection::drain() {
  stream_.async_read_some(asio::buffer(drained_),
                          [self = shared_from_this()](ErrorCode error, std::size_t bytes) {
                            self->drained_bytes_ += bytes;
                            if (!error && self->drained_bytes_ < kDrainBytes) self->drain();
                          });
}

}  // namespace ebbtide::metrics
