// NodeView: what the ranks of one machine say, as one. Its routes are those of the own rank, and:
//
//   /metrics      the series of all ranks, each family once; how many were expected and answered
//   /v1/node      the status of all ranks; of one that does not answer, why
//   ?rank=N       passes a request for /metrics or /v1/... on to that rank
//
// The own rank is asked directly, its siblings over the sockets in the job's folder, all at once
// and without waiting; of many 64 at once. One that does not answer within 1 s is left out.
// Questions for the same, in the same format, that come meanwhile get the same answer.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ebbtide/metrics/node_options.hpp"
#include "ebbtide/metrics/routes.hpp"
#include "mailbox.hpp"
#include "rank_client.hpp"

namespace ebbtide::metrics {

class NodeView {
 public:
  NodeView(boost::asio::io_context& context, std::shared_ptr<Mailbox> mailbox, NodeOptions options,
           Routes own);
  NodeView(const NodeView&) = delete;
  NodeView& operator=(const NodeView&) = delete;

  // To be asked on the context's thread, as long as this lives.
  Routes routes();

 private:
  struct Part {
    int rank = 0;
    Response response;
  };
  struct Gathering;
  using Join =
      std::function<Response(const std::vector<Part>&)>;  // parts by rank, the own among them

  // Asks all ranks and answers with what `join` makes of it.
  void gather(const Request& request, Join join, Answer answer);
  void askAll(const Request& asked, const std::string& question, Join join,
              const std::shared_ptr<Gathering>& gathering);
  void pass(Request request, const Answer& answer);  // to the rank that its query names
  std::map<int, std::string> siblings() const;       // their sockets, by rank

  Response joinedMetrics(const std::vector<Part>& parts) const;
  Response joinedStatus(const std::vector<Part>& parts) const;

  const NodeOptions options_;
  const Routes own_;
  const std::shared_ptr<Mailbox> mailbox_;
  RankClient client_;
  std::map<std::string, std::vector<Answer>> asked_;  // who waits for the same, by path and format
  const std::shared_ptr<const bool> lives_ = std::make_shared<bool>(true);
};

}  // namespace ebbtide::metrics
