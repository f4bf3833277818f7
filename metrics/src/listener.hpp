// Listener: accepts the connections of one side and makes room for them.
#pragma once

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "connection.hpp"
#include "fork_closing.hpp"
#include "side.hpp"

namespace ebbtide::metrics {

class Listener {
 public:
  // Takes a listening descriptor of that family over.
  Listener(boost::asio::io_context& context, int family, int descriptor, Side& side);

  void accept();
  int descriptor() { return acceptor_.native_handle(); }

 private:
  void onAccept(boost::system::error_code error, Connection::Socket socket);

  boost::asio::basic_socket_acceptor<boost::asio::generic::stream_protocol> acceptor_;
  ForkClosing not_in_children_;
  boost::asio::steady_timer pause_;
  Side& side_;
};

}  // namespace ebbtide::metrics
