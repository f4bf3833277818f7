// RequestGuard: which requests a browser may have been tricked into sending.
//
// A page on another site can make a browser request http://127.0.0.1, and by rebinding its own name
// to that address even read the answer. The first is told by Origin, the second by a Host that is
// not ours.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ebbtide::metrics {

class RequestGuard {
 public:
  // `bound_address` is an IP literal; 0.0.0.0 and :: accept every literal.
  explicit RequestGuard(std::string bound_address);
  RequestGuard(std::string bound_address, const std::string& machine_name,
               const std::vector<std::string>& search_domains);

  // `host` as the header has it, with or without port. Accepts localhost, loopback addresses, the
  // bound address, and this machine's name: as the machine says it, without its domain, and in the
  // domains in which it looks for others.
  bool acceptsHost(std::string_view host) const;

  // True for http:// or https:// with exactly this host and port.
  static bool acceptsOrigin(std::string_view origin, std::string_view host);

 private:
  std::string bound_address_;
  bool any_address_;
  std::vector<std::string> names_;  // whole ones, this machine's
};

}  // namespace ebbtide::metrics
