#include "listener.hpp"

#include <fcntl.h>

#include <chrono>
#include <memory>
#include <utility>

#include "unix_socket.hpp"

namespace ebbtide::metrics {
namespace {

constexpr std::chrono::milliseconds kAcceptPause{100};

}  // namespace

Listener::Listener(boost::asio::io_context& context, int family, int descriptor, Side& side)
    : acceptor_(context, boost::asio::generic::stream_protocol(family, 0), descriptor),
      not_in_children_(descriptor),
      pause_(context),
      side_(side) {}

void Listener::accept() {
  acceptor_.async_accept([this](boost::system::error_code error, Connection::Socket socket) {
    onAccept(error, std::move(socket));
  });
}

void Listener::onAccept(boost::system::error_code error, Connection::Socket socket) {
  if (error == boost::asio::error::operation_aborted) return;
  if (error) {  // out of descriptors, usually: try again later instead of spinning
    pause_.expires_after(kAcceptPause);
    pause_.async_wait([this](boost::system::error_code aborted) {
      if (!aborted) accept();
    });
    return;
  }
  // A program started by the trainer must not keep the connection open.
  ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
  accept();  // first, so that a connection that cannot be made does not end the listening
  // A client that is slow or silent makes room for a new one. Those whose answers are waited for
  // are fewer than may be open.
  while (side_.connections() >= side_.limits.connections && !side_.waiting.empty()) {
    side_.waiting.front()->end();
  }
  const auto connection = std::make_shared<Connection>(std::move(socket), side_);
  if (side_.of_this_user && !peerIsThisUser(connection->descriptor())) connection->refuseAll();
  connection->read();
}

}  // namespace ebbtide::metrics
