// When a Session looks for which rank of its job it is, and when it says where it is to be found.
#include "config/rank_socket.hpp"
#include "runtime/session.hpp"

namespace ebbtide::plugin {

void Session::readPlace() {
  if (config_->isTold() && !life_.forked) return;
  const Held held = mutex_.hold();
  rank_.discovery.begin(held, rankPlaceFromEnvironment(), RankSocket::jobIdFromEnvironment());
  budget_.takeAtOnce(held);  // no step has begun
}

// The first step of a forked child that ran backward is over: it trains.
void Session::showChild() {
  rank_.discovery.showChild();
  {
    const Held held = mutex_.hold();
    life_.shows = true;
  }
  planning_.wake();  // the planning thread does the rest
}

// A refusal stands last.
void Session::settleAtEnd() {
  bool refused = false;
  {
    const Held held = mutex_.hold();
    refused = budget_.verdict().refusal().stop(held).raised();
  }
  if (!refused) return rank_.discovery.settleAtEnd();
  outputs_.metrics.openFile();
}

}  // namespace ebbtide::plugin
